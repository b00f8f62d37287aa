// labels: unit, faults
// timeout: 600
// Work in limited child processes, and the checks that doctor makes with it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/doctor/doctor_checks.h"
#include "bench/doctor/limited_process.h"
#include "core/clock.h"
#include "core/error.h"

namespace thinwire::bench {
namespace {

TEST(LimitedProcess, ReturnsExitStatusAndOutputOfBothStreams) {
  const ProcessResult result = run_limited({"sh", "-c", "echo out; echo err >&2; exit 5"}, 60);
  EXPECT_EQ(result.exit_status, 5);
  EXPECT_FALSE(result.succeeded());
  EXPECT_NE(result.output.find("out\n"), std::string::npos);
  EXPECT_NE(result.output.find("err\n"), std::string::npos);
}

TEST(LimitedProcess, AHangEndsAtItsLimitTogetherWithItsChildren) {
  // On a busy machine the shell may not get that far at once. One that was not ended would keep the test until its own limit.
  ProcessResult result;
  for (double limit_s = 0.3; limit_s < 100 && result.output.empty(); limit_s *= 5)
    result = run_limited({"sh", "-c", "trap '' TERM; sleep 3000 & echo $!; while :; do sleep 3000; done"}, limit_s);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.succeeded());
  const int child = std::atoi(result.output.c_str());
  ASSERT_GT(child, 1) << result.output;
  // Gone, or a zombie that nobody of this process group can reap: soon, for a killed process may wait for its end.
  const auto state = [&] { return run_limited({"sh", "-c", "cat /proc/" + std::to_string(child) + "/stat 2>/dev/null"}, 60).output; };
  const auto has_ended = [](const std::string& stat) { return stat.empty() || stat.find(") Z ") != std::string::npos; };
  for (const Stopwatch watch; !has_ended(state()) && watch.seconds() < 60;) sleep_until_ns(now_ns() + 10'000'000);
  EXPECT_TRUE(has_ended(state())) << state();
}

TEST(LimitedProcess, ACrashIsTheChildsAlone) {
  const ProcessResult result = run_limited([]() -> int { raise(SIGKILL); return 0; }, 60);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_NE(result.ending().find("signal 9"), std::string::npos);
}

TEST(LimitedProcess, AnEscapeOfTheBodyIsItsOutput) {
  const ProcessResult result = run_limited([]() -> int { throw UsageError("no such thing"); }, 60);
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_NE(result.output.find("no such thing"), std::string::npos);
}

TEST(LimitedProcess, MuchOutputDoesNotBlockTheChild) {
  const ProcessResult result = run_limited({"sh", "-c", "head -c 4000000 /dev/zero | tr '\\0' x"}, 60);
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_LE(result.output.size(), (1u << 20) + 4096);
}

TEST(LimitedProcess, AMissingProgramIsStatus127) {
  EXPECT_EQ(run_limited({"/no/such/program"}, 60).exit_status, 127);
}

Check check_of(bool required, std::function<Finding(const DoctorContext&)> body, double limit_s = 60) { return {"x", required, limit_s, std::move(body)}; }

TEST(DoctorCheck, PassesOnWhatTheBodyFoundWhateverLibrariesPrint) {
  const Finding finding = run_check(check_of(true, [](const DoctorContext&) {
                                      std::fprintf(stderr, "chatter of a library\n");
                                      return Finding{Verdict::note, "seen", "do this"};
                                    }),
                                    {});
  EXPECT_EQ(finding.verdict, Verdict::note);
  EXPECT_EQ(finding.detail, "seen");
  EXPECT_EQ(finding.advice, "do this");
}

TEST(DoctorCheck, ACrashOrAHangOfWhatIsRequiredFailsAndElseIsANote) {
  const auto crash = [](const DoctorContext&) -> Finding { abort(); };
  const auto hang = [](const DoctorContext&) -> Finding { for (;;) pause(); };
  EXPECT_EQ(run_check(check_of(true, crash), {}).verdict, Verdict::failed);
  EXPECT_EQ(run_check(check_of(false, crash), {}).verdict, Verdict::note);
  const Finding hung = run_check(check_of(true, hang, 1), {});
  EXPECT_EQ(hung.verdict, Verdict::failed);
  EXPECT_NE(hung.detail.find("did not end within 1 s"), std::string::npos) << hung.detail;
}

TEST(DoctorCheck, EveryFailureComesWithAdvice) {
  DoctorContext context;
  context.program = "/no/such/program";
  context.out = "/no/such/folder";
  context.quick = true;
  int failed = 0;
  for (const Check& check : doctor_checks()) {
    if (check.name != "mpi" && check.name != "hdf5" && check.name != "disk" && check.name != "namespaces") continue;
    const Finding finding = run_check(check, context);
    EXPECT_NE(finding.verdict, Verdict::ok) << check.name << ": " << finding.detail;
    EXPECT_FALSE(finding.detail.empty()) << check.name;
    EXPECT_FALSE(finding.advice.empty()) << check.name;
    failed += finding.verdict == Verdict::failed ? 1 : 0;
  }
  EXPECT_EQ(failed, 3);
}

TEST(DoctorCheck, ThisMachinePassesWhatTheTestsThemselvesNeed) {
  DoctorContext context;
  context.out = std::filesystem::temp_directory_path().string();
  context.quick = true;
  for (const Check& check : doctor_checks())
    if (check.name == "blas" || check.name == "hdf5" || check.name == "python") {
      const Finding finding = run_check(check, context);
      EXPECT_NE(finding.verdict, Verdict::failed) << check.name << ": " << finding.detail;
    }
}

}  // namespace
}  // namespace thinwire::bench
