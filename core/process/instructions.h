// Which vector instructions this process may use.
#pragma once

namespace thinwire {

/// What kernels ask of a processor.
struct ProcessorFeatures {
  bool avx2_fma = false, avx512 = false, avx512_bf16 = false, avx512_fp16 = false;  ///< avx512: F, DQ, BW, VL and CD
};
/// Less than the processor has where the process keeps to AVX2.
ProcessorFeatures features_of_this_processor();

/// Does THINWIRE_INSTRUCTIONS say avx2? UsageError where it says anything else.
bool keeps_to_avx2();

/// With THINWIRE_INSTRUCTIONS=avx2 this process computes as on a processor without AVX-512: our vector code and oneDNN's keep to AVX2 and FMA (choose_blas_kernels()
/// does the same for OpenBLAS). Sums over vectors of other widths round otherwise, so only then do losses of such a processor repeat to the last bit on one that has
/// more. To be called before anything is computed. EnvironmentError where the processor has no AVX2.
void limit_instructions();

}  // namespace thinwire
