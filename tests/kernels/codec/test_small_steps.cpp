// labels: unit
// Steps that travel as f16 become coarse below 2^-14 and end at 2^-24: what is coded there loses what that grid leaves out and no more, on the host and by its formula.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/half.h"
#include "kernels/codec/reference_check.h"
#include "support/reference_codecs.h"
#include "support/sent_payload.h"

namespace thinwire {
namespace {

TEST(StepForHalf, IsTheNextNumberOfF16AwayFromZeroBelowItsNormalNumbersAndElseTheStep) {
  for (const float step : {1.0f, 3e-4f, 0x1p-14f, 0.0f}) EXPECT_EQ(step_for_half(step), step);
  EXPECT_EQ(step_for_half(0x1p-24f), 0x1p-24f);
  EXPECT_EQ(step_for_half(0x1p-30f), 0x1p-24f);
  EXPECT_EQ(step_for_half(-0x1.8p-24f), -0x1p-23f);
  for (float step = 0x1p-26f; step < 0x1p-13f; step *= 1.07f) {
    const float travels = round_to_half(step_for_half(step));
    EXPECT_EQ(travels, step < 0x1p-14f ? step_for_half(step) : travels) << step;
    EXPECT_GE(travels, step * (1 - 0x1p-11f)) << step;
    EXPECT_LT(travels - step, 0x1p-24f) << step;
  }
}

double error_of(const std::string& codec, double sigma) {
  std::vector<float> x = testing::normal_numbers(64 * 256, 5);
  for (float& v : x) v = static_cast<float>(v * sigma);
  const Shape shape{64, 256};
  const testing::SentPayload sent = testing::send_payload(codec, x, shape);
  double squares = 0, lost = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += double{x[i]} * x[i], lost += std::pow(double{x[i]} - sent.decoded[i], 2);
  const CodecStack stack = make_codec(codec);
  const auto& check = codec_info(stack.expression.codec.name).check;
  EXPECT_NO_THROW((void)check(stack, ConstTensorView(x.data(), shape), sent.decoded)) << codec << " " << sigma;
  return std::sqrt(lost / squares);
}

TEST(SmallSteps, LoseWhatTheGridOfF16LeavesOutAndNoMore) {
  std::vector<std::string> codecs;
  for (const char* bits : {"2", "4", "8"}) {
    for (const char* range : {"symmetric", "full", "extreme", "affine", "minmax"}) codecs.push_back(std::string("group:scale=f16,bits=") + bits + ",range=" + range);
    codecs.push_back(std::string("spike:bits=") + bits);
    codecs.push_back(std::string("tah:low=") + bits + ",high=" + bits);
  }
  for (const std::string& codec : codecs) {
    const double at_one = error_of(codec, 1);
    for (const double sigma : {1e-3, 1e-4, 1e-5, 1e-6, 3e-7, 1e-7})
      // Half of a step that is at most 2^-24 too long, and an offset that is at most 2^-25 off.
      EXPECT_LT(error_of(codec, sigma), 1.1 * at_one + 0x1p-24 / sigma) << codec << " at " << sigma;
  }
}

TEST(SmallSteps, MoreBitsDoNotLoseMore) {
  for (const std::string codec : {"spike:bits=", "group:scale=f16,range=minmax,bits=", "group:scale=f16,bits="})
    for (const double sigma : {1e-5, 1e-6, 1e-7}) EXPECT_LE(error_of(codec + "8", sigma), error_of(codec + "4", sigma) + 1e-3) << codec << " at " << sigma;
}

}  // namespace
}  // namespace thinwire
