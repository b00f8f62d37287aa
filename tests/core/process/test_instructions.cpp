// labels: unit
// THINWIRE_INSTRUCTIONS=avx2 within this process: what is left of the processor. Whole programs: test_avx2_program.py.
#include "core/process/instructions.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>

#include "core/error.h"

namespace thinwire {
namespace {

class Instructions : public ::testing::Test {
  void SetUp() override { all_again(); }
  void TearDown() override { all_again(); }
  static void all_again() {
    unsetenv("THINWIRE_INSTRUCTIONS");
    unsetenv("ONEDNN_MAX_CPU_ISA");
    hwy::DisableTargets(0);
  }
};

TEST_F(Instructions, WithoutTheVariableAProcessHasAllOfThem) {
  const auto before = hwy::SupportedTargets();
  limit_instructions();
  EXPECT_FALSE(keeps_to_avx2());
  EXPECT_EQ(hwy::SupportedTargets(), before);
  EXPECT_EQ(std::getenv("ONEDNN_MAX_CPU_ISA"), nullptr);
}

TEST_F(Instructions, NothingBeyondAvx2IsLeft) {
  if (!features_of_this_processor().avx2_fma) GTEST_SKIP() << "SKIPPED: this processor has no AVX2";
  setenv("THINWIRE_INSTRUCTIONS", "avx2", 1);
  limit_instructions();
#if defined(__x86_64__)
  EXPECT_EQ(hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX3_DL), 0);
  EXPECT_EQ(hwy::SupportedTargets() & HWY_AVX2, HWY_AVX2);
#endif
  const ProcessorFeatures left = features_of_this_processor();
  EXPECT_TRUE(left.avx2_fma);
  EXPECT_FALSE(left.avx512 || left.avx512_bf16 || left.avx512_fp16);
  EXPECT_STREQ(std::getenv("ONEDNN_MAX_CPU_ISA"), "AVX2");
}

TEST_F(Instructions, AnotherWordIsRefused) {
  for (const char* word : {"avx512", "AVX2", "yes"}) {
    setenv("THINWIRE_INSTRUCTIONS", word, 1);
    EXPECT_THROW(limit_instructions(), UsageError) << word;
  }
}

}  // namespace
}  // namespace thinwire
