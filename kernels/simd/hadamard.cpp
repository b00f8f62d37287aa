#include "kernels/simd/hadamard.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/hadamard.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One block in place, stride by stride; also the definition of the order of operations.
void PlainBlock(float* y, std::size_t size) {
  for (std::size_t stride = 1; stride < size; stride *= 2)
    for (std::size_t i = 0; i < size; i += 2 * stride)
      for (std::size_t k = i; k < i + stride; ++k) {
        const float a = y[k], b = y[k + stride];
        y[k] = a + b;
        y[k + stride] = a - b;
      }
}

void PlainBlocks(const float* x, std::size_t n, std::size_t size, const float* signs, bool behind, float* to) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (std::size_t i = 0; i < n; ++i) to[i] = signs != nullptr && !behind ? x[i] * signs[i] : x[i];
  for (std::size_t i = 0; i < n; i += size) PlainBlock(to + i, size);
  for (std::size_t i = 0; i < n; ++i) to[i] = signs != nullptr && behind ? to[i] * scale * signs[i] : to[i] * scale;
}

#if HWY_TARGET != HWY_SCALAR
using F32 = hn::CappedTag<float, 16>;
using V = hn::Vec<F32>;
constexpr std::size_t most_lanes = hn::MaxLanes(F32()), together = 4 * most_lanes;  ///< four vectors stay in registers

/// +1 in the lanes that get a sum of a stride within vectors, -1 in those that get a difference.
HWY_INLINE V SignsOf(std::uint32_t stride) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  return hn::IfThenElse(hn::RebindMask(d, hn::Eq(hn::And(hn::Iota(du, 0), hn::Set(du, stride)), hn::Zero(du))), hn::Set(d, 1.0f), hn::Set(d, -1.0f));
}

/// The strides within vectors that are below kSize: lanes l and l ^ stride become their sum and their difference. A product with +-1 is exact, so other + v or other - v is
/// rounded once, whether or not product and sum are one operation.
template <std::size_t kSize>
HWY_INLINE V WithinVector(V v) {
  if constexpr (kSize > 1) v = hn::MulAdd(v, SignsOf(1), hn::Shuffle2301(v));
  if constexpr (kSize > 2) v = hn::MulAdd(v, SignsOf(2), hn::Shuffle1032(v));
#if HWY_MAX_BYTES >= 32
  if constexpr (kSize > 4 && most_lanes > 4) v = hn::MulAdd(v, SignsOf(4), hn::SwapAdjacentBlocks(v));
#endif
#if HWY_MAX_BYTES >= 64
  if constexpr (kSize > 8 && most_lanes > 8) v = hn::MulAdd(v, SignsOf(8), hn::ConcatLowerUpper(F32(), v, v));
#endif
  return v;
}

HWY_INLINE void SumAndDifference(V& a, V& b) {
  const V difference = hn::Sub(a, b);
  a = hn::Add(a, b), b = difference;
}

/// The strides below kSize, at most `together`; then times `scale`. n is a multiple of kSize. Signs may be null. What lies 16 KiB behind x is fetched towards the caches: codecs
/// behind it read another place.
template <std::size_t kSize>
void Quads(const float* x, std::size_t n, const float* before, const float* behind, float scale, float* to) {
  const F32 d;
  const auto factor = hn::Set(d, scale);
  const auto quad = [&](const float* from, const float* signs_before, const float* signs_behind, float* y) HWY_ATTR {
    constexpr std::size_t s = most_lanes;
    FetchAhead(from), FetchAhead(from + s), FetchAhead(from + 2 * s), FetchAhead(from + 3 * s);
    auto p = hn::LoadU(d, from), q = hn::LoadU(d, from + s), r = hn::LoadU(d, from + 2 * s), t = hn::LoadU(d, from + 3 * s);
    if (signs_before != nullptr) {
      p = hn::Mul(p, hn::LoadU(d, signs_before)), q = hn::Mul(q, hn::LoadU(d, signs_before + s));
      r = hn::Mul(r, hn::LoadU(d, signs_before + 2 * s)), t = hn::Mul(t, hn::LoadU(d, signs_before + 3 * s));
    }
    p = WithinVector<kSize>(p), q = WithinVector<kSize>(q), r = WithinVector<kSize>(r), t = WithinVector<kSize>(t);
    if constexpr (kSize > s) SumAndDifference(p, q), SumAndDifference(r, t);
    if constexpr (kSize > 2 * s) SumAndDifference(p, r), SumAndDifference(q, t);
    p = hn::Mul(p, factor), q = hn::Mul(q, factor), r = hn::Mul(r, factor), t = hn::Mul(t, factor);
    if (signs_behind != nullptr) {
      p = hn::Mul(p, hn::LoadU(d, signs_behind)), q = hn::Mul(q, hn::LoadU(d, signs_behind + s));
      r = hn::Mul(r, hn::LoadU(d, signs_behind + 2 * s)), t = hn::Mul(t, hn::LoadU(d, signs_behind + 3 * s));
    }
    hn::StoreU(p, d, y), hn::StoreU(q, d, y + s), hn::StoreU(r, d, y + 2 * s), hn::StoreU(t, d, y + 3 * s);
  };
  const auto at = [](const float* signs, std::size_t i) { return signs == nullptr ? nullptr : signs + i; };
  std::size_t i = 0;
  for (; i + together <= n; i += together) quad(x + i, at(before, i), at(behind, i), to + i);
  if (i == n) return;
  float rest[together] = {}, signs[together] = {};  // of few blocks, and of those of a row's end
  const float* const some = before != nullptr ? before : behind;
  std::memcpy(rest, x + i, (n - i) * sizeof(float));
  if (some != nullptr) std::memcpy(signs, some + i, (n - i) * sizeof(float));
  quad(rest, before != nullptr ? signs : nullptr, behind != nullptr ? signs : nullptr, rest);
  std::memcpy(to + i, rest, (n - i) * sizeof(float));
}

