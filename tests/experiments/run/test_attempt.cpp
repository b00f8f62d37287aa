// labels: unit
// needs: launch_player
// timeout: 300
// One start of a program, asked to stop.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/process/environment.h"
#include "experiments/run/attempt.h"
#include "experiments/run/signal_watch.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::sweep {
namespace {

using thinwire::testing::TemporaryFolder;

// A launch that takes its time to save its state is still this runner's: other nodes take leases for dead after 90 s without news.
TEST(Attempt, KeepsItsLeasesWhileALaunchThatWasAskedToStopSavesItsState) {
  const TemporaryFolder folder;
  RunPaths paths;
  paths.out = folder.path();
  paths.bin = Environment::get("THINWIRE_BUILD_DIR").value() + "/tests/programs";
  make_out(paths);
  PlannedCell cell;
  cell.cell_id = std::string(64, 'a');
  cell.program = "launch_player";
  cell.link = "shm";
  cell.parameters.set("act", "hang");
  cell.parameters.set("value", "v0");
  Launch launch;
  launch.program = cell.program;
  launch.link = cell.link;
  launch.cells = {cell};

  const SignalWatch watch;
  int renewed = 0;
  RunHooks hooks;
  hooks.stop_grace = 20;
  hooks.keep_alive = [&] {
    if (SignalWatch::pending() == SIGUSR1) return ++renewed < 3;  // the third time they are lost
    if (std::filesystem::exists(folder / "ran.txt")) raise(SIGUSR1);
    return true;
  };
  Progress progress(0, launch.cells);
  FailureStreak streak(0);
  TextWatch texts(launch.cells, {}, launch.cells);
  Attempt attempt(paths, hooks, launch, launch.cells, 1, progress, streak, texts);
  EXPECT_EQ(attempt.watch(), Attempt::End::interrupted);
  EXPECT_EQ(renewed, 3);
}

}  // namespace
}  // namespace thinwire::sweep
