// One number for each block of neighbours, of as many blocks as a vector has lanes, for the files of this folder that are compiled once per target.
#if defined(THINWIRE_KERNELS_SIMD_CODES_BLOCK_TREES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_SIMD_CODES_BLOCK_TREES_INL_H_
#undef THINWIRE_KERNELS_SIMD_CODES_BLOCK_TREES_INL_H_
#else
#define THINWIRE_KERNELS_SIMD_CODES_BLOCK_TREES_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace block_trees {

#if HWY_TARGET != HWY_SCALAR
/// of(b) is a vector whose lanes belong to block b, join(lower, upper) the same of twice as many blocks: neighbouring lanes meet (ConcatEven, ConcatOdd). With kBlocks
/// the number of lanes, lane b of the result belongs to block first + b, for three operations a block where a reduction of its lanes takes many.
template <std::size_t kBlocks, class Of, class Join>
HWY_INLINE auto JoinBlocks(const Of& of, const Join& join, std::size_t first) {
  if constexpr (kBlocks == 1)
    return of(first);
  else
    return join(JoinBlocks<kBlocks / 2>(of, join, first), JoinBlocks<kBlocks / 2>(of, join, first + kBlocks / 2));
}
#endif

}  // namespace block_trees
}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
