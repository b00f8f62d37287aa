// labels: unit
// What the claims about sharded training share: the sum over nodes in two steps, gathers of coded weights by two ranks, distances of trainings.
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/claims/sharded_compression/cells/gathered_weights.h"
#include "experiments/claims/sharded_compression/cells/messages.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "models/gpt/gpt.h"

namespace thinwire::claims::sharded_compression {
namespace {

std::vector<Values> whole_numbers(int ranks, std::size_t count) {
  std::vector<Values> gradients(static_cast<std::size_t>(ranks), Values(count));
  for (std::size_t r = 0; r < gradients.size(); ++r)
    for (std::size_t i = 0; i < count; ++i) gradients[r][i] = static_cast<float>((7 * r + 3 * i) % 11) - 5;
  return gradients;
}

TEST(TwoLevelSum, DenseHopsGiveThePlainSumWhateverTheNodes) {
  const std::vector<Values> gradients = whole_numbers(12, 48);
  const std::vector<double> exact = exact_sum(gradients);
  for (const int nodes : {1, 2, 3, 4, 6, 12}) EXPECT_EQ(relative_error(two_level_sum(gradients, {"none", "none", nodes, 12 / nodes}), exact), 0) << nodes;
}

TEST(TwoLevelSum, OneNodeAndOneRankToANodeHaveOneHop) {
  const std::vector<Values> gradients = whole_numbers(4, 64);
  const std::vector<double> exact = exact_sum(gradients);
  EXPECT_EQ(relative_error(two_level_sum(gradients, {"none", "group:bits=2", 1, 4}), exact), 0) << "nothing crosses nodes";
  EXPECT_EQ(relative_error(two_level_sum(gradients, {"group:bits=2", "none", 4, 1}), exact), 0) << "nothing stays inside";
  EXPECT_GT(relative_error(two_level_sum(gradients, {"group:bits=2", "none", 2, 2}), exact), 0.05);
  EXPECT_GT(relative_error(two_level_sum(gradients, {"none", "group:bits=2", 2, 2}), exact), 0.05);
}

TEST(TwoLevelSum, RanksThatDrawForThemselvesLoseLess) {
  std::vector<Values> gradients;
  for (int r = 0; r < 4; ++r) gradients.push_back(normal_values(1 << 14, "rank " + std::to_string(r)));
  const std::vector<double> exact = exact_sum(gradients);
  const auto error = [&](bool own_draws) { return relative_error(two_level_sum(gradients, {"none", "group:bits=4,round=stochastic", 4, 1, own_draws}), exact); };
  // Of n equal errors with correlation 1/2 the sum's variance is 1 + (n - 1)/2 times that of independent ones.
  EXPECT_NEAR(error(false) / error(true), std::sqrt(2.5), 0.1);
}

TEST(TwoRankGather, BothRanksHoldWhatWasDecodedAndMemoryFollowsTheWeights) {
  WeightMatrix matrix{17, 5, 32, {}, normal_values(5 * 32, "weights"), {}};  // three rows and two
  TwoRankGather dense("none"), coded("group:bits=4"), followed("group:bits=4+ef21");
  EXPECT_EQ(dense.gather(matrix, matrix.main, 1)[1], matrix.main);
  const auto copies = coded.gather(matrix, matrix.main, 1);
  EXPECT_EQ(copies[0], copies[1]);
  const double once = relative_error(copies[0], matrix.main);
  EXPECT_GT(once, 0.05);
  std::array<Values, 2> last;
  for (int step = 1; step <= 6; ++step) last = followed.gather(matrix, matrix.main, step);
  EXPECT_EQ(last[0], last[1]);
  EXPECT_LT(relative_error(last[0], matrix.main), 1e-3 * once) << "weights that stay are reached";
}

results::CellRecord curve_of(const std::vector<double>& losses) {
  results::CellRecord record;
  for (const double loss : losses) {
    results::TrainingCurveRow& row = record.training.curve.emplace_back();
    row.step = static_cast<std::int64_t>(record.training.curve.size()) - 1, row.loss = loss, row.grad_norm = 1;
  }
  return record;
}

TEST(Distance, IsZeroForEqualBitsAloneAndInfiniteForWhatCannotBeCompared) {
  EXPECT_EQ(distance(curve_of({5, 4}), curve_of({5, 4})), 0);
  EXPECT_NEAR(distance(curve_of({5, 4}), curve_of({5, 4.04})), 0.04 / 4.04, 1e-12);
  EXPECT_TRUE(std::isinf(distance(curve_of({5}), curve_of({5, 4}))));
  EXPECT_TRUE(std::isinf(distance(curve_of({}), curve_of({}))));
  EXPECT_TRUE(std::isinf(distance(curve_of({std::nan("")}), curve_of({5}))));
  results::CellRecord validated = curve_of({5});
  validated.training.curve[0].validation_loss = 5;
  EXPECT_TRUE(std::isinf(distance(validated, curve_of({5})))) << "one has no validation";
}

TEST(ShardedRun, MatricesAndVectorsAreThoseOfTheModel) {
  const TrainConfig c = config_of(training(4, {{"zero-stage", "3"}}));
  EXPECT_EQ(c.mesh.dp, 4);
  EXPECT_EQ(c.micro_batches(), 2);
  EXPECT_EQ(matrices_of(c).all() + vector_elements(c), GptConfig(c.model).parameters());
}

}  // namespace
}  // namespace thinwire::claims::sharded_compression
