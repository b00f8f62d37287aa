// labels: mpi
// ranks: 2
// States are read and written beside the link: what they hold may be hundreds of times what a step sends (AQ-SGD remembers every window), and no timed run may wait for it.
#include <gtest/gtest.h>

#include "bench/harness/options.h"
#include "bench/training/train_program.h"
#include "bench/training/train_run.h"
#include "collectives/link/counting_communicator.h"
#include "collectives/link/emulated_network.h"
#include "collectives/world.h"
#include "support/temporary_folder.h"

namespace thinwire::bench {
namespace {

using testing::world;

/// Bytes that all ranks sent over the link in a run of these settings.
std::int64_t sent_by_run(const std::map<std::string, std::string>& settings) {
  const auto count = std::make_shared<LinkBytes>();
  const auto link = make_emulated_communicator(make_counting_communicator(world().duplicate(), count), EmulatedLink{1e6, 0});
  Cell cell;
  for (const BenchOption& option : all_options(train_program())) cell.parameters.values[option.name] = option.default_value;
  for (const auto& [name, value] : settings) cell.parameters.values[name] = value;
  BenchContext context{*link, false, "emulated:1pbit", [](const Cell&, Measured) {}, [](const Cell&) {}};
  context.note = [](const Cell&, const std::string&) {};
  context.text = stderr;
  context.unslowed = &world();
  run_training(context, cell);
  std::int64_t mine = count->sent, all = 0;
  world().all_reduce(&mine, &all, 1, DType::i64, ReduceOp::sum)->wait();
  return all;
}

TEST(TrainStates, AreReadAndWrittenBesideTheLink) {
  const testing::TemporaryFolder folder;  // rank 0 alone reads and writes
  const std::string file = folder.path() + "/state.h5";
  const std::map<std::string, std::string> settings = {{"pp", "2"}, {"layers", "2"}, {"hidden", "32"}, {"heads", "2"}, {"seq", "8"}, {"micro-batch", "1"}, {"global-batch", "2"}, {"steps", "1"}};
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(settings.begin(), settings.end());
    return more;
  };
  const std::int64_t plain = sent_by_run(settings), saved = sent_by_run(with({{"checkpoint", file}})), resumed = sent_by_run(with({{"resume", file}, {"steps", "2"}}));
  ASSERT_LT(0, plain);
  // Rank 0 takes or gives the other's half of weights and both moments; what ranks tell each other about them is a few bytes.
  const std::int64_t half = 3 * 12 * 32 * 32 * 4;
  EXPECT_LT(std::abs(saved - plain), half / 10);
  EXPECT_LT(std::abs(resumed - plain), half / 10);
}

}  // namespace
}  // namespace thinwire::bench
