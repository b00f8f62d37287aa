#include "kernels/sparse/random_positions.h"

#include <algorithm>
#include <bit>

namespace thinwire {

RandomPositions::RandomPositions(std::uint64_t seed, std::uint64_t stream, std::int64_t elements,
                                 std::int64_t k)
    : seed_(seed),
      stream_(stream),
      elements_(elements),
      k_(std::min(k, elements)),
      phase_(elements > 0 ? static_cast<std::int64_t>(
                                Random(seed, stream).below(0, static_cast<std::uint64_t>(elements)))
                          : 0) {}

// floor((k * position + phase) / n): a staircase with k steps over the tensor and a random phase.
std::int64_t RandomPositions::start(std::int64_t block) const {
  if (elements_ == 0) return 0;
  __extension__ using Wide = __int128;
  const std::int64_t position = std::min(block * sparse_block, elements_);
  return static_cast<std::int64_t>((static_cast<Wide>(k_) * position + phase_) / elements_);
}

std::span<const std::uint16_t> RandomPositions::offsets(std::int64_t block, std::uint16_t* scratch) const {
  const std::int64_t length = std::min(sparse_block, elements_ - block * sparse_block);
  const std::int64_t count = start(block + 1) - start(block);
  // Rejection on a bitmap: draw until enough different offsets are marked. Beyond a half, mark those left
  // out.
  const bool complement = count > length / 2;
  const std::int64_t marks = complement ? length - count : count;
  std::uint64_t map[sparse_block / 64];
  const std::int64_t words = (length + 63) / 64;
  std::fill_n(map, words, 0);
  const Random random(seed_, mix_stream(stream_, static_cast<std::uint64_t>(block) + 1));
  // As many draws as marks are missing cannot mark too many, so they need no test one by one. A full block
  // takes two offsets from a word; a short last one scales all 32 bits (bias below 2^-16).
  const bool full = length == sparse_block;
  std::uint64_t draw = 0;
  for (std::int64_t missing = marks; missing > 0;) {
    std::int64_t fresh = 0;
    const auto mark = [&](std::uint64_t offset) {
      std::uint64_t& word = map[offset / 64];
      fresh += static_cast<std::int64_t>(~word >> offset % 64 & 1);
      word |= std::uint64_t{1} << offset % 64;
    };
    for (std::int64_t left = missing; left > 0; ++draw)
      for (const std::uint32_t bits : random.block(draw)) {
        if (full) {
          if (left-- > 0) mark(bits & 0xffffu);
          if (left-- > 0) mark(bits >> 16);
        } else if (left-- > 0) {
          mark(std::uint64_t{bits} * static_cast<std::uint64_t>(length) >> 32);
        }
      }
    missing -= fresh;
  }
  std::size_t out = 0;
  for (std::int64_t w = 0; w < words; ++w) {
    std::uint64_t word = map[w];
    if (complement) {
      word = ~word;
      if (w == words - 1 && length % 64 != 0) word &= (std::uint64_t{1} << length % 64) - 1;
    }
    for (; word != 0; word &= word - 1)
      scratch[out++] = static_cast<std::uint16_t>(w * 64 + std::countr_zero(word));
  }
  return {scratch, out};
}

}  // namespace thinwire
