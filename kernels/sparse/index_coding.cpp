#include "kernels/sparse/index_coding.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/sparse/index_layout.h"
#include "kernels/threads.h"

namespace thinwire {

static_assert(std::endian::native == std::endian::little,
              "positions are copied to the wire as they lie in memory");

namespace {

bool ascending_below(const std::uint16_t* offsets, std::int64_t count, std::int64_t length) {
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (std::int64_t i = 1; i < count; ++i) bad |= offsets[i] <= offsets[i - 1] ? 1 : 0;
  return bad == 0 && (count == 0 || offsets[count - 1] < length);
}

}  // namespace

std::size_t index_bytes(IndexForm form, std::int64_t elements, std::int64_t kept) {
  switch (form) {
    case IndexForm::int32:
      return static_cast<std::size_t>(kept) * 4;
    case IndexForm::int64:
      return static_cast<std::size_t>(kept) * 8;
    case IndexForm::compact:
      break;
  }
  const int low_bits = compact_low_bits(elements, kept);
  return low_bits == 0 ? 0 : static_cast<std::size_t>(compact_index_bytes(elements, kept, low_bits));
}

void IndexWriter::write(IndexForm form, const SparsePositions& positions, std::byte* out) {
  const std::int64_t elements = positions.elements();
  const std::int64_t kept = positions.kept();
  const std::int64_t blocks = sparse_blocks(elements);
  const int low_bits = form == IndexForm::compact ? compact_low_bits(elements, kept) : 0;
  if (form == IndexForm::compact && low_bits == 0) return;
  scratch_.resize(std::max(scratch_.size(), static_cast<std::size_t>(omp_get_max_threads())));
  auto* counts = counts_.as<std::uint16_t>(static_cast<std::size_t>(blocks) * 256);

  parallel_ranges(blocks, 1, 1, [&](std::int64_t first, std::int64_t last, int thread) {
    auto* room = scratch_[static_cast<std::size_t>(thread)].offsets.as<std::uint16_t>(sparse_block);
    for (std::int64_t b = first; b < last; ++b) {
      const auto offsets = positions.offsets(b, room);
      const std::size_t start = static_cast<std::size_t>(positions.start(b));
      const std::size_t count = offsets.size();
      if (form == IndexForm::int32) {
        for (std::size_t i = 0; i < count; ++i) {
          const auto position = static_cast<std::uint32_t>(b * sparse_block + offsets[i]);
          std::memcpy(out + (start + i) * 4, &position, 4);
        }
      } else if (form == IndexForm::int64) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::int64_t position = b * sparse_block + offsets[i];
          std::memcpy(out + (start + i) * 8, &position, 8);
        }
      } else if (low_bits == 16) {
        if (count > 0) std::memcpy(out + start * 2, offsets.data(), count * 2);
      } else {
        std::uint16_t* bucket = counts + b * 256;
        std::memset(bucket, 0, 256 * sizeof(std::uint16_t));
        std::byte* low = out + start;
#pragma omp simd
        for (std::size_t i = 0; i < count; ++i) low[i] = static_cast<std::byte>(offsets[i] & 0xff);
        for (std::size_t i = 0; i < count; ++i) ++bucket[offsets[i] >> 8];
      }
    }
  });

  if (form != IndexForm::compact) return;
  const std::int64_t buckets = index_buckets(elements, low_bits);
  auto* stream = reinterpret_cast<std::uint8_t*>(out + kept * low_bits / 8);
  std::memset(stream, 0xff, static_cast<std::size_t>((kept + buckets + 7) / 8));
  std::int64_t before = 0;
  for (std::int64_t j = 0; j < buckets; ++j) {
    before = low_bits == 16 ? positions.start(j + 1) : before + counts[j];
    const std::int64_t bit = before + j;
    stream[bit / 8] = static_cast<std::uint8_t>(stream[bit / 8] & ~(1u << bit % 8));
  }
}

void IndexReader::corrupt(const char* why) const {
  throw CorruptData("sparse payload of " + text_of(key_) + ": " + why +
                    ": it is damaged, or was made for another shape or expression");
}

void IndexReader::open(IndexForm form, std::int64_t elements, std::int64_t kept,
                       std::span<const std::byte> bytes, const MessageKey& key) {
  form_ = form;
  elements_ = elements;
  kept_ = kept;
  bytes_ = bytes;
  key_ = key;
  key_.samples = {};  // not ours to keep
  low_bits_ = form == IndexForm::compact ? compact_low_bits(elements, kept) : 0;
  TW_ASSERT(kept <= elements);
  if (bytes.size() != index_bytes(form, elements, kept)) corrupt("the list of positions has a wrong size");
  starts_.assign(static_cast<std::size_t>(sparse_blocks(elements)) + 1, 0);
  if (form != IndexForm::compact) {
    open_flat();
  } else if (low_bits_ == 0) {
    for (std::size_t b = 0; b < starts_.size(); ++b)
      starts_[b] = std::min(elements, static_cast<std::int64_t>(b) * sparse_block);
  } else {
    open_compact();
  }
}

