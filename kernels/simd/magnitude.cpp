#include "kernels/simd/magnitude.h"

#include <algorithm>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/magnitude.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using U16 = hn::Rebind<std::uint16_t, U32>;

// Magnitudes are below 2^31, so signed comparisons and maxima (one instruction everywhere) order them.
HWY_INLINE hn::Vec<I32> Magnitude(hn::Vec<F32> v) {
  return hn::And(hn::BitCast(I32(), v), hn::Set(I32(), 0x7fffffff));
}

std::size_t CollectAtLeast(const float* HWY_RESTRICT x, std::size_t n, std::uint32_t lower,
                           std::uint16_t* HWY_RESTRICT index, float* HWY_RESTRICT value,
                           std::uint32_t& maximum) {
  const F32 d;
  const I32 di;
  const U32 du;
  const std::size_t lanes = hn::Lanes(d);
  const auto bound = hn::Set(di, static_cast<std::int32_t>(lower) - 1);
  auto largest = hn::Zero(di);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FetchAhead(x + i);
    const auto v = hn::LoadU(d, x + i);
    const auto magnitude = Magnitude(v);
    const auto keep = hn::Gt(magnitude, bound);
    if (hn::AllFalse(di, keep)) continue;
    largest = hn::Max(largest, magnitude);
    // Register compress and a full store: compress straight to memory is microcoded on some processors.
    hn::StoreU(hn::Compress(v, hn::RebindMask(d, keep)), d, value + count);
    const auto position = hn::Compress(hn::Iota(du, static_cast<std::uint32_t>(i)), hn::RebindMask(du, keep));
    hn::StoreU(hn::TruncateTo(U16(), position), U16(), index + count);
    count += hn::CountTrue(di, keep);
  }
  maximum = std::max(maximum, static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest))));
  for (; i < n; ++i) {
    const std::uint32_t bits = magnitude_bits(x[i]);
    index[count] = static_cast<std::uint16_t>(i);
    value[count] = x[i];
    count += bits >= lower ? 1 : 0;
    maximum = std::max(maximum, bits);
  }
  return count;
}

// A tile keeps a per cent or two: a branch per vector on whether it has any would be mispredicted again and again. So the elements of 64 become bits, of which the first
// four are taken without asking whether they are there.
std::size_t CollectTile(const float* HWY_RESTRICT x, std::size_t stride, std::size_t rows, std::size_t columns, std::size_t width, std::uint32_t lower,
                        std::uint16_t* HWY_RESTRICT index, float* HWY_RESTRICT value, std::uint32_t& maximum) {
  const hn::CappedTag<std::int32_t, 16> di;
  const std::size_t lanes = hn::Lanes(di);
  const auto bound = hn::Set(di, static_cast<std::int32_t>(lower) - 1), mask = hn::Set(di, 0x7fffffff);
  auto largest = hn::Zero(di);
  std::size_t count = 0;
  for (std::size_t r = 0; r < rows; ++r, x += stride) {
    const auto* const bits_of = reinterpret_cast<const std::int32_t*>(x);
    std::size_t c = 0;
    for (std::size_t length = 0; c + lanes <= columns; c += length) {
      length = std::min<std::size_t>(64, (columns - c) / lanes * lanes);
      std::uint64_t found = 0;
      for (std::size_t k = 0; k < length; k += lanes) {
        hwy::Prefetch(x + columns + c + k);
        const auto magnitude = hn::And(hn::LoadU(di, bits_of + c + k), mask);
        largest = hn::Max(largest, magnitude);
        std::uint64_t here = 0;
        hn::StoreMaskBits(di, hn::Gt(magnitude, bound), reinterpret_cast<std::uint8_t*>(&here));
        found |= here << k;
      }
      const auto many = static_cast<std::size_t>(std::popcount(found));
      const auto take = [&](std::size_t at) {
        const auto position = static_cast<std::size_t>(std::countr_zero(found)) & 63;
        index[at] = static_cast<std::uint16_t>(r * width + c + position), value[at] = x[c + position];
        found &= found - 1;
      };
      for (std::size_t i = 0; i < 4; ++i) take(count + i);
      for (std::size_t i = 4; i < many; ++i) take(count + i);
      count += many;
    }
    for (; c < columns; ++c) {
      const std::uint32_t bits = magnitude_bits(x[c]);
      index[count] = static_cast<std::uint16_t>(r * width + c);
      value[count] = x[c];
      count += bits >= lower ? 1 : 0;
      maximum = std::max(maximum, bits);
    }
  }
  maximum = std::max(maximum, static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest))));
  return count;
}

// Reads stay ahead of writes: a vector is stored at or before the place that it was loaded from.
std::size_t KeepAtLeast(std::uint16_t* index, float* value, std::size_t n, std::uint32_t lower) {
  const F32 d;
  const I32 di;
  const U32 du;
  const std::size_t lanes = hn::Lanes(d);
  const auto bound = hn::Set(di, static_cast<std::int32_t>(lower) - 1);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, value + i);
    const auto position = hn::PromoteTo(du, hn::LoadU(U16(), index + i));
    const auto keep = hn::Gt(Magnitude(v), bound);
    hn::StoreU(hn::Compress(v, hn::RebindMask(d, keep)), d, value + count);
    hn::StoreU(hn::TruncateTo(U16(), hn::Compress(position, hn::RebindMask(du, keep))), U16(), index + count);
    count += hn::CountTrue(di, keep);
  }
  for (; i < n; ++i) {
    const bool keep = magnitude_bits(value[i]) >= lower;
    index[count] = index[i];
    value[count] = value[i];
    count += keep ? 1 : 0;
  }
  return count;
}

