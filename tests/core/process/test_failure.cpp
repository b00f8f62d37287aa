// labels: unit
// Errors, the guarded main, logging, environment and clocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <regex>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/process/environment.h"
#include "core/renamed.h"
#include "core/process/log.h"
#include "core/process/main_guard.h"

namespace thinwire {
namespace {

int guarded(const std::function<int()>& body) {
  return guarded_main(0, nullptr, [&](int, char**) { return body(); });
}

TEST(Errors, EachTypeHasItsDocumentedExitCode) {
  EXPECT_EQ(guarded([] { return 0; }), 0);
  EXPECT_EQ(guarded([]() -> int { throw WrongResult("x"); }), 1);
  EXPECT_EQ(guarded([]() -> int { throw UsageError("x"); }), 2);
  EXPECT_EQ(guarded([]() -> int { throw EnvironmentError("x"); }), 3);
  EXPECT_EQ(guarded([]() -> int { throw TimeoutError("x"); }), 4);
  EXPECT_EQ(guarded([]() -> int { throw RuntimeFailure("x"); }), 6);
  EXPECT_EQ(guarded([]() -> int { throw CorruptData("x"); }), 6);
  EXPECT_EQ(guarded([]() -> int { throw std::bad_alloc(); }), 6);
  EXPECT_EQ(guarded([]() -> int { throw std::runtime_error("x"); }), 6);
  EXPECT_EQ(guarded([]() -> int { throw 7; }), 6);
  EXPECT_EQ(guarded([] { return 5; }), 5);  // a status that the body returns is kept
}

TEST(Errors, AFailedInvariantNamesExpressionPlaceAndDetail) {
  try {
    TW_ASSERT(1 + 1 == 3, "arithmetic");
    FAIL();
  } catch (const RuntimeFailure& e) {
    const std::string text = e.what();
    for (const char* part : {"1 + 1 == 3", "test_failure.cpp:", "arithmetic", "bug of thinwire"})
      EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(Errors, NearestNameIsTheOneWithTheFewestEdits) {
  const std::string names[] = {"autoencoder", "quantize", "randomk", "topk"};
  EXPECT_EQ(nearest_name("topkk", names, names + 4), "topk");
  EXPECT_EQ(nearest_name("quantise", names, names + 4), "quantize");
  EXPECT_EQ(nearest_name("anything", names, names), "");
}

TEST(Errors, AnOldNameIsAnsweredWithTheNameOfToday) {
  for (const RenamedWord& word : renamed_words()) {
    const std::string names[] = {std::string(word.old_name) + "s", std::string(word.new_name)};
    EXPECT_EQ(nearest_name(word.old_name, names, names + 2), word.new_name);
    EXPECT_EQ(nearest_name(word.old_name, names, names + 1), names[0]) << "a name that does not exist here";
    EXPECT_TRUE(renamed_to(word.new_name).empty()) << word.new_name << " was renamed twice: name the latest";
  }
}

TEST(GuardedMain, RunsHooksOnceInOrderOfPriorityWithStatusAndMessage) {
  std::vector<std::string> calls;
  add_failure_hook(100, [&](int status, const std::string& m) { calls.push_back("abort " + std::to_string(status) + m); });
  add_failure_hook(0, [&](int status, const std::string& m) { calls.push_back("journal " + std::to_string(status) + m); });
  const int removed = add_failure_hook(50, [&](int, const std::string&) { calls.push_back("removed"); });
  remove_failure_hook(removed);
  EXPECT_EQ(guarded([] { return 0; }), 0);
  EXPECT_TRUE(calls.empty()) << "hooks ran although nothing failed";
  EXPECT_EQ(guarded([]() -> int { throw TimeoutError(" late"); }), 4);
  EXPECT_EQ(calls, (std::vector<std::string>{"journal 4 late", "abort 4 late"}));
  EXPECT_EQ(guarded([]() -> int { throw TimeoutError(" again"); }), 4);
  EXPECT_EQ(calls.size(), 2u) << "a hook ran twice";
}

TEST(GuardedMain, AFailingHookDoesNotStopTheLaterOnes) {
  bool aborted = false;
  add_failure_hook(0, [](int, const std::string&) { throw std::runtime_error("disk full"); });
  add_failure_hook(100, [&](int, const std::string&) { aborted = true; });
  EXPECT_EQ(guarded([]() -> int { throw UsageError("x"); }), 2);
  EXPECT_TRUE(aborted);
}

using GuardedMainDeathTest = ::testing::Test;

TEST(GuardedMainDeathTest, FailProcessReportsRunsHooksAndExitsWithTheStatus) {
  EXPECT_EXIT(
      {
        add_failure_hook(0, [](int, const std::string& m) { std::fprintf(stderr, "<hook: %s>\n", m.c_str()); });
        std::thread([] { fail_process(4, "channel dp_gradient hangs"); }).join();
      },
      ::testing::ExitedWithCode(4), "channel dp_gradient hangs(.|\n)*<hook: channel dp_gradient hangs>");
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(GuardedMainDeathTest, AFatalSignalPrintsABackTraceAndKillsByThatSignal) {
  EXPECT_EXIT(guarded([]() -> int { raise(SIGSEGV); return 0; }), ::testing::KilledBySignal(SIGSEGV), "SIGSEGV.*back-trace");
  EXPECT_EXIT(guarded([]() -> int { std::abort(); }), ::testing::KilledBySignal(SIGABRT), "SIGABRT.*back-trace");
  EXPECT_EXIT(guarded([]() -> int { raise(SIGTERM); return 0; }), ::testing::KilledBySignal(SIGTERM), "");
}
#endif

TEST(LogDeathTest, LevelComesFromTheEnvironmentAndTheRankStandsInFront) {
  const auto print_all = [] {
    set_log_rank(3);
    log_debug("quiet {} brace");
    log_info("calm");
    log_warning("loud {} brace");
    std::exit(0);
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process: the logger reads the level once
  setenv("THINWIRE_LOG", "warning", 1);
  EXPECT_EXIT(print_all(), ::testing::ExitedWithCode(0), "^[^\n]*warning \\[rank 3\\] loud \\{\\} brace\n$");
  setenv("THINWIRE_LOG", "debug", 1);
  EXPECT_EXIT(print_all(), ::testing::ExitedWithCode(0), "quiet(.|\n)*calm(.|\n)*loud");
  setenv("THINWIRE_LOG", "chatty", 1);
  EXPECT_EXIT(print_all(), ::testing::ExitedWithCode(0), "THINWIRE_LOG=chatty is not a level(.|\n)*calm");
  unsetenv("THINWIRE_LOG");
}

TEST(Environment, EmptyAndMalformedVariablesCountAsUnset) {
  setenv("THINWIRE_CUDA_MODULE", "", 1);
  EXPECT_FALSE(Environment::cuda_module());
  setenv("PMIX_RANK", "2", 1);
  setenv("SLURM_NTASKS", "8x", 1);
  if (!Environment::get("OMPI_COMM_WORLD_SIZE")) {
    EXPECT_EQ(Environment::launch_rank(), 2);
    EXPECT_FALSE(Environment::launch_size());
  }
  unsetenv("PMIX_RANK");
  unsetenv("SLURM_NTASKS");
  unsetenv("THINWIRE_CUDA_MODULE");
}

TEST(Environment, DocumentsEveryVariableThatTheCodeReads) {
  const auto source = Environment::get("THINWIRE_SOURCE_DIR");
  if (!source) GTEST_SKIP() << "THINWIRE_SOURCE_DIR is not set: run through ctest";
  const std::regex read(R"re((?:Environment::get|getenv)\("(THINWIRE_\w+)"\))re");
  int found = 0;
  for (const char* floor : {"core", "results", "kernels", "collectives", "models", "bench", "experiments"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(*source) / floor)) {
      const auto extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h" && extension != ".cu") continue;
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      for (std::sregex_iterator it(text.begin(), text.end(), read), end; it != end; ++it, ++found) {
        const auto& all = Environment::documented();
        const std::string name = (*it)[1];
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto& v) { return v.name == name; }))
            << entry.path() << " reads " << name << ": add it to core/process/environment.cpp";
      }
    }
  EXPECT_GT(found, 0) << "the search has stopped finding anything";
}

TEST(Clock, SleepUntilNeverReturnsEarly) {
  for (int microseconds : {-10, 0, 1, 100, 2000}) {
    const std::int64_t deadline = now_ns() + microseconds * 1000;
    sleep_until_ns(deadline);
    EXPECT_GE(now_ns(), deadline);
  }
}

TEST(Clock, SleepingCostsWallTimeButNoProcessorTime) {
  // Others may take the core meanwhile, which makes the wait longer and the thread's own time no longer.
  const std::int64_t cpu = thread_cpu_ns();
  const Stopwatch watch;
  sleep_until_ns(now_ns() + 200'000'000);
  const std::int64_t spent = thread_cpu_ns() - cpu;
  EXPECT_GE(watch.elapsed_ns(), 200'000'000);
  EXPECT_LT(spent, watch.elapsed_ns() / 2);
}

}  // namespace
}  // namespace thinwire