std::int64_t IndexReader::flat(std::int64_t i) const {
  if (form_ == IndexForm::int32) {
    std::uint32_t position = 0;
    std::memcpy(&position, bytes_.data() + i * 4, 4);
    return position;
  }
  std::int64_t position = 0;
  std::memcpy(&position, bytes_.data() + i * 8, 8);
  return position;
}

// Where blocks start, by bisection. A list that is not ascending gives starts that offsets() then refutes,
// because it checks every element against the bounds of its block.
void IndexReader::open_flat() {
  std::int64_t low = 0;
  for (std::size_t b = 1; b + 1 < starts_.size(); ++b) {
    const std::int64_t bound = static_cast<std::int64_t>(b) * sparse_block;
    std::int64_t high = kept_;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (flat(middle) < bound)
        low = middle + 1;
      else
        high = middle;
    }
    starts_[b] = low;
  }
  starts_.back() = kept_;
}

// One pass over the bit stream finds the first element and the first bit of every block.
void IndexReader::open_compact() {
  const std::int64_t buckets = index_buckets(elements_, low_bits_);
  const std::int64_t length = kept_ + buckets;  // bits
  const std::int64_t per_block = low_bits_ == 8 ? 256 : 1;
  const auto stream = bytes_.subspan(static_cast<std::size_t>(kept_ * low_bits_ / 8));
  stream_.assign(stream.size() / 8 + 2,
                 ~std::uint64_t{0});  // ones behind the end, as the last byte is filled
  std::memcpy(stream_.data(), stream.data(), stream.size());
  bits_.assign(starts_.size(), 0);
  std::size_t block = 0;
  std::int64_t zeros = 0;
  for (std::size_t w = 0; static_cast<std::int64_t>(w) * 64 < length; ++w) {
    std::uint64_t ends = ~stream_[w];
    const int here = std::popcount(ends);
    while (block + 1 < starts_.size()) {
      // The zero that ends this block is number `ending`, counted from 0; the last block may be short.
      const std::int64_t ending = std::min(static_cast<std::int64_t>(block + 1) * per_block, buckets) - 1;
      if (ending >= zeros + here) break;
      std::uint64_t rest = ends;
      for (std::int64_t skip = ending - zeros; skip > 0; --skip) rest &= rest - 1;
      const std::int64_t bit = static_cast<std::int64_t>(w) * 64 + std::countr_zero(rest);
      ++block;
      starts_[block] = bit - ending;
      bits_[block] = bit + 1;
    }
    zeros += here;
  }
  // All bucket ends inside the stream, the last of them its last bit, and only ones behind it.
  if (zeros != buckets || block + 1 != starts_.size() || bits_.back() != length || starts_.back() != kept_)
    corrupt("the bit stream of positions does not hold the kept elements");
}

std::span<const std::uint16_t> IndexReader::offsets(std::int64_t block, std::uint16_t* scratch) const {
  const std::int64_t first = start(block);
  const std::int64_t count = start(block + 1) - first;
  const std::int64_t length = std::min(sparse_block, elements_ - block * sparse_block);
  if (count < 0 || count > length) corrupt("a block keeps more elements than it has");
  if (form_ != IndexForm::compact) {
    std::int64_t previous = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t offset = flat(first + i) - block * sparse_block;
      if (offset <= previous || offset >= length) corrupt("positions are not ascending inside the tensor");
      scratch[i] = static_cast<std::uint16_t>(offset);
      previous = offset;
    }
  } else if (low_bits_ == 0) {
    for (std::int64_t i = 0; i < count; ++i) scratch[i] = static_cast<std::uint16_t>(i);
  } else if (low_bits_ == 16) {
    if (count > 0) std::memcpy(scratch, bytes_.data() + first * 2, static_cast<std::size_t>(count) * 2);
    if (!ascending_below(scratch, count, length)) corrupt("positions are not ascending inside the tensor");
  } else {
    const auto* low = reinterpret_cast<const std::uint8_t*>(bytes_.data()) + first;
    std::int64_t bit = bits_[static_cast<std::size_t>(block)];
    std::int64_t i = 0;
    const int buckets = static_cast<int>((length + 255) / 256);
    for (int bucket = 0; bucket < buckets; ++bucket) {
      // The run of ones before the next zero, by words; open_compact() has seen that the zero exists.
      std::int64_t end = i;
      for (;;) {
        const std::size_t w = static_cast<std::size_t>(bit / 64);
        const int shift = static_cast<int>(bit % 64);
        const int run = std::countr_one(stream_[w] >> shift);  // zeros come in from above: at most 64 - shift
        end += run;
        bit += run;
        if (run < 64 - shift) break;
      }
      ++bit;
      const auto high = static_cast<std::uint16_t>(bucket << 8);
      if (end > count) corrupt("a block keeps more elements than it has");
      for (; i < end; ++i) scratch[i] = static_cast<std::uint16_t>(high | low[i]);
    }
    if (!ascending_below(scratch, count, length)) corrupt("positions are not ascending inside the tensor");
  }
  return {scratch, static_cast<std::size_t>(count)};
}

}  // namespace thinwire
