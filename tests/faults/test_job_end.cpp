// labels: faults
// timeout: 650
// One rank's failure ends the whole job, whose other ranks would go on or sleep, with the exit code of its kind and a message that
// names the rank and what it did. The tests start mpirun on this very program; the Victim tests are what its
// ranks run.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "collectives/channel/channel.h"
#include "core/process/environment.h"
#include "core/tensor_names.h"

namespace thinwire {
namespace {

bool is_victim() {
  return std::getenv("THINWIRE_VICTIM") != nullptr;
}

struct Outcome {
  int status = -1;  ///< exit status of mpirun
  std::string output;
  bool has(const char* word) const { return output.find(word) != std::string::npos; }
};

// A job that does not end is ended by `timeout`, which says so: its status of 137 is also that of a rank killed by SIGKILL. Without
// a watchdog, unless `environment` asks for one: it would end the job in place of what is tested.
Outcome run_victim(const std::string& name, const std::string& environment = "",
                   const std::string& mpirun_options = "") {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
    throw EnvironmentError("/proc/self/exe cannot be read");
  const std::string command = "THINWIRE_VICTIM=1 THINWIRE_WATCHDOG=0 OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1 LC_ALL=C " +
                              environment +
                              " timeout -v -k 5 120 mpirun --allow-run-as-root --oversubscribe --bind-to none " +
                              mpirun_options + " -n 4 " + self + " --gtest_filter=Victim." + name + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw EnvironmentError("cannot start " + command);
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) outcome.output += line;
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  EXPECT_FALSE(outcome.has("timeout: sending signal")) << "the job did not end by itself:\n" << outcome.output;
  return outcome;
}

void expect_words(const Outcome& outcome, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_TRUE(outcome.has(word)) << "'" << word << "' is missing in:\n" << outcome.output;
}

class JobEnd : public ::testing::Test {
  void SetUp() override {
    if (is_victim()) GTEST_SKIP() << "runs in the process that starts the job";
  }
};

TEST_F(JobEnd, ANaNOnOneRankEndsTheJobNamingTensorChannelAndRank) {
  const Outcome outcome = run_victim("NaNOnRank2");
  EXPECT_EQ(outcome.status, 6);
  expect_words(outcome, {"layer7.attention.weight", "dp_gradient", "rank 2"});
}

TEST_F(JobEnd, ARankKilledBySigkillEndsTheJobOverSharedMemoryAndOverTcp) {
  const Outcome shared = run_victim("KilledRank1");
  EXPECT_NE(shared.status, 0);
  expect_words(shared, {"rank 1", "signal 9"});
  // Another rank may lose its connection, and end the job for that, before mpirun has noticed the kill.
  const Outcome tcp = run_victim("KilledRank1", "", "--mca btl tcp,self");
  EXPECT_NE(tcp.status, 0);
  const auto named = {"signal 9", "unexpectedly disconnected", "failed to TCP connect", "readv failed", "writev failed", "a rank may be lost"};
  EXPECT_TRUE(std::any_of(named.begin(), named.end(), [&](const char* word) { return tcp.has(word); })) << tcp.output;
}

TEST_F(JobEnd, AHangIsNamedByTheWatchdogWithRankChannelAndOperation) {
  const Outcome outcome = run_victim("NeverCalls", "THINWIRE_WATCHDOG=10");
  EXPECT_EQ(outcome.status, 4);
  expect_words(outcome,
               {"waited more than 10 s", "tp_forward", "all_reduce", "block.output", "THINWIRE_WATCHDOG"});
}

TEST_F(JobEnd, AnErrorWhileOperationsAreInFlightDoesNotWaitForThem) {
  const Outcome outcome = run_victim("ThrowsInFlight");
  EXPECT_EQ(outcome.status, 2);
  expect_words(outcome, {"a configuration that cannot be"});
}

// ---- what the ranks run ----

class Victim : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_victim()) GTEST_SKIP() << "runs under mpirun, started by JobEnd";
    environment_ = new MpiEnvironment(nullptr, nullptr);
    world_ = environment_->world().release();
  }
  Communicator& world() { return *world_; }
  MpiEnvironment* environment_ = nullptr;
  Communicator* world_ = nullptr;
};

TEST_F(Victim, NaNOnRank2) {
  Channel channel(
      world(),
      {.traffic = TrafficClass::dp_gradient, .codec = "topk:fraction=0.1", .protocol = Protocol::gather});
  std::vector<float> x(1000, 1.0f), y(1000);
  if (world().rank() == 2) x[500] = std::nanf("");
  MessageKey key;
  key.tensor = tensor_id("layer7.attention.weight");
  channel.all_reduce({x.data(), Shape{10, 100}}, {y.data(), Shape{10, 100}}, key).wait();
}

TEST_F(Victim, KilledRank1) {
  Channel channel(world(),
                  {.traffic = TrafficClass::dp_gradient, .codec = "none", .algorithm = DenseAlgorithm::ring});
  std::vector<float> x(100000, 1.0f), y(x.size());
  for (int i = 0;; ++i) {
    if (i == 50 && world().rank() == 1) std::raise(SIGKILL);
    channel.all_reduce({x.data(), Shape{100000}}, {y.data(), Shape{100000}}, {}).wait();
  }
}

TEST_F(Victim, NeverCalls) {
  Channel channel(world(), {.traffic = TrafficClass::tp_forward, .codec = "none"});
  std::vector<float> x(100, 1.0f);
  MessageKey key;
  key.tensor = tensor_id("block.output");
  if (world().rank() == 3) std::this_thread::sleep_for(std::chrono::seconds(600));
  channel.all_reduce({x.data(), Shape{100}}, {x.data(), Shape{100}}, key).wait();
}

TEST_F(Victim, ThrowsInFlight) {
  Channel channel(world(), {.traffic = TrafficClass::tp_forward, .codec = "none"});
  Channel other(world(),
                {.traffic = TrafficClass::tp_backward, .codec = "none", .algorithm = DenseAlgorithm::ring});
  std::vector<float> x(1000000, 1.0f), y(x.size());
  if (world().rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(600));
  const Operation a = channel.all_reduce({x.data(), Shape{1000000}}, {y.data(), Shape{1000000}}, {});
  const Operation b = other.all_reduce({x.data(), Shape{1000000}}, {y.data(), Shape{1000000}}, {});
  if (world().rank() == 1) throw UsageError("a configuration that cannot be");
  Operation(a).wait();
  Operation(b).wait();
}

}  // namespace
}  // namespace thinwire
