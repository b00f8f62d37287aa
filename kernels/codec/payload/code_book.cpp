#include "kernels/codec/payload/code_book.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/simd/group_codes.h"
#include "kernels/simd/magnitude.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int64_t segment = 1 << 16;  ///< elements with sums of their own, added up in order: the cut must not depend on threads
constexpr std::int64_t stripe = 4096;      ///< 16 KiB: codes and bins of it are made while it is in the cache

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

/// Values of 8 / bits codes for every byte: the first code is in the highest bits.
template <int kBits>
struct BookOfBytes {
  static constexpr std::size_t each = 8 / kBits;
  std::array<std::array<float, each>, 256> values;
  explicit BookOfBytes(const float* book) {
    for (std::size_t byte = 0; byte < 256; ++byte)
      for (std::size_t k = 0; k < each; ++k) values[byte][k] = book[byte >> (8 - kBits * (k + 1)) & ((1u << kBits) - 1)];
  }
};

/// A table of bytes would cost more than so few codes.
constexpr std::int64_t few = 1024;
template <int kBits>
void expand_few(const float* book, const std::uint8_t* codes, std::int64_t n, float* out, bool add) {
  constexpr std::int64_t each = 8 / kBits;
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = book[codes[i / each] >> (8 - kBits * (i % each + 1)) & ((1u << kBits) - 1)];
    out[i] = add ? out[i] + value : value;
  }
}

template <int kBits>
void expand(const float* book, const std::uint8_t* codes, std::int64_t n, float* out, bool add, bool stream) {
  if (n <= few) return expand_few<kBits>(book, codes, n, out, add);
  constexpr std::int64_t each = 8 / kBits;
  const BookOfBytes<kBits> of(book);
  parallel_ranges(n, default_grain, stripe, [&](std::int64_t begin, std::int64_t end, int) {
    float apart[stripe];
    for (std::int64_t at = begin; at < end; at += stripe) {
      const std::int64_t count = std::min(stripe, end - at);
      float* const to = add || stream ? apart : out + at;
      const std::uint8_t* const from = codes + at / each;
      for (std::int64_t b = 0; b < count / each; ++b) std::memcpy(to + b * each, of.values[from[b]].data(), sizeof(float) * each);
      if (const std::int64_t rest = count % each; rest > 0) std::memcpy(to + count - rest, of.values[from[count / each]].data(), sizeof(float) * static_cast<std::size_t>(rest));
      if (add) {
        float* const sum = out + at;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) sum[i] += apart[i];
      } else if (stream) {
        simd::stream_copy(out + at, apart, static_cast<std::size_t>(count));
      }
    }
  });
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
  const float half = static_cast<float>(bins / 2);
  parallel_ranges(segments, 1, 1, [&](std::int64_t first, std::int64_t last, int) {
    std::uint8_t apart[stripe];
    for (std::int64_t at = first * segment; at < std::min(n, last * segment); at += stripe) {
      const auto count = static_cast<std::size_t>(std::min(stripe, n - at));
      simd::encode_group_codes(x.data() + at, count, count, &scale.factor, &scale.offset, -half, half - 1, static_cast<std::uint8_t>(bins - 1), nullptr, simd::CodePacking::bytes, apart);
#pragma omp simd
      for (std::size_t i = 0; i < count; ++i) apart[i] = static_cast<std::uint8_t>(apart[i] ^ (bins / 2));  // from two's complement
      simd::add_to_bins(x.data() + at, apart, count, bins_.data() + static_cast<std::size_t>(at / segment) * bins, bins);
      auto* const to = reinterpret_cast<std::uint8_t*>(codes) + rule.code_bytes(static_cast<std::size_t>(at));
      if (rule.bits == 8)
        std::memcpy(to, apart, count);
      else
        write_codes(apart, count, rule.bits, to, to + rule.code_bytes(count));
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
