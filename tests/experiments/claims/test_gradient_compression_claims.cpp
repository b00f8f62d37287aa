// labels: unit
// What the claims about compressed gradients stand on beside codecs: sums over ranks in one process, losses of nodes, and the arithmetic of published numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/claims/gradient_compression/local/node_losses.h"
#include "experiments/claims/judge.h"
#include "experiments/claims/plan.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

TEST(LocalRanks, AddWhatTheCodecsSend) {
  const Shape shape{40, 1000};
  std::vector<Floats> inputs;
  for (std::uint64_t r = 0; r < 3; ++r) inputs.push_back(normal_numbers(shape.elements(), r, "input"));
  const Doubles dense = sum_of(inputs);
  // By payloads, and by rounds of which one is an OR.
  EXPECT_LE(relative_l2(LocalRanks("topk:fraction=1,values=f32", 3).reduce(inputs, shape).sum, dense), 1e-6);
  const Reduced sketched = LocalRanks("sketch:ratio=1.1,target=0.9", 3).reduce(inputs, shape);
  ASSERT_EQ(sketched.sent.size(), 2u);
  ASSERT_EQ(sketched.received.size(), 2u);
  const Doubles kept = sum_of(sketched.own);
  EXPECT_LT(relative_l2(sketched.sum, kept), 0.3);
  std::byte any{};
  for (const Bytes& own : sketched.sent.front()) any |= own[17];
  EXPECT_EQ(sketched.received.front()[17], any);
}

TEST(LocalRanks, GiveWrappersWhatAChannelGivesThem) {
  const Shape shape{1, 64};
  LocalRanks with("sign+ef", 2), memory("topk:count=1,values=f32+ef21", 2);
  const std::vector<Floats> inputs = {normal_numbers(64, 1, "a"), normal_numbers(64, 2, "b")};
  Doubles applied(64, 0.0);
  for (int step = 0; step < 5; ++step) {
    const Reduced r = with.reduce(inputs, shape, step);
    for (std::size_t i = 0; i < applied.size(); ++i) applied[i] += double{r.sum[i]};
  }
  // Applied and stored are what was received.
  const Reduced last = with.reduce(inputs, shape, 5);
  for (std::size_t i = 0; i < applied.size(); ++i) {
    double given = 0, held = 0;
    for (std::size_t r = 0; r < inputs.size(); ++r) given += 5 * double{inputs[r][i]}, held += double{last.given[r][i]} - double{inputs[r][i]};
    EXPECT_NEAR(applied[i] + held, given, 1e-5) << i;
  }
  // EF21 of constant tensors is there after as many messages as it has elements.
  Floats sum;
  for (int step = 0; step < 64; ++step) sum = memory.reduce(inputs, shape, step).sum;
  EXPECT_LE(relative_l2(sum, sum_of(inputs)), 1e-6);
}

TEST(NodeLosses, HaveTheGradientsAndBoundsOfTheirValues) {
  for (const auto kind : {NodeLosses::Kind::logistic, NodeLosses::Kind::squares}) {
    const NodeLosses f(kind, 3, 20, 5, 1);
    Doubles x = {0.3, -1, 0.7, 2, -0.2};
    const Doubles gradient = f.gradient(x);
    for (std::size_t j = 0; j < x.size(); ++j) {
      constexpr double h = 1e-5;
      Doubles up = x, down = x;
      up[j] += h, down[j] -= h;
      EXPECT_NEAR((f.value(up) - f.value(down)) / (2 * h), gradient[j], 1e-7);
    }
    // |grad f(x) - grad f(y)| <= L |x - y|, and >= mu |x - y| for squares.
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Floats far = normal_numbers(5, seed, "point");
      Doubles apart(5), change = f.gradient(Doubles(far.begin(), far.end()));
      for (std::size_t j = 0; j < 5; ++j) apart[j] = double{far[j]} - x[j], change[j] -= gradient[j];
      const double ratio = std::sqrt(squared_norm(change) / squared_norm(apart));
      EXPECT_LE(ratio, f.smoothness() * (1 + 1e-9));
      if (kind == NodeLosses::Kind::squares) {
        EXPECT_GE(ratio, f.convexity() * (1 - 1e-9));
        EXPECT_GT(f.convexity(), 0);
      }
    }
    EXPECT_GE(f.mean_smoothness(), f.smoothness() * (1 - 1e-9));  // a mean's largest curvature is at most the mean of the largest
  }
}

TEST(OnebitSpeedups, FollowFromStagesOnEthernetAndNotInTheOtherSentence) {
  thinwire::testing::TemporaryFolder folder;
  CellRunner cells{{folder.path(), folder.path(), "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error};
  JudgeContext context{Profile::smoke, folder.path(), cells};
  const auto judged = [&](const std::string& id) { return judge(*claims_named(id).front(), context, {}).outcome; };
  const Outcome pairs = judged("gradient_compression.C20b"), other = judged("gradient_compression.C20c");
  EXPECT_EQ(pairs.verdict, Verdict::confirmed) << pairs.because;
  EXPECT_NEAR(pairs.measures[0].value, 3.586, 0.001);
  EXPECT_NEAR(pairs.measures[1].value, 2.696, 0.001);
  EXPECT_EQ(other.verdict, Verdict::refuted) << other.because;
  EXPECT_NEAR(other.measures[0].value, 1.739, 0.001);
}

// Seconds of arithmetic that a plan would otherwise take.
TEST(Plan, NamesWhatClaimsCalculateInTheirOwnProcess) {
  thinwire::testing::TemporaryFolder folder;
  CellRunner cells{{folder.path(), folder.path(), "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error};
  JudgeContext context{Profile::quick, folder.path(), cells};
  EXPECT_NO_THROW(cells.about_to_calculate("sums"));
  const std::vector<ClaimPlan> plans = plan_claims(claims_named("gradient_compression.C1"), context, CellTimes());
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_TRUE(plans[0].work.cells.empty());
  EXPECT_EQ(plans[0].work.elsewhere.size(), 1u);
}

}  // namespace
}  // namespace thinwire::claims
