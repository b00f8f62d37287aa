#include "kernels/codec/payload/code_book.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/simd/codes/group_codes.h"
#include "kernels/simd/magnitude.h"
#include "kernels/threads.h"

namespace thinwire {

static_assert(std::endian::native == std::endian::little, "books are copied as they lie in memory");

namespace {

constexpr std::int64_t segment = 1 << 16;  ///< elements with sums of their own, added up in order: the cut must not depend on threads
constexpr std::size_t stripe = 4096;        ///< 16 KiB: codes and sums of it are made while it is in the first-level cache
constexpr std::size_t long_stripe = 16384;  ///< with 256 bins, of which there are four sets to clear and to add up for each

constexpr std::int64_t tile = 4096;        ///< of what is decoded: 16 KiB stay in the first-level cache
constexpr std::int64_t few = 4096;         ///< values for which a table of bytes costs more than it saves

using Limits = std::numeric_limits<float>;

/// q - 2^(B-1) = clamp(round((x - offset) * factor)).
struct Scale {
  float offset = 0, factor = 0;
};
Scale scale_of(const simd::Moments& all, double n, const CodeBookRule& rule) {
  const double mean = rule.centred ? all.sum / n : 0;
  const double spread = std::max(0.0, all.squares - mean * (2 * all.sum - n * mean)) / std::max(1.0, n - 1);
  const double step = rule.width * std::sqrt(spread) / static_cast<double>(rule.bins());
  const double offset = mean + (rule.half_shift ? step / 2 : 0);
  // At the ends of f32 bins move, but stay bins: x - offset may be infinite there, times a factor that is not 0.
  return {static_cast<float>(std::clamp(offset, double{-Limits::max()}, double{Limits::max()})),
          step == 0 ? 0.0f : static_cast<float>(std::clamp(1 / step, double{Limits::min()}, double{Limits::max()}))};
}

/// Codes of x, a byte each or two of 4 bits in one, the first in its high half.
void encode(std::span<const float> x, const CodeBookRule& rule, const Scale& scale, simd::CodePacking packing, std::uint8_t* to) {
  const float half = static_cast<float>(rule.bins() / 2);
  const bool two = packing != simd::CodePacking::bytes;
  simd::encode_group_codes(x.data(), x.size(), x.size(), &scale.factor, &scale.offset, -half, half - 1, static_cast<std::uint8_t>(rule.bins() - 1), nullptr, packing, to);
  const auto flip = static_cast<std::uint8_t>(rule.bins() / 2 * (two ? 17 : 1));  // from two's complements
  const std::size_t bytes = two ? (x.size() + 1) / 2 : x.size();
#pragma omp simd
  for (std::size_t i = 0; i < bytes; ++i) to[i] ^= flip;
  if (two && x.size() % 2 != 0) to[bytes - 1] &= 0xf0;
}

/// Codes of one stripe after the other, and the sums of their bins: of a few values, or with a byte for each code.
void write_few(std::span<const float> x, const CodeBookRule& rule, const Scale& scale, std::uint8_t* to, simd::Bin* bins) {
  std::uint8_t apart[long_stripe];
  for (std::size_t at = 0; at < x.size(); at += long_stripe) {
    const auto some = x.subspan(at, std::min(x.size() - at, long_stripe));
    std::uint8_t* const codes = rule.bits == 8 ? to + at : apart;
    encode(some, rule, scale, simd::CodePacking::bytes, codes);
    simd::add_to_bins(some.data(), codes, some.size(), bins, rule.bins());
    if (rule.bits < 8) write_codes(codes, some.size(), rule.bits, to + rule.code_bytes(at), to + rule.code_bytes(x.size()));
  }
}

/// The same for many values whose codes share bytes.
void write_many(std::span<const float> x, const CodeBookRule& rule, const Scale& scale, std::uint8_t* to, simd::Bin* bins) {
  simd::PackedBinSums sums(rule.bits);
  std::uint8_t apart[stripe];
  for (std::size_t at = 0; at < x.size(); at += stripe) {
    const auto some = x.subspan(at, std::min(x.size() - at, stripe));
    std::uint8_t* const packed = to + rule.code_bytes(at);
    if (rule.bits == 4) {
      encode(some, rule, scale, simd::CodePacking::high_first, packed);
    } else {
      encode(some, rule, scale, simd::CodePacking::bytes, apart);
      write_codes(apart, some.size(), rule.bits, packed, to + rule.code_bytes(x.size()));
    }
    sums.add(some.data(), some.size(), packed);
  }
  sums.add_to(bins);
}

/// Values of the 4 / bits codes of half a byte: quickly made.
template <int kBits>
struct BookOfHalves {
  static constexpr std::size_t each = 4 / kBits;
  float values[16][each];
  explicit BookOfHalves(const float* book) {
    for (std::size_t half = 0; half < 16; ++half)
      for (std::size_t k = 0; k < each; ++k) values[half][k] = book[half >> (4 - kBits * (k + 1)) & ((1u << kBits) - 1)];
  }
  void put(std::uint8_t byte, float* to) const {
    std::memcpy(to, values[byte >> 4], sizeof values[0]);
    std::memcpy(to + each, values[byte & 15], sizeof values[0]);
  }
};

/// Those of a whole byte: half the work for each, where a book has enough of them.
template <int kBits>
struct BookOfBytes {
  float values[256][8 / kBits];
  explicit BookOfBytes(const float* book) {
    if constexpr (kBits == 8) {
      std::memcpy(values, book, sizeof values);
    } else {
      const BookOfHalves<kBits> halves(book);
      for (std::size_t byte = 0; byte < 256; ++byte) halves.put(static_cast<std::uint8_t>(byte), values[byte]);
    }
  }
  void put(std::uint8_t byte, float* to) const { std::memcpy(to, values[byte], sizeof values[0]); }
};

template <int kBits, typename Book>
void expand_by(const Book& book, const std::uint8_t* codes, std::int64_t n, float* out, bool add, bool stream) {
  constexpr std::int64_t each = 8 / kBits;
  parallel_ranges(n, default_grain, tile, [&](std::int64_t begin, std::int64_t end, int) {
    float apart[tile + each];
    for (std::int64_t at = begin; at < end; at += tile) {
      const std::int64_t count = std::min(tile, end - at), whole = count / each;
      float* const to = add || stream || whole * each < count ? apart : out + at;
      const std::uint8_t* const from = codes + at / each;
      for (std::int64_t b = 0; b < whole; ++b) book.put(from[b], to + b * each);
      if (whole * each < count) book.put(from[whole], to + whole * each);
      if (add) {
        float* const sum = out + at;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) sum[i] += apart[i];
      } else if (stream) {
        simd::stream_copy(out + at, apart, static_cast<std::size_t>(count));
      } else if (to == apart) {
        std::memcpy(out + at, apart, static_cast<std::size_t>(count) * sizeof(float));
      }
    }
  });
}

template <int kBits>
void expand(const float* book, const std::uint8_t* codes, std::int64_t n, float* out, bool add, bool stream) {
  if constexpr (kBits < 8)
    if (n <= few) return expand_by<kBits>(BookOfHalves<kBits>(book), codes, n, out, add, stream);
  expand_by<kBits>(BookOfBytes<kBits>(book), codes, n, out, add, stream);
}

}  // namespace

