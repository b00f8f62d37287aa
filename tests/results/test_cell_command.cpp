// labels: unit
// A cell's command line is one that makes its link again, or names it.
#include <gtest/gtest.h>

#include "results/cell_command.h"

namespace thinwire::results {
namespace {

TEST(CellCommand, MakesItsLinkAgain) {
  Parameters p;
  p.set("codec", std::string("topk:fraction=0.1+ef"));
  p.set("text", std::string("my text"));
  EXPECT_EQ(command_of_cell("bench_codec", 1, "shm", p), "bench_codec --codec topk:fraction=0.1+ef --text 'my text'");
  EXPECT_EQ(command_of_cell("train_gpt", 4, "shm", p), "mpirun --oversubscribe -n 4 train_gpt --codec topk:fraction=0.1+ef --text 'my text'");
  EXPECT_EQ(command_of_cell("train_gpt", 2, "emulated:20mbit,latency=1ms", Parameters()), "mpirun --oversubscribe -n 2 train_gpt --link emulated:20mbit,latency=1ms");
  EXPECT_EQ(command_of_cell("train_gpt", 2, "netns:100mbit", Parameters()), "experiments/lab/launch.sh --link netns:100mbit --ranks 2 -- train_gpt --link netns:100mbit");
}

}  // namespace
}  // namespace thinwire::results
