#include "kernels/simd/tiles.h"

#include <cstdint>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/tiles.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;

template <bool kAdd, bool kStream>
void Place(const float* HWY_RESTRICT from, std::size_t from_stride, std::size_t rows, std::size_t columns, float* HWY_RESTRICT to, std::size_t to_stride) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(to) % (lanes * sizeof(float)) == 0;
    std::size_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      auto value = hn::LoadU(d, from + c);
      if (kAdd) value = hn::Add(value, hn::LoadU(d, to + c));
      if (kStream && aligned)
        hn::Stream(value, d, to + c);
      else
        hn::StoreU(value, d, to + c);
    }
    for (; c < columns; ++c) to[c] = kAdd ? to[c] + from[c] : from[c];
  }
}
void PlaceTile(const float* from, std::size_t from_stride, std::size_t rows, std::size_t columns, float* to, std::size_t to_stride, bool add, bool stream) {
  if (add) return Place<true, false>(from, from_stride, rows, columns, to, to_stride);
  stream ? Place<false, true>(from, from_stride, rows, columns, to, to_stride) : Place<false, false>(from, from_stride, rows, columns, to, to_stride);
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(PlaceTile);

void place_tile(const float* from, std::size_t from_stride, std::size_t rows, std::size_t columns, float* to, std::size_t to_stride, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(PlaceTile)(from, from_stride, rows, columns, to, to_stride, add, stream);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
