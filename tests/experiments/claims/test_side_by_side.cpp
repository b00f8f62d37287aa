// labels: unit
// needs: launch_player
// Untimed cells of one thread run in several processes at once. Cells that wait for each other prove it; no clock is asked.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "experiments/claims/cells.h"
#include "experiments/run/leases.h"
#include "experiments/run/side_by_side.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::TemporaryFolder;

CellRequest request(const std::string& value, const std::string& meets = "", const std::string& act = "ok") {
  CellRequest r;
  r.program = "launch_player";
  r.parameters.set("value", value);
  r.parameters.set("act", act);
  if (!meets.empty()) r.parameters.set("meets", meets);
  r.timeout = 120;
  r.timed = false;
  r.threads = 1;
  return r;
}

class SideBySide : public ::testing::Test {
 protected:
  TemporaryFolder folder;

  sweep::RunPaths paths() const {
    const char* const build = std::getenv("THINWIRE_BUILD_DIR");
    sweep::RunPaths paths;
    paths.out = folder.path();
    paths.bin = std::string(build != nullptr ? build : ".") + "/tests/programs";
    return paths;
  }
  static std::vector<sweep::PlannedCell> planned(const std::vector<CellRequest>& requests) {
    std::vector<sweep::PlannedCell> cells;
    for (const CellRequest& r : requests) {
      sweep::PlannedCell cell;
      cell.cell_id = results::cell_id(r.program, r.ranks, r.link, r.parameters);
      cell.program = r.program, cell.link = r.link, cell.ranks = r.ranks, cell.timeout = r.timeout, cell.omp_threads = r.threads, cell.parameters = r.parameters;
      cells.push_back(cell);
    }
    return cells;
  }
  /// Values of the cells that ran, in order of their names.
  std::vector<std::string> ran() const {
    std::ifstream file(folder / "ran.txt");
    std::vector<std::string> values(std::istream_iterator<std::string>(file), {});
    std::sort(values.begin(), values.end());
    return values;
  }
  results::Status status_of(const CellRequest& r) const {
    return results::worst_status(results::read_cell_record(results::record_path(folder.path(), results::cell_id(r.program, r.ranks, r.link, r.parameters))).rows);
  }
};

TEST_F(SideBySide, CellsThatWaitForEachOtherAllFinish) {
  const std::vector<CellRequest> requests = {request("a", "c"), request("b", "a"), request("c", "b"), request("d"), request("e"), request("f")};
  sweep::RunOptions options;
  options.paths = paths();
  sweep::make_out(options.paths);
  const sweep::RunReport report = sweep::run_side_by_side(planned(requests), options, 3);
  EXPECT_EQ(report.signal, 0);
  EXPECT_FALSE(report.stopped || report.asked_to_stop);
  EXPECT_EQ(ran(), (std::vector<std::string>{"a", "b", "c", "d", "e", "f"})) << "each once";
  for (const CellRequest& r : requests) EXPECT_EQ(status_of(r), results::Status::ok);
  EXPECT_TRUE(sweep::leased_cells(folder.path()).empty());
}

TEST_F(SideBySide, ACellThatFailedIsNotRunByTheNextWorker) {
  const std::vector<CellRequest> requests = {request("first", "go"), request("bad", "", "throw")};
  sweep::RunOptions options;
  options.paths = paths();
  sweep::make_out(options.paths);
  // The first cell ends when the worker that ran the bad one is gone, its lease with it.
  std::thread lets_go([&] {
    const auto workers = [&] {
      std::error_code gone;
      int count = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder / "leases", gone)) count += entry.path().filename().string().starts_with("worker-");
      return count;
    };
    while (!results::is_finished(results::record_path(folder.path(), planned(requests)[1].cell_id)) || workers() != 1) sleep_until_ns(now_ns() + 5'000'000);
    folder.write("started-go", "");
  });
  (void)sweep::run_side_by_side(planned(requests), options, 2);
  lets_go.join();
  EXPECT_EQ(ran(), (std::vector<std::string>{"bad", "first"})) << "each once";
  EXPECT_EQ(status_of(requests[1]), results::Status::failed);
}

TEST_F(SideBySide, ClaimsRunUntimedCellsOfOneThreadThisWayAndBadOnesOnce) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "SKIPPED: one core runs one cell at a time";
  CellRunner cells(paths(), sweep::IfCodeChanged::error);
  const std::vector<CellRequest> requests = {request("a", "b"), request("b", "a"), request("c", "", "throw"), request("d")};
  EXPECT_THROW((void)cells.run(requests), RuntimeFailure) << "one of them failed";
  EXPECT_EQ(ran(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(status_of(requests[2]), results::Status::failed);
  cells.prepare(std::span(requests).first(2));
  EXPECT_EQ(ran().size(), 4u) << "what is finished is not run again";
  EXPECT_TRUE(cells.used().empty() || cells.used().size() == 2u);
}

TEST_F(SideBySide, ASignalEndsAllWorkersAndIsReported) {
  const std::vector<CellRequest> requests = {request("a", "b", "hang"), request("b", "a", "hang"), request("c")};
  sweep::RunOptions options;
  options.paths = paths();
  sweep::make_out(options.paths);
  std::thread asks([&] {
    while (!std::filesystem::exists(folder / "started-a") || !std::filesystem::exists(folder / "started-b")) sleep_until_ns(now_ns() + 5'000'000);
    kill(getpid(), SIGTERM);
  });
  const sweep::RunReport report = sweep::run_side_by_side(planned(requests), options, 2);
  asks.join();
  EXPECT_EQ(report.signal, SIGTERM);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a worker is left";
  EXPECT_EQ(ran(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(results::is_finished(results::record_path(folder.path(), planned(requests)[0].cell_id)));
}

TEST_F(SideBySide, WorkersEndWithARunnerThatIsKilled) {
  const std::vector<CellRequest> requests = {request("a", "b", "hang"), request("b", "a", "hang"), request("c")};
  sweep::RunOptions options;
  options.paths = paths();
  sweep::make_out(options.paths);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the runner leaves behind becomes a child of this test
  const pid_t runner = fork();
  if (runner == 0) {
    (void)sweep::run_side_by_side(planned(requests), options, 2);
    _exit(0);
  }
  while (!std::filesystem::exists(folder / "started-a") || !std::filesystem::exists(folder / "started-b")) sleep_until_ns(now_ns() + 5'000'000);
  kill(runner, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  EXPECT_EQ(ran(), (std::vector<std::string>{"a", "b"})) << "a worker went on with the next cell";
  for (const CellRequest& r : std::span(requests).first(2))
    EXPECT_FALSE(results::is_finished(results::record_path(folder.path(), results::cell_id(r.program, r.ranks, r.link, r.parameters)))) << "a worker waited for its launch to time out";
}

}  // namespace
}  // namespace thinwire::claims
