// labels: mpi
// ranks: 4
// timeout: 120
// A sum in two steps, inside nodes and across them: ranks of all nodes round with draws of their own, so that errors of equal inputs average out over all of them. Draws
// are keyed, so all numbers here are the same in every run.
#include <deque>

#include "core/random.h"
#include "models/parallel/channels/row_exchange.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t rows = 256, columns = 256;
constexpr const char* four_bits = "group:bits=4,round=stochastic";

Tensor normal() {
  Tensor x(Shape{rows, columns});
  const Random random(7, "draws of nodes");
  for (std::int64_t i = 0; i < rows * columns; ++i) x.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}

double squares_of_errors(std::span<const float> sum, std::span<const float> x, double factor) {
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += std::pow(sum[i] - factor * x[i], 2);
  return squares;
}

/// The own rows of the whole sum over four ranks, two to a node, that all hold x, and where they begin.
std::pair<Tensor, std::int64_t> two_steps(const Tensor& x, const std::string& inside, const std::string& across, std::uint64_t sender = 0) {
  const MeshShape mesh{.dp = world().size(), .dp_nodes = 2};
  const RowOwners owners{mesh.data(), data_coordinates(mesh, world().rank())};
  ChannelSpec whole;
  whole.name = "gradients", whole.traffic = TrafficClass::grad_reduce_scatter;
  std::vector<std::unique_ptr<Communicator>> groups;
  std::deque<ChannelPair> pairs;  // they are pointed at
  NamedChannels named;
  for (const ChannelSpec& spec : row_exchange_channels(whole, mesh.data())) {
    groups.push_back(world().split(group_of(data_groups(mesh, spec.group), world().rank()), world().rank()));
    CompressRule rule;
    rule.codec = spec.level == ChannelLevel::inside ? inside : across;
    ChannelPairOptions options;
    options.level = spec.level;
    named[spec.name] = &pairs.emplace_back(*groups.back(), spec.traffic, rule, options);
  }
  RowExchange exchange(named, whole.name, owners, 0);
  const RowBlock own = owners.own(rows);
  Tensor out(Shape{own.count, columns});
  double waited_us = 0;
  exchange.wait(exchange.reduce(0, MessageKey{.tensor = 5, .step = 3, .sender = sender}, x.view(), out.view()), "sum", waited_us);
  return {std::move(out), own.first};
}

/// The squares of its errors, of all rows.
double squares_of_two_steps(const Tensor& x, const std::string& inside, const std::string& across) {
  const auto [out, first] = two_steps(x, inside, across);
  const double mine = squares_of_errors(out.as<float>(), x.as<float>().subspan(static_cast<std::size_t>(first * columns), static_cast<std::size_t>(out.elements())), world().size());
  double all = 0;
  world().all_reduce(&mine, &all, 1, DType::f64, ReduceOp::sum)->wait();
  return all;
}

// What two groups sum is averaged (replicas) or added (a tied table's stages): errors that were the same would stay.
TEST(TwoLevelRounding, GroupsThatSayWhoTheyAreRoundApart) {
  const Tensor x = normal();
  const auto one = two_steps(x, four_bits, "none", 1), other = two_steps(x, four_bits, "none", 2);
  double squares[2] = {}, together = 0;
  for (std::int64_t i = 0; i < one.first.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double exact = world().size() * x.as<float>()[at + static_cast<std::size_t>(one.second * columns)];
    const double a = one.first.as<float>()[at] - exact, b = other.first.as<float>()[at] - exact;
    squares[0] += a * a, squares[1] += b * b, together += a * b;
  }
  EXPECT_LT(std::abs(together), 0.05 * std::sqrt(squares[0] * squares[1]));
}

TEST(TwoLevelRounding, ErrorsOfEqualInputsAverageOutOverTheRanksOfAllNodes) {
  const Tensor x = normal();
  const auto alone = world().split(world().rank(), 0);  // the sum of one rank is a message of its own
  Channel channel(*alone, {.traffic = TrafficClass::grad_reduce_scatter, .codec = four_bits, .protocol = Protocol::gather, .comm_dtype = DType::f32});
  Tensor out(x.shape());
  channel.all_reduce(x.view(), out.view(), MessageKey{.tensor = 5, .step = 3}).wait();
  const double single = std::sqrt(squares_of_errors(out.as<float>(), x.as<float>(), 1));
  ASSERT_GT(single, 0.1 * std::sqrt(static_cast<double>(rows * columns)));
  for (const char* across : {"none", "group:bits=8,round=stochastic"})
    EXPECT_NEAR(std::sqrt(squares_of_two_steps(x, four_bits, across)) / world().size() / single, 1 / std::sqrt(static_cast<double>(world().size())), 0.02) << across;
}

}  // namespace
}  // namespace thinwire
