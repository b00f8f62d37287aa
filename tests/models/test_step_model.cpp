// labels: unit
// The step model against worked examples (papers/optimus_cc.md section 8) and closed forms.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "models/epilogue.h"
#include "models/predict/link_model.h"
#include "models/predict/step_model.h"

namespace thinwire {
namespace {

StepCosts even(int stages, double forward, double backward, double message) {
  StepCosts c;
  c.stage.assign(static_cast<std::size_t>(stages), {forward, backward, 0, 0});
  c.gradient_us.assign(static_cast<std::size_t>(stages), 0);
  c.forward_message_us = c.backward_message_us = [=](int, int) { return message; };
  return c;
}

TEST(StepModel, HasTheMakespansOfTheWorkedExamples) {
  struct Case {
    int p, m;
    double none, epilogue, all;
  };
  for (const Case& c : {Case{4, 16, 84.4, 83.5214, 80.3}, {4, 8, 48.8, 47.9214, 46.4571}, {2, 8, 38.4, 38.1071, 37.2286}, {8, 32, 176.4, 174.35, 166.4429}}) {
    const Schedule s = make_schedule("1f1b", c.p, c.m);
    StepCosts costs = even(c.p, 1, 3, 0.3);
    EXPECT_NEAR(predict_step(s, costs).step_us, c.none, 1e-4);
    costs.backward_message_us = [&](int sender, int micro) { return in_epilogue(micro, sender, c.p, c.m) ? 0.3 / 42 : 0.3; };
    EXPECT_NEAR(predict_step(s, costs).step_us, c.epilogue, 1e-4);
    costs.backward_message_us = [](int, int) { return 0.3 / 42; };
    EXPECT_NEAR(predict_step(s, costs).step_us, c.all, 1e-4);
  }
}

// T = (M+P-1)(tf+tb) + c (2M(P-1)/P + 2(P-2)); epilogue saves (P-1)(c-c'), everywhere (M(P-1)/P + P-2)(c-c'). M a multiple of P, c <= tf.
TEST(StepModel, FollowsTheClosedFormOfStrict1F1B) {
  for (int p = 2; p <= 8; ++p)
    for (int m = p; m <= 32; m += p)
      for (const double c : {0.05, 0.3, 1.0})
        for (const double backward : {1.0, 2.0, 3.0}) {
          const Schedule s = make_schedule("1f1b", p, m);
          StepCosts costs = even(p, 1, backward, c);
          const double none = (m + p - 1) * (1 + backward) + c * (2.0 * m * (p - 1) / p + 2 * (p - 2)), less = c / 41.7;
          EXPECT_NEAR(predict_step(s, costs).step_us, none, 1e-9 * none) << p << " " << m << " " << c << " " << backward;
          costs.backward_message_us = [&](int sender, int micro) { return in_epilogue(micro, sender, p, m) ? less : c; };
          EXPECT_NEAR(predict_step(s, costs).step_us, none - (p - 1) * (c - less), 1e-9 * none) << p << " " << m << " " << c << " " << backward;
          costs.backward_message_us = [&](int, int) { return less; };
          EXPECT_NEAR(predict_step(s, costs).step_us, none - (1.0 * m * (p - 1) / p + p - 2) * (c - less), 1e-9 * none)
              << p << " " << m << " " << c << " " << backward;
        }
}

// Stage s ends s (tb + c) before stage 0, so the first stages decide.
TEST(StepModel, SelectiveStagesPayUpToTheWorkedNumberAndNotBeyond) {
  const Schedule s = make_schedule("1f1b", 4, 16);
  const double base = predict_step(s, even(4, 1, 3, 0.3)).step_us;
  struct Case {
    double dense, compressed;
    std::vector<double> ends;
    int worth;
  };
  for (const Case& c : {Case{10, 2, {10, 6.7, 3.4, 2, 2}, 3}, Case{6, 1.5, {6, 2.7, 1.5, 1.5, 1.5}, 2}}) {
    for (int k = 0; k <= 4; ++k) {
      StepCosts costs = even(4, 1, 3, 0.3);
      for (int stage = 0; stage < 4; ++stage) costs.gradient_us[static_cast<std::size_t>(stage)] = stage < k ? c.compressed : c.dense;
      EXPECT_NEAR(predict_step(s, costs).step_us - base, c.ends[static_cast<std::size_t>(k)], 1e-9) << "K " << k;
    }
    EXPECT_EQ(stages_worth_compressing(c.dense, c.compressed, 3.3, 4), c.worth);
  }
  EXPECT_EQ(stages_worth_compressing(1, 2, 3.3, 4), 0);
  EXPECT_EQ(stages_worth_compressing(100, 2, 3.3, 4), 4);
}

TEST(StepModel, ExposesOnlyWhatNothingHides) {
  const Schedule s = make_schedule("1f1b", 4, 8);
  StepCosts costs = even(4, 1, 2, 0);
  costs.stage[0].forward_sums_us = 0.25;  // the first stage paces the others
  costs.gradient_us = {1, 2, 3, 0};
  costs.embedding_us = 0.5;
  costs.optimizer_us = 0.125;
  const StepPrediction p = predict_step(s, costs);
  const auto exposed = [&](StepPart part) { return p.exposed_us[static_cast<std::size_t>(part)]; };
  EXPECT_EQ(exposed(StepPart::forward_messages), 0);
  EXPECT_EQ(exposed(StepPart::backward_messages), 0);
  EXPECT_GT(exposed(StepPart::tensor_sums), 0);
  EXPECT_LE(exposed(StepPart::tensor_sums), 8 * 0.25);
  EXPECT_DOUBLE_EQ(exposed(StepPart::gradients), 1);  // stages 1 and 2 end 2 and 4 earlier: only stage 0's is seen
  EXPECT_DOUBLE_EQ(exposed(StepPart::embedding), 0.5);
  EXPECT_THROW(predict_step(s, even(3, 1, 1, 1)), UsageError);
}

TEST(LinkModel, CountsMessagesOfARing) {
  const LinkModel link{10, 8};  // 1000 bytes take one microsecond
  EXPECT_DOUBLE_EQ(link.message_us(4000), 14);
  EXPECT_DOUBLE_EQ(link.ring_all_reduce_us(4000, 4), 6 * 11);
  EXPECT_DOUBLE_EQ(link.ring_all_reduce_us(4000, 1), 0);
  EXPECT_DOUBLE_EQ(link.ring_all_gather_us(1000, 4), 3 * 11);
  EXPECT_DOUBLE_EQ(LinkModel{}.message_us(1e9), 0);
}

}  // namespace
}  // namespace thinwire
