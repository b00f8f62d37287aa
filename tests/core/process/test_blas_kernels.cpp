// labels: unit
// Which kernels OpenBLAS is told to take: names and processor features that the test makes up.
#include <gtest/gtest.h>

#include "core/process/blas_kernels.h"

namespace thinwire {
namespace {

const ProcessorFeatures old = {}, zen3 = {.avx2_fma = true}, skylake = {.avx2_fma = true, .avx512 = true}, zen4 = {.avx2_fma = true, .avx512 = true, .avx512_bf16 = true},
                        sapphire = {.avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .avx512_fp16 = true};

TEST(BlasKernels, KernelsOfAnotherAgeAreReplacedByTheNearestThatTheProcessorRuns) {
  EXPECT_EQ(better_blas_kernels("Prescott", skylake), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Prescott", zen3), "Haswell");
  EXPECT_EQ(better_blas_kernels("Nehalem", zen3), "Haswell");
}

TEST(BlasKernels, WhatTheLibraryKnowsIsLeftAlone) {
  for (const char* chosen : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"}) EXPECT_EQ(better_blas_kernels(chosen, skylake), "") << chosen;
}

TEST(BlasKernels, NothingIsAskedOfAnOldProcessorOrAnotherLibrary) {
  EXPECT_EQ(better_blas_kernels("Prescott", old), "");
  EXPECT_EQ(better_blas_kernels("", skylake), "");
}

TEST(BlasKernels, AMachineIsTunedToWhatItsProcessorRuns) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(tunable_blas_kernels(old), Names());
  EXPECT_EQ(tunable_blas_kernels(zen3), (Names{"Haswell", "Zen"}));
  EXPECT_EQ(tunable_blas_kernels(skylake), (Names{"Haswell", "Zen", "SkylakeX"}));
  EXPECT_EQ(tunable_blas_kernels(zen4), (Names{"Haswell", "Zen", "SkylakeX", "Cooperlake"}));
  EXPECT_EQ(tunable_blas_kernels(sapphire), (Names{"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"}));
}

}  // namespace
}  // namespace thinwire
