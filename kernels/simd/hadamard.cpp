#include "kernels/simd/hadamard.h"

#include <algorithm>
#include <bit>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/hadamard.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

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
using F32 = hn::CappedTag<float, 8>;
using V = hn::Vec<F32>;

/// The strides within vectors that are below `size`: lanes l and l ^ stride become their sum and their difference.
HWY_INLINE V WithinVector(F32 d, V v, std::size_t size) {
  const hn::Repartition<std::uint32_t, F32> du;
  const auto lane = hn::Iota(du, 0);
  const auto pass = [&](V other, unsigned stride) HWY_ATTR {
    // Lanes of the upper half have -v here: other + -v is a - b to the bit.
    const auto upper = hn::ShiftLeftSame(hn::And(lane, hn::Set(du, stride)), 31 - std::countr_zero(stride));
    return hn::Add(other, hn::BitCast(d, hn::Xor(hn::BitCast(du, v), upper)));
  };
  v = pass(hn::Shuffle2301(v), 1);
  if (size > 2) v = pass(hn::Shuffle1032(v), 2);
#if HWY_MAX_BYTES >= 32
  if (size > 4 && hn::Lanes(d) > 4) v = pass(hn::SwapAdjacentBlocks(v), 4);
#endif
  return v;
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

/// n is a multiple of the block and of the vector.
template <bool kSigns>
void VectorBlocks(const float* x, std::size_t n, std::size_t size, const float* signs, bool behind, float* to) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d), piece = std::max(size, lanes);
  const auto scale = hn::Set(d, 1.0f / std::sqrt(static_cast<float>(size)));
  for (std::size_t begin = 0; begin < n; begin += piece) {
    float* const y = to + begin;
    for (std::size_t k = 0; k < piece; k += lanes) {
      auto v = hn::LoadU(d, x + begin + k);
      if (kSigns && !behind) v = hn::Mul(v, hn::LoadU(d, signs + begin + k));
      hn::StoreU(WithinVector(d, v, size), d, y + k);
    }
    std::size_t stride = lanes;
    for (; 4 * stride <= size; stride *= 4) TwoStrides(d, y, size, stride);
    if (2 * stride <= size) OneStride(d, y, size, stride);
    for (std::size_t k = 0; k < piece; k += lanes) {
      auto v = hn::Mul(hn::LoadU(d, y + k), scale);
      if (kSigns && behind) v = hn::Mul(v, hn::LoadU(d, signs + begin + k));
      hn::StoreU(v, d, y + k);
    }
  }
}
#endif

void Blocks(const float* x, std::size_t n, std::size_t size, const float* signs, bool behind, float* to) {
#if HWY_TARGET != HWY_SCALAR
  const std::size_t lanes = hn::Lanes(F32());
  const std::size_t whole = lanes == 4 || lanes == 8 ? n / std::max(size, lanes) * std::max(size, lanes) : 0;
  if (signs != nullptr)
    VectorBlocks<true>(x, whole, size, signs, behind, to);
  else
    VectorBlocks<false>(x, whole, size, signs, behind, to);
#else
  const std::size_t whole = 0;
#endif
  PlainBlocks(x + whole, n - whole, size, signs == nullptr ? nullptr : signs + whole, behind, to + whole);
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
