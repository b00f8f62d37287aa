// labels: mpi
// ranks: 2,4
// timeout: 120
// Ranks round what they send into a sum with draws of their own, in every step of a sum: errors of equal inputs average out instead of adding up. Draws are keyed, so all
// numbers here are the same in every run.
#include "core/random.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t elements = 1 << 16;

Tensor normal() {
  Tensor x(Shape{256, elements / 256});
  const Random random(7, "draws");
  for (std::int64_t i = 0; i < elements; ++i) x.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}

double relative_error(std::span<const float> sum, std::span<const float> x, double factor) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = factor * x[i];
    error += (sum[i] - exact) * (sum[i] - exact), size += exact * exact;
  }
  return std::sqrt(error / size);
}

Tensor summed(const std::string& codec, Protocol protocol, std::uint64_t draws = 0) {
  Channel channel(world(), {.traffic = TrafficClass::dp_gradient, .codec = codec, .protocol = protocol, .comm_dtype = DType::f32, .draws = draws});
  const Tensor x = normal();
  Tensor out(x.shape());
  channel.all_reduce(x.view(), out.view(), MessageKey{.tensor = 5, .step = 3}).wait();
  return out;
}

class RoundingDraws : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundingDraws, ErrorsOfEqualInputsAverageOutOverRanks) {
  const std::string codec = GetParam();
  const Tensor x = normal();
  const double together = relative_error(summed(codec, Protocol::gather).as<float>(), x.as<float>(), world().size());
  // In a group of one the sum is a message of its own.
  auto alone = world().split(world().rank(), 0);
  Channel channel(*alone, {.traffic = TrafficClass::dp_gradient, .codec = codec, .protocol = Protocol::gather, .comm_dtype = DType::f32});
  Tensor out(x.shape());
  channel.all_reduce(x.view(), out.view(), MessageKey{.tensor = 5, .step = 3}).wait();
  const double single = relative_error(out.as<float>(), x.as<float>(), 1);
  ASSERT_GT(single, 0.02);
  EXPECT_NEAR(together / single, 1 / std::sqrt(static_cast<double>(world().size())), 0.02);
}

TEST_P(RoundingDraws, AChannelOfAnotherStepRoundsOtherwise) {
  const Tensor inside = summed(GetParam(), Protocol::two_shot, 1), across = summed(GetParam(), Protocol::two_shot, 2), again = summed(GetParam(), Protocol::two_shot, 1);
  const auto a = inside.as<float>(), b = across.as<float>(), c = again.as<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), c.begin())) << "draws are keyed";
  std::size_t apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) apart += a[i] != b[i];
  EXPECT_GT(apart, a.size() / 4);
}

INSTANTIATE_TEST_SUITE_P(Stochastic, RoundingDraws, ::testing::Values("group:bits=4,round=stochastic", "qsgd:levels=16"));

}  // namespace
}  // namespace thinwire
