// labels: unit
// Exchanges of rows in two steps over communicators whose collectives must start in one order on all ranks (docs/device.md, "One order"): where second steps
// begin is the program's matter, not that of transfers that end sooner or later. The ranks are played, as in tests/collectives/channel/test_issue_order.cpp.
#include "models/parallel/channels/row_exchange.h"

#include <deque>

#include "tests/collectives/channel/played_rank.h"

namespace thinwire {
namespace {

using testing::play;
using testing::Play;
using testing::Played;
using testing::PlayedInOrder;

constexpr std::int64_t rows = 8, columns = 6;  // of which the ranks of a node share out 4, and those of both nodes 2

/// The collectives that gradients and weights under way began, in this order. `rank`: which transfers are slow.
template <typename Group>
std::vector<std::string> begun_on(std::uint64_t rank) {
  play = Play{{}, rank, 0};
  Group group;
  const CompressRule rule{.codec = "quantize:bits=8", .protocol = Protocol::gather}, of_weights{.codec = "quantize:bits=8"};
  ChannelPair inside(group, TrafficClass::grad_reduce_scatter, rule, {}), across(group, TrafficClass::grad_reduce_scatter, rule, {}),
      weights_inside(group, TrafficClass::param_all_gather, of_weights, {}), weights_across(group, TrafficClass::param_all_gather, of_weights, {});
  const NamedChannels named = {{"gradients.inside", &inside}, {"gradients.across", &across}, {"weights.inside", &weights_inside}, {"weights.across", &weights_across}};
  const RowOwners owners{{.nodes = 2, .inside = 2}, {}};
  RowExchange gradients(named, "gradients", owners, 0), weights(named, "weights", owners, 0);
  Tensor gradient({rows, columns}), own({2, columns});
  gradient.fill_zero(), own.fill_zero();
  std::deque<Tensor> results;
  double waited_us = 0;
  for (int step = 0; step < 3; ++step) {
    std::deque<RowExchange::Ticket> reduced, gathered;
    for (int layer = 0; layer < 3; ++layer) {
      const MessageKey key{.tensor = hash_name("layer" + std::to_string(layer)), .step = step};
      reduced.push_back(gradients.reduce(layer, key, std::as_const(gradient).view(), results.emplace_back(Shape{2, columns}).view()));
      gathered.push_back(weights.gather(layer, key, std::as_const(own).view(), results.emplace_back(Shape{rows, columns}).view()));
      gradients.progress(), weights.progress();
    }
    for (const RowExchange::Ticket& ticket : gathered) weights.wait(ticket, "weights", waited_us);
    for (const RowExchange::Ticket& ticket : reduced) gradients.wait(ticket, "gradients", waited_us);
  }
  return play.begun;
}

TEST(RowExchangeOrder, IsTheProgramsWheneverTransfersEnd) {
  const std::vector<std::string> first = begun_on<PlayedInOrder>(0);
  ASSERT_EQ(first.size(), 3u * 3 * 4) << "three steps of three matrices, both ways in two steps";
  for (std::uint64_t rank = 1; rank < 50; ++rank) ASSERT_EQ(begun_on<PlayedInOrder>(rank), first) << "rank " << rank;
}

// There a second step begins as soon as somebody sees that it can.
TEST(RowExchangeOrder, GoesByTimeWhereTheLibraryAsksForNone) {
  const std::vector<std::string> first = begun_on<Played>(0);
  int different = 0;
  for (std::uint64_t rank = 1; rank < 50; ++rank) different += begun_on<Played>(rank) != first ? 1 : 0;
  EXPECT_GT(different, 40) << "transfers of this test end so alike that any order would be one";
}

}  // namespace
}  // namespace thinwire
