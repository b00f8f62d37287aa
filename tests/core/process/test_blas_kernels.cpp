// labels: unit
// Which kernels OpenBLAS is told to take: names and processor features that the test makes up.
#include <gtest/gtest.h>

#include "core/process/blas_kernels.h"

namespace thinwire {
namespace {

TEST(BlasKernels, KernelsOfAnotherAgeAreReplacedByTheNearestThatTheProcessorRuns) {
  EXPECT_EQ(better_blas_kernels("Prescott", true, true), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Prescott", true, false), "Haswell");
  EXPECT_EQ(better_blas_kernels("Nehalem", true, false), "Haswell");
}

TEST(BlasKernels, WhatTheLibraryKnowsIsLeftAlone) {
  for (const char* chosen : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"}) EXPECT_EQ(better_blas_kernels(chosen, true, true), "") << chosen;
}

TEST(BlasKernels, NothingIsAskedOfAnOldProcessorOrAnotherLibrary) {
  EXPECT_EQ(better_blas_kernels("Prescott", false, false), "");
  EXPECT_EQ(better_blas_kernels("", true, true), "");
}

}  // namespace
}  // namespace thinwire
