// labels: unit
// The kernels that this program got: every main of the project begins with choose_blas_kernels().
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "core/process/blas_kernels.h"
#include "kernels/nn/gemm/gemm.h"

namespace thinwire {
namespace {

TEST(BlasKernels, AProgramRunsOnKernelsOfItsProcessorsAge) {
  const float one = 1;
  float sum = 0;
  nn::gemm<float>(nn::Transpose::no, nn::Transpose::no, 1, 1, 1, 1, &one, 1, &one, 1, 0, &sum, 1);  // OpenBLAS is loaded
  EXPECT_EQ(sum, 1);
  using GetName = const char* (*)();
  const auto name = reinterpret_cast<GetName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (name == nullptr) GTEST_SKIP() << "SKIPPED: another BLAS than OpenBLAS";
#if defined(__x86_64__)
  EXPECT_EQ(better_blas_kernels(name(), {.avx2_fma = features_of_this_processor().avx2_fma}), "") << name();
#else
  GTEST_SKIP() << "SKIPPED: only x86-64 has these tables";
#endif
}

}  // namespace
}  // namespace thinwire