/// Strides s and 2 s of a block in one pass over it, with s a multiple of the vector.
HWY_INLINE void TwoStrides(F32 d, float* y, std::size_t size, std::size_t s) {
  for (std::size_t i = 0; i < size; i += 4 * s)
    for (std::size_t k = i; k < i + s; k += hn::Lanes(d)) {
      const auto p = hn::LoadU(d, y + k), q = hn::LoadU(d, y + k + s), r = hn::LoadU(d, y + k + 2 * s), t = hn::LoadU(d, y + k + 3 * s);
      const auto a = hn::Add(p, q), b = hn::Sub(p, q), e = hn::Add(r, t), f = hn::Sub(r, t);
      hn::StoreU(hn::Add(a, e), d, y + k);
      hn::StoreU(hn::Add(b, f), d, y + k + s);
      hn::StoreU(hn::Sub(a, e), d, y + k + 2 * s);
      hn::StoreU(hn::Sub(b, f), d, y + k + 3 * s);
    }
}

HWY_INLINE void OneStride(F32 d, float* y, std::size_t size, std::size_t s) {
  for (std::size_t i = 0; i < size; i += 2 * s)
    for (std::size_t k = i; k < i + s; k += hn::Lanes(d)) {
      const auto a = hn::LoadU(d, y + k), b = hn::LoadU(d, y + k + s);
      hn::StoreU(hn::Add(a, b), d, y + k);
      hn::StoreU(hn::Sub(a, b), d, y + k + s);
    }
}

/// A block that registers do not hold: what they hold in one pass, then the longer strides.
void LongBlock(const float* x, std::size_t size, const float* before, const float* behind, float scale, float* y) {
  const F32 d;
  Quads<together>(x, size, before, nullptr, 1.0f, y);
  std::size_t stride = together;
  for (; 4 * stride <= size; stride *= 4) TwoStrides(d, y, size, stride);
  if (2 * stride <= size) OneStride(d, y, size, stride);
  const auto factor = hn::Set(d, scale);
  for (std::size_t k = 0; k < size; k += most_lanes) {
    auto v = hn::Mul(hn::LoadU(d, y + k), factor);
    if (behind != nullptr) v = hn::Mul(v, hn::LoadU(d, behind + k));
    hn::StoreU(v, d, y + k);
  }
}
#endif

/// n is a multiple of the block.
void Blocks(const float* x, std::size_t n, std::size_t size, const float* signs, bool behind, float* to) {
#if HWY_TARGET != HWY_SCALAR
  if (hn::Lanes(F32()) == most_lanes) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    const float *const first = behind ? nullptr : signs, *const last = behind ? signs : nullptr;
    if (size <= together) {
      constexpr decltype(&Quads<1>) quads[] = {Quads<1>, Quads<2>, Quads<4>, Quads<8>, Quads<16>, Quads<32>, Quads<64>};
      return quads[std::countr_zero(size)](x, n, first, last, scale, to);
    }
    for (std::size_t i = 0; i < n; i += size) LongBlock(x + i, size, first == nullptr ? nullptr : first + i, last == nullptr ? nullptr : last + i, scale, to + i);
    return;
  }
#endif
  PlainBlocks(x, n, size, signs, behind, to);
}

void Hadamard(const float* x, std::size_t n, std::size_t block, const float* signs, bool behind, float* to) {
  std::size_t done = n / block * block;
  Blocks(x, done, block, signs, behind, to);
  while (done < n) {
    const std::size_t size = std::bit_floor(n - done);
    Blocks(x + done, size, size, signs == nullptr ? nullptr : signs + done, behind, to + done);
    done += size;
  }
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(Hadamard);

void hadamard(const float* x, std::size_t n, std::size_t block, const float* signs, bool signs_behind, float* to) {
  HWY_DYNAMIC_DISPATCH(Hadamard)(x, n, block, signs, signs_behind, to);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
