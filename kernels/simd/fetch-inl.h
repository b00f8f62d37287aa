// Memory ahead of a scan, for the files of this folder that are compiled once per target.
#if defined(THINWIRE_KERNELS_SIMD_FETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_SIMD_FETCH_INL_H_
#undef THINWIRE_KERNELS_SIMD_FETCH_INL_H_
#else
#define THINWIRE_KERNELS_SIMD_FETCH_INL_H_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {

/// What lies 16 KiB behind x: the next stripe of codecs that look twice at stripes of that size. Behind the end of a tensor it does nothing.
HWY_INLINE void FetchAhead(const float* x) { hwy::Prefetch(x + 4096); }
/// The same of stripes of 64 KiB: to the second-level cache, since the first one holds less.
HWY_INLINE void FetchFarAhead(const float* x) { __builtin_prefetch(x + 16384, /*write=*/0, /*locality=*/2); }

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