bool CodeBookWriter::write(const CodeBookRule& rule, std::span<const float> x, std::byte* book, std::byte* codes) {
  const auto n = static_cast<std::int64_t>(x.size()), segments = (n + segment - 1) / segment;
  const std::size_t bins = rule.bins();
  moments_.assign(static_cast<std::size_t>(segments), {});
  bins_.assign(static_cast<std::size_t>(segments) * bins, {});
  parallel_ranges(segments, 1, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t s = first; s < last; ++s)
      moments_[static_cast<std::size_t>(s)] = simd::moments(x.data() + s * segment, static_cast<std::size_t>(std::min(segment, n - s * segment)));
  });
  simd::Moments all;
  for (const simd::Moments& m : moments_) all.sum += m.sum, all.squares += m.squares;
  if (!std::isfinite(all.squares)) return false;
  const Scale scale = n > 0 ? scale_of(all, static_cast<double>(n), rule) : Scale{};
  const auto write_segment = rule.bits < 8 && n > few ? write_many : write_few;
  parallel_ranges(segments, 1, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t s = first; s < last; ++s) {
      const auto at = static_cast<std::size_t>(s * segment), count = static_cast<std::size_t>(std::min(segment, n - s * segment));
      write_segment(x.subspan(at, count), rule, scale, reinterpret_cast<std::uint8_t*>(codes) + rule.code_bytes(at), bins_.data() + static_cast<std::size_t>(s) * bins);
    }
  });
  for (std::size_t b = 0; b < bins; ++b) {
    simd::Bin total;
    for (std::size_t s = b; s < bins_.size(); s += bins) total.sum += bins_[s].sum, total.count += bins_[s].count;
    const auto mean = static_cast<float>(total.count > 0 ? total.sum / total.count : 0);
    std::memcpy(book + b * sizeof mean, &mean, sizeof mean);
  }
  return true;
}

bool read_code_book(const CodeBookRule& rule, const std::byte* book, const std::byte* codes, std::span<float> out, bool add, bool stream) {
  float values[256];
  std::memcpy(values, book, rule.book_bytes());
  if (simd::maximum_bits(values, rule.bins()) >= simd::non_finite_bits) return false;
  const auto* const from = reinterpret_cast<const std::uint8_t*>(codes);
  const auto n = static_cast<std::int64_t>(out.size());
  switch (rule.bits) {
    case 2:
      expand<2>(values, from, n, out.data(), add, stream);
      break;
    case 4:
      expand<4>(values, from, n, out.data(), add, stream);
      break;
    default:
      TW_ASSERT(rule.bits == 8);
      expand<8>(values, from, n, out.data(), add, stream);
  }
  return true;
}

}  // namespace thinwire