std::size_t MagnitudesBetween(const float* HWY_RESTRICT value, std::size_t n, std::uint32_t lower,
                              std::uint32_t upper, std::uint32_t* HWY_RESTRICT out) {
  const F32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  const auto below = hn::Set(di, static_cast<std::int32_t>(lower) - 1);
  const auto above = hn::Set(di, static_cast<std::int32_t>(upper));
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto magnitude = Magnitude(hn::LoadU(d, value + i));
    const auto inside = hn::AndNot(hn::Gt(magnitude, above), hn::Gt(magnitude, below));
    if (hn::AllFalse(di, inside)) continue;
    hn::StoreU(hn::Compress(magnitude, inside), di, reinterpret_cast<std::int32_t*>(out) + count);
    count += hn::CountTrue(di, inside);
  }
  for (; i < n; ++i) {
    const std::uint32_t bits = magnitude_bits(value[i]);
    out[count] = bits;
    count += bits >= lower && bits <= upper ? 1 : 0;
  }
  return count;
}

std::uint32_t CutOfRank(const float* value, std::size_t n, std::size_t rank, std::uint32_t lower, std::uint32_t upper) {
  const F32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  while (lower < upper) {
    const std::uint32_t middle = lower + (upper - lower + 1) / 2;
    const auto bound = hn::Set(di, static_cast<std::int32_t>(middle) - 1);
    std::size_t count = 0, i = 0;
    for (; i + lanes <= n; i += lanes) count += hn::CountTrue(di, hn::Gt(Magnitude(hn::LoadU(d, value + i)), bound));
    for (; i < n; ++i) count += magnitude_bits(value[i]) >= middle ? 1 : 0;
    if (count == rank) return middle;
    if (count > rank)
      lower = middle;
    else
      upper = middle - 1;
  }
  return lower;
}

// Row after row: several rows at once would save cache traffic of the maxima, but rows a multiple of 4 KiB
// apart defeat the hardware's stream detection (measured: 14 to 17 GB/s against 37).
void ColumnMaximum(const float* HWY_RESTRICT x, std::size_t rows, std::size_t columns, std::size_t stride,
                   std::uint32_t* HWY_RESTRICT maximum) {
  const F32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  auto* m = reinterpret_cast<std::int32_t*>(maximum);
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = x + r * stride;
    std::size_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      FetchAhead(row + c);
      hn::StoreU(hn::Max(hn::LoadU(di, m + c), Magnitude(hn::LoadU(d, row + c))), di, m + c);
    }
    for (; c < columns; ++c) maximum[c] = std::max(maximum[c], magnitude_bits(row[c]));
  }
}

std::uint32_t MaximumBits(const float* x, std::size_t n) {
  const F32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(di), b = a;
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    FetchAhead(x + i);
    FetchAhead(x + i + lanes);
    a = hn::Max(a, Magnitude(hn::LoadU(d, x + i)));
    b = hn::Max(b, Magnitude(hn::LoadU(d, x + i + lanes)));
  }
  auto maximum = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, hn::Max(a, b))));
  for (; i < n; ++i) maximum = std::max(maximum, magnitude_bits(x[i]));
  return maximum;
}

void StreamCopy(float* HWY_RESTRICT to, const float* HWY_RESTRICT from, std::size_t n) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  while (i < n && reinterpret_cast<std::uintptr_t>(to + i) % (lanes * sizeof(float)) != 0) {
    to[i] = from[i];
    ++i;
  }
  for (; i + lanes <= n; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  for (; i < n; ++i) to[i] = from[i];
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(CollectAtLeast);
HWY_EXPORT(CollectTile);
HWY_EXPORT(KeepAtLeast);
HWY_EXPORT(MagnitudesBetween);
HWY_EXPORT(CutOfRank);
HWY_EXPORT(ColumnMaximum);
HWY_EXPORT(MaximumBits);
HWY_EXPORT(StreamCopy);

std::size_t collect_at_least(const float* x, std::size_t n, std::uint32_t lower, std::uint16_t* index,
                             float* value, std::uint32_t& maximum) {
  return HWY_DYNAMIC_DISPATCH(CollectAtLeast)(x, n, lower, index, value, maximum);
}
std::size_t collect_tile(const float* x, std::size_t stride, std::size_t rows, std::size_t columns, std::size_t width, std::uint32_t lower, std::uint16_t* index, float* value,
                         std::uint32_t& maximum) {
  return HWY_DYNAMIC_DISPATCH(CollectTile)(x, stride, rows, columns, width, lower, index, value, maximum);
}
std::size_t keep_at_least(std::uint16_t* index, float* value, std::size_t n, std::uint32_t lower) {
  return HWY_DYNAMIC_DISPATCH(KeepAtLeast)(index, value, n, lower);
}
std::size_t magnitudes_between(const float* value, std::size_t n, std::uint32_t lower, std::uint32_t upper,
                               std::uint32_t* out) {
  return HWY_DYNAMIC_DISPATCH(MagnitudesBetween)(value, n, lower, upper, out);
}
std::uint32_t cut_of_rank(const float* value, std::size_t n, std::size_t rank, std::uint32_t lower, std::uint32_t upper) {
  return HWY_DYNAMIC_DISPATCH(CutOfRank)(value, n, rank, lower, upper);
}
void column_maximum(const float* x, std::size_t rows, std::size_t columns, std::size_t stride,
                    std::uint32_t* maximum) {
  HWY_DYNAMIC_DISPATCH(ColumnMaximum)(x, rows, columns, stride, maximum);
}
std::uint32_t maximum_bits(const float* x, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(MaximumBits)(x, n);
}
void stream_copy(float* to, const float* from, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(StreamCopy)(to, from, n);
  hwy::FlushStream();
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
