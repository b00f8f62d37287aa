// labels: mpi
// timeout: 180
// Calibration over a link of known rate: namespaces joined by a token bucket, started by
// experiments/lab/launch.sh on this very program. Whatever else the machine does, a rated link must never
// measure faster than its rate.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "collectives/channel/channel.h"
#include "collectives/link/link_calibration.h"
#include "collectives/link/link_drain.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

const std::vector<std::int64_t> sizes = {100, 4096, 65536, 300000};

bool inside() {
  return std::getenv("THINWIRE_LINK") != nullptr;
}

int start_inside(const std::string& link, int ranks, std::string& output) {
  const char* source = std::getenv("THINWIRE_SOURCE_DIR");
  char self[4096] = {};
  if (source == nullptr || readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
    output = "THINWIRE_SOURCE_DIR is not set; ctest sets it";
    return 3;
  }
  const std::string command = "env -u THINWIRE_LINK timeout -k 5 120 " + std::string(source) +
                              "/experiments/lab/launch.sh --link " + link + " --ranks " +
                              std::to_string(ranks) + " -- " + self + " --gtest_filter=InsideALink.* 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return 3;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) output += line;
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(Calibration, ARatedLinkIsNeverFasterThanItsRateAndOperationsOverItTakeItsTime) {
  if (inside()) GTEST_SKIP() << "runs in the process that starts the link";
  std::string output;
  const int status = start_inside("netns:100mbit", 2, output);
  if (status == 3) GTEST_SKIP() << output;
  EXPECT_EQ(status, 0) << output;
  EXPECT_NE(output.find("1 test"), std::string::npos) << output;
}

TEST(InsideALink, MeasuresNoFasterThanTheRate) {
  if (!inside()) GTEST_SKIP() << "runs inside the link, started by Calibration";
  const std::string link = std::getenv("THINWIRE_LINK");
  const double nominal = nominal_link_gbps(link);
  const auto rates = calibrate_link(world(), link, sizes);
  ASSERT_EQ(rates.size(), 2 * sizes.size());
  for (const LinkRate& rate : rates) {
    EXPECT_LT(rate.measured_gbps, 1.05 * nominal) << rate.bytes << " bytes " << rate.direction;
    EXPECT_GT(rate.measured_gbps, 0.02 * nominal) << rate.bytes << " bytes " << rate.direction;
    EXPECT_EQ(rate.trusted, rate.reason.empty());
  }
  // An exchange whose bucket was emptied cannot beat the rate by more than the bucket and what refills
  // meanwhile.
  Channel channel(world(), {.traffic = TrafficClass::dp_gradient,
                            .codec = "none",
                            .comm_dtype = DType::f32,
                            .algorithm = DenseAlgorithm::ring});
  channel.empty_bucket_before_transfers(token_bucket_bytes(link));
  std::vector<float> x(50000, 1.0f), y(x.size());
  for (int i = 0; i < 3; ++i) {
    const OperationReport report =
        channel.all_reduce({x.data(), Shape{50000}}, {y.data(), Shape{50000}}, key_of("x")).wait();
    const double least_us =
        static_cast<double>(report.link_bytes - 2 * token_bucket_bytes(link)) * 8e-3 / nominal;
    EXPECT_GT(report.total_us, least_us);
    EXPECT_GT(report.untimed_us, 0);
  }
}

// A small exchange after a rest: the bucket's content passes at memory speed, unless it was drained just before.
TEST(InsideALink, ADrainedLinkTakesItsTimeForTheFirstMessageAfterARest) {
  if (!inside()) GTEST_SKIP() << "runs inside the link, started by Calibration";
  const std::string link = std::getenv("THINWIRE_LINK");
  const std::unique_ptr<LinkDrain> drain = LinkDrain::open(link);
  ASSERT_NE(drain, nullptr);
  Channel channel(world(), {.traffic = TrafficClass::dp_gradient,
                            .codec = "none",
                            .comm_dtype = DType::f32,
                            .algorithm = DenseAlgorithm::ring});
  const std::int64_t bucket = token_bucket_bytes(link), elements = bucket / 4;
  std::vector<float> x(static_cast<std::size_t>(elements), 1.0f), y(x.size());
  const auto fastest_us = [&] {
    double least = 1e9;
    for (int i = 0; i < 9; ++i) {
      sleep_until_ns(now_ns() + 5'000'000);
      world().barrier();
      least = std::min(least, channel.all_reduce({x.data(), Shape{elements}}, {y.data(), Shape{elements}}, key_of("x")).wait().total_us);
    }
    return least;
  };
  const double at_the_rate_us = static_cast<double>(bucket) * 8e-3 / nominal_link_gbps(link);
  const double rested_us = fastest_us();
  EXPECT_EQ(drain->drained_bytes(), 0);
  channel.drain_link_before_transfers(drain.get());
  const double drained_us = fastest_us();
  EXPECT_GT(drain->drained_bytes(), 4 * bucket);
  // A machine can only be late, so the first claim cannot fail by accident; what the bucket earns between the drain and the first
  // byte, and below the drain's threshold, is the tolerance.
  EXPECT_GT(drained_us, 0.6 * at_the_rate_us) << "rested: " << rested_us << " us";
  std::printf("all-reduce of one bucket after a rest: %.0f us, drained %.0f us, at the rate %.0f us\n", rested_us, drained_us, at_the_rate_us);
}

}  // namespace
}  // namespace thinwire
