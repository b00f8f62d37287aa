// main() of every test program. Under mpirun all ranks run the same tests and agree on the outcome; without a
// launcher MPI stays untouched, so unit tests start in milliseconds. Exit: 0, 1 = failed, 77 = all were skipped.
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "core/clock.h"
#include "core/error.h"
#include "core/process/environment.h"
#include "core/process/log.h"
#include "core/process/main_guard.h"
#include "support/mpi_support.h"

namespace thinwire::testing {
namespace {

int world_rank = 0;
int world_size = 1;

// Ranks other than 0 stay silent until something fails on them.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& info) override { test_ = std::string(info.test_suite_name()) + "." + info.name(); }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;  // GoogleTest holds its lock here: the current test cannot be asked for
    std::fprintf(stderr, "[rank %d] %s FAILED at %s:%d\n%s\n", world_rank, test_.c_str(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.summary());
  }
  std::string test_ = "(set-up)";
};

// After each test the ranks meet. A rank that failed has left the test early; when the others do not arrive
// they wait for it inside the test, so the job ends now instead of at CTest's time limit.
class Meeting : public ::testing::EmptyTestEventListener {
 public:
  Meeting() { MPI_Comm_dup(MPI_COMM_WORLD, &communicator_); }
  void leave() { MPI_Comm_free(&communicator_); }

 private:
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const bool failed = info.result()->Failed();
    MPI_Request request;
    MPI_Ibarrier(communicator_, &request);
    const Stopwatch watch;
    for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0;) {
      if (failed && watch.seconds() > 10)
        fail_process(1, std::string(info.test_suite_name()) + "." + info.name() +
                            " failed on this rank, and another rank is still inside the test after 10 s");
      if (watch.seconds() > 0.001) sleep_until_ns(now_ns() + 100'000);
    }
  }
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

bool ran_something() {
  const auto& unit = *::testing::UnitTest::GetInstance();
  return unit.test_to_run_count() > unit.skipped_test_count();
}

/// Whether one of the patterns, between colons, fits.
bool fits(const std::string& patterns, const std::string& name) {
  for (std::size_t begin = 0; begin <= patterns.size();) {
    const std::size_t end = std::min(patterns.find(':', begin), patterns.size());
    if (fnmatch(patterns.substr(begin, end - begin).c_str(), name.c_str(), 0) == 0) return true;
    begin = end + 1;
  }
  return false;
}

/// A joined program that was started as one of its sources, through the link that bears its name (cmake/ThinwireTests.cmake), runs the tests of that one, and of
/// these what --gtest_filter leaves.
void keep_tests_of(const std::string& started_as) {
  const std::string name = std::filesystem::path(started_as).filename(), self = std::filesystem::read_symlink("/proc/self/exe").filename();
  if (name == self) return;
  std::string source = name;
  std::replace(source.begin(), source.end(), '.', '/');
  source = "/tests/" + source + ".cpp";
  const std::string filter = ::testing::GTEST_FLAG(filter), wanted = filter.substr(0, filter.find('-')), unwanted = filter.find('-') == std::string::npos ? "" : filter.substr(filter.find('-') + 1);
  const auto& unit = *::testing::UnitTest::GetInstance();
  bool any = false;
  std::string kept;
  for (int i = 0; i < unit.total_test_suite_count(); ++i)
    for (int j = 0; j < unit.GetTestSuite(i)->total_test_count(); ++j) {
      const ::testing::TestInfo& test = *unit.GetTestSuite(i)->GetTestInfo(j);
      if (!std::filesystem::path(test.file()).filename().string().starts_with("test_"))
        throw UsageError(self + " holds tests of " + test.file() + ", by whose name nothing starts them: say `joined: no` in what includes it");
      if (!std::string(test.file()).ends_with(source)) continue;
      any = true;
      const std::string full = std::string(test.test_suite_name()) + "." + test.name();
      if ((wanted.empty() || fits(wanted, full)) && !fits(unwanted, full)) kept += (kept.empty() ? "" : ":") + full;
    }
  if (!any) throw UsageError(self + " was started as " + name + ", but holds no test of " + source + ": build it anew");
  ::testing::GTEST_FLAG(filter) = kept.empty() ? "-*" : kept;
}

int run_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  keep_tests_of(argv[0]);
  // Tests meet in collectives: an order or a selection of its own per rank would hang them.
  const bool launched = Environment::launch_size().has_value();
  int abort_hook = 0;
  Meeting* meeting = nullptr;
  if (launched) {
    ::testing::GTEST_FLAG(shuffle) = false;
    ::testing::GTEST_FLAG(catch_exceptions) = false;  // to the guarded main, which aborts the job
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    set_log_rank(world_rank);
    abort_hook = add_failure_hook(100, [](int status, const std::string&) { MPI_Abort(MPI_COMM_WORLD, status); });
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    if (world_rank != 0) {
      delete listeners.Release(listeners.default_result_printer());
      listeners.Append(new FailuresOnly);
    }
    listeners.Append(meeting = new Meeting);
  }
  int outcome[2] = {RUN_ALL_TESTS() == 0 ? 0 : 1, ran_something() ? 1 : 0};
  if (launched) {
    MPI_Allreduce(MPI_IN_PLACE, outcome, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    remove_failure_hook(abort_hook);
    meeting->leave();
    MPI_Finalize();
  }
  if (outcome[0] != 0) return 1;
  return outcome[1] != 0 ? 0 : 77;
}

}  // namespace

int rank() { return world_rank; }
int size() { return world_size; }

}  // namespace thinwire::testing

int main(int argc, char** argv) { return thinwire::guarded_main(argc, argv, thinwire::testing::run_tests); }
