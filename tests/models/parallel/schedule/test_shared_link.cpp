// labels: unit
// timeout: 60
// A link that two streams share, against times worked out by hand, and its work against what was started, whatever that is.
#include <gtest/gtest.h>

#include <map>

#include "core/random.h"
#include "models/parallel/schedule/shared_link.h"

namespace thinwire {
namespace {

struct Times {
  double begin, arrival;
};

std::map<std::size_t, Times> drain(SharedLink& link) {
  std::map<std::size_t, Times> times;
  for (const auto stream : {SharedLink::gathers, SharedLink::reductions})
    while (const auto done = link.next_done(stream)) times[done->id] = {done->at.begin, done->at.arrival};
  return times;
}

void expect_times(const std::map<std::size_t, Times>& found, const std::map<std::size_t, Times>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [id, times] : expected) {
    EXPECT_DOUBLE_EQ(found.at(id).begin, times.begin) << "transfer " << id;
    EXPECT_DOUBLE_EQ(found.at(id).arrival, times.arrival) << "transfer " << id;
  }
}

TEST(SharedLink, TransfersOfAStreamFollowEachOther) {
  SharedLink link;
  link.start(SharedLink::gathers, 0, 1, {4, 1});
  link.start(SharedLink::gathers, 1, 2, 2);
  link.start(SharedLink::gathers, 2, 20, {0, 3});
  expect_times(drain(link), {{0, {1, 6}}, {1, {6, 8}}, {2, {20, 23}}});
}

TEST(SharedLink, StreamsShareItWhileBothHaveOneUnderWay) {
  SharedLink equal;
  equal.start(SharedLink::gathers, 0, 0, 4);
  equal.start(SharedLink::reductions, 1, 0, 4);
  expect_times(drain(equal), {{0, {0, 8}}, {1, {0, 8}}});

  // Alone until 1; 3 and 10 are left, shared until 7; nothing else has the link while 0 is on its way without it, until 8; 6 and 2 are left, shared until 12.
  SharedLink link;
  link.start(SharedLink::gathers, 0, 0, {4, 1});
  link.start(SharedLink::reductions, 1, 1, 10);
  link.start(SharedLink::gathers, 2, 2, 2);
  expect_times(drain(link), {{0, {0, 8}}, {1, {1, 16}}, {2, {8, 12}}});
}

TEST(SharedLink, KnowsAnEndBeforeWhatIsStartedBehindIt) {
  SharedLink link;
  link.start(SharedLink::reductions, 0, 0, 100);
  link.start(SharedLink::gathers, 1, 0, {3, 2});
  const auto gathered = link.next_done(SharedLink::gathers);
  ASSERT_TRUE(gathered);
  EXPECT_EQ(gathered->id, 1u);
  EXPECT_DOUBLE_EQ(gathered->at.arrival, 3 * 2 + 2);
  EXPECT_FALSE(link.next_done(SharedLink::gathers)) << "and the other has it alone again";
  EXPECT_DOUBLE_EQ(link.next_done(SharedLink::reductions)->at.arrival, 103);
}

// It carries no more than its rate, and is never idle for longer than transfers are still being started.
TEST(SharedLink, DoesTheWorkThatWasStarted) {
  const Random random(5, "transfers");
  std::uint64_t draw = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SharedLink link;
    double now = 0, work[2] = {0, 0};
    for (std::size_t id = 0; id < 20; ++id) {
      const auto stream = random.uniform(draw++) < 0.5 ? SharedLink::gathers : SharedLink::reductions;
      const double length = random.uniform(draw++);
      work[stream] += length;
      link.start(stream, id, now, length);
      now += 0.1 * random.uniform(draw++);  // more comes than it carries
    }
    double last = 0, of[2] = {0, 0};
    for (const auto stream : {SharedLink::gathers, SharedLink::reductions})
      while (const auto done = link.next_done(stream)) {
        EXPECT_GE(done->at.arrival, done->at.begin);
        EXPECT_GE(done->at.begin, of[stream]) << "one behind the other";
        of[stream] = done->at.arrival;
        last = std::max(last, done->at.arrival);
      }
    EXPECT_GE(last, work[0] + work[1] - 1e-9);
    EXPECT_LE(last, work[0] + work[1] + now + 1e-9);
  }
}

}  // namespace
}  // namespace thinwire
