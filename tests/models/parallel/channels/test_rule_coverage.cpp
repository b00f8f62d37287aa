// labels: unit
// Which messages a compression rule covers: from a step on, in validations from so many steps on, at layers and stages, by size.
#include <gtest/gtest.h>

#include "models/parallel/channels/rule_coverage.h"

namespace thinwire {
namespace {

MessageKey of_step(std::int64_t step) {
  MessageKey key;
  key.step = step;
  return key;
}
/// A message of a validation's first round.
MessageKey validation_after(std::int64_t steps) {
  MessageKey key = of_step(0).with_pass(Pass::evaluate);
  key.trained_steps = steps;
  return key;
}

bool covers(const CompressRule& rule, const MessageKey& key) { return RuleCoverage(TrafficClass::tp_forward, rule, 1, 1).covers(0, 0, key); }

TEST(RuleCoverage, BeginsWithAStepAndInValidationsAfterSoMany) {
  const CompressRule rule{.codec = "cast", .warmup_steps = 5};
  EXPECT_FALSE(covers(rule, of_step(4)));
  EXPECT_TRUE(covers(rule, of_step(5)));
  EXPECT_FALSE(covers(rule, validation_after(4)));
  EXPECT_TRUE(covers(rule, validation_after(5)));
  EXPECT_TRUE(covers(rule, of_step(0).with_pass(Pass::evaluate))) << "nobody said how many steps there were";
  EXPECT_TRUE(covers({.codec = "cast"}, validation_after(0)));
}

TEST(RuleCoverage, KnowsValidationsThatItLeavesOut) {
  const CompressRule rule{.codec = "cast", .at_evaluation = false};
  EXPECT_TRUE(covers(rule, of_step(0)));
  EXPECT_TRUE(covers(rule, of_step(0).with_pass(Pass::recompute)));
  EXPECT_FALSE(covers(rule, validation_after(100)));
}

TEST(RuleCoverage, GoesByLayersStagesAndSizes) {
  const RuleCoverage coverage(TrafficClass::dp_gradient, {.codec = "cast", .layers = "1-2", .stages = "0", .min_elements = 10}, 2, 1);
  EXPECT_TRUE(coverage.covers(1, 0, of_step(0), 10));
  EXPECT_FALSE(coverage.covers(0, 0, of_step(0), 10));
  EXPECT_FALSE(coverage.covers(1, 1, of_step(0), 10));
  EXPECT_FALSE(coverage.covers(1, 0, of_step(0), 9));
  EXPECT_FALSE(RuleCoverage(TrafficClass::dp_gradient, {}, 1, 1).covers(1, 0, of_step(0)));
}

}  // namespace
}  // namespace thinwire
