// main() of every test program. Under mpirun all ranks run the same tests and agree on the outcome; without a
// launcher MPI stays untouched, so unit tests start in milliseconds. Exit: 0, 1 = failed, 77 = all were skipped.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>

#include "core/environment.h"
#include "core/log.h"
#include "core/main_guard.h"
#include "support/mpi_support.h"

namespace thinwire::testing {
namespace {

int world_rank = 0;
int world_size = 1;

// Ranks other than 0 stay silent until something fails or is skipped on them.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "[rank %d] %s.%s FAILED at %s:%d\n%s\n", world_rank, info ? info->test_suite_name() : "(set-up)",
                 info ? info->name() : "", result.file_name() ? result.file_name() : "?", result.line_number(), result.summary());
  }
};

bool ran_something() {
  const auto& unit = *::testing::UnitTest::GetInstance();
  return unit.test_to_run_count() > unit.skipped_test_count();
}

int run_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // Tests meet in collectives: an order or a selection of its own per rank would hang them.
  const bool launched = Environment::launch_size().has_value();
  int abort_hook = 0;
  if (launched) {
    ::testing::GTEST_FLAG(shuffle) = false;
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
  }
  int outcome[2] = {RUN_ALL_TESTS() == 0 ? 0 : 1, ran_something() ? 1 : 0};
  if (launched) {
    MPI_Allreduce(MPI_IN_PLACE, outcome, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    remove_failure_hook(abort_hook);
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
