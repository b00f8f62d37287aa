// labels: unit
// Who used a machine's cores: canned texts of /proc and spans that the test makes up. Nothing here depends on this machine's load.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <ctime>
#include <string>
#include <vector>

#include "core/process/cpu_accounting.h"

namespace thinwire {
namespace {

// user 1000 of which guest 200, nice 50 of which guest 5, system 300.
const std::string stat_text =
    "cpu  1000 50 300 90000 70 11 22 40 200 5\n"
    "cpu0 500 25 150 45000 35 5 11 20 100 2\n"
    "cpu1 500 25 150 45000 35 6 11 20 100 3\n"
    "intr 12345 0 9\nctxt 777\n";

// `flags`: of a kernel thread, unless it says otherwise.
std::string process(const std::string& name, int parent, int user, int system, int flags = 69238880) {
  return "12 (" + name + ") I " + std::to_string(parent) + " 0 0 0 -1 " + std::to_string(flags) + " 0 0 0 0 " + std::to_string(user) + " " + std::to_string(system) +
         " 0 0 20 0 1 0 24 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 1 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
}

TEST(ProcStat, GivesSecondsOfTheWholeMachineWithGuestsCountedOnce) {
  const MachineCpu cpu = parse_proc_stat(stat_text, 100);
  EXPECT_DOUBLE_EQ(cpu.busy_s, 13.5);
  EXPECT_DOUBLE_EQ(cpu.interrupt_s, 0.33);
  EXPECT_DOUBLE_EQ(cpu.steal_s, 0.4);
  EXPECT_DOUBLE_EQ(parse_proc_stat(stat_text, 1000).busy_s, 1.35);
  EXPECT_DOUBLE_EQ(parse_proc_stat("something 1\n" + stat_text, 100).busy_s, 13.5) << "wherever the line stands";
}

TEST(ProcStat, WhatIsNoSuchTextIsUnknown) {
  for (const char* text : {"", "cpu", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4\n", "cpu  1 2 3 4 5 6 seven 8\n", "cpu  1 2 3 4 5 6 7\n8 9 10\n"})
    EXPECT_TRUE(std::isnan(parse_proc_stat(text, 100).busy_s) && std::isnan(parse_proc_stat(text, 100).steal_s)) << text;
}

TEST(CarryingThreads, AreKernelThreadsWhoseTimeTheMachineCountsAsSystem) {
  EXPECT_DOUBLE_EQ(parse_carrying_thread(process("kworker/0:1-events", 2, 3, 240), 100).value(), 2.43);
  EXPECT_DOUBLE_EQ(parse_carrying_thread(process("napi/eth0-8193", 2, 0, 50), 100).value(), 0.5);
  EXPECT_DOUBLE_EQ(parse_carrying_thread(process("irq/24-mlx5_comp0", 2, 0, 7), 100).value(), 0.07);
  EXPECT_FALSE(parse_carrying_thread(process("ksoftirqd/0", 2, 0, 15), 100)) << "booked under softirq";
  EXPECT_FALSE(parse_carrying_thread(process("kcompactd0", 2, 0, 15), 100));
  EXPECT_FALSE(parse_carrying_thread(process("kworker/fake", 1, 0, 15), 100)) << "no kernel thread";
  EXPECT_FALSE(parse_carrying_thread(process("a) R 2 (kworker/", 1, 0, 15), 100)) << "brackets in a name";
  EXPECT_TRUE(is_kernel_thread(process("ksoftirqd/0", 2, 0, 15)));
  EXPECT_FALSE(is_kernel_thread(process("bash", 1, 0, 15)));
  EXPECT_FALSE(is_kernel_thread(process("bash", 2, 0, 15, 4194304))) << "in a container 2 may be a shell";
  EXPECT_FALSE(parse_carrying_thread(process("kworker/fake", 2, 0, 15, 4194304), 100));
  const std::string whole = process("kworker/0:1", 2, 3, 240);
  for (const std::size_t length : {0ul, 5ul, 14ul, 16ul, 17ul, 20ul, 40ul}) EXPECT_FALSE(parse_carrying_thread(whole.substr(0, length), 100)) << length;
}

TEST(Processes, TellTheirOwnTimeAndThatOfChildrenTheyWaitedFor) {
  const std::string text = "12 (a) b) S 1 0 0 0 -1 69238880 0 0 0 0 200 50 -1 31 20 0 1 0 777 0 0\n";
  const std::optional<ProcessCpu> process = parse_process_cpu(text, 100);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 12);
  EXPECT_DOUBLE_EQ(process->started, 777);
  EXPECT_DOUBLE_EQ(process->self_s, 2.5);
  EXPECT_DOUBLE_EQ(process->children_s, 0.3);
  EXPECT_FALSE(parse_process_cpu(text.substr(0, text.find("777")), 100));
  EXPECT_FALSE(parse_process_cpu("x" + text, 100));
  EXPECT_FALSE(parse_process_cpu("", 100));
}

TEST(Processes, UsedWhatTheyHaveMoreAtTheEndTheJobsRanksApart) {
  const std::vector<std::int64_t> own = {7};
  const std::vector<ProcessCpu> begin = {{1, 0, 10, 100}, {7, 50, 3, 0}, {8, 60, 4, 1}};
  EXPECT_DOUBLE_EQ(used_between(begin, begin, own), 0);
  EXPECT_DOUBLE_EQ(used_between(begin, std::vector<ProcessCpu>{{1, 0, 10.5, 100}, {7, 50, 9, 0}, {8, 60, 4.25, 1}}, own), 0.75);
  EXPECT_DOUBLE_EQ(used_between(begin, std::vector<ProcessCpu>{{1, 0, 10, 100}, {7, 50, 9, 0}, {8, 60, 4, 1}, {9, 70, 2, 0.5}}, own), 2.5) << "all that a new one has is of these moments";
  EXPECT_DOUBLE_EQ(used_between(begin, std::vector<ProcessCpu>{{1, 0, 10, 107}, {7, 50, 9, 0}}, own), 2) << "of the 7 of a child that was waited for, 5 were before";
  EXPECT_DOUBLE_EQ(used_between(begin, std::vector<ProcessCpu>{{1, 0, 11, 100}, {7, 50, 9, 0}}, own), 1) << "nobody waited for 8";
  EXPECT_DOUBLE_EQ(used_between(begin, std::vector<ProcessCpu>{{1, 0, 10, 107}, {7, 50, 9, 0}, {8, 99, 0.5, 0}}, own), 2.5) << "another process of the same number";
  EXPECT_DOUBLE_EQ(used_between(begin, std::vector<ProcessCpu>{{1, 0, 10, 100}, {8, 60, 4, 1}}, own), 0) << "a rank that ended";
  EXPECT_DOUBLE_EQ(used_between({}, {}, own), 0);
}

CpuReading reading(double at, double busy, double steal, double own, double carrying, double interrupt = 0) {
  return {at, {busy, interrupt, steal}, own, carrying};  // without processes
}

TEST(CpuSpans, AreDifferencesOfReadings) {
  const CpuSpan span = span_between(reading(10, 100, 1, 5, 2, 7), reading(14, 107, 1.5, 8, 2.25, 7.5), 9, {});
  EXPECT_EQ(span.kernel, 9u);
  EXPECT_DOUBLE_EQ(span.wall_s, 4);
  EXPECT_DOUBLE_EQ(span.busy_s, 7);
  EXPECT_DOUBLE_EQ(span.interrupt_s, 0.5);
  EXPECT_DOUBLE_EQ(span.steal_s, 0.5);
  EXPECT_DOUBLE_EQ(span.own_s, 3);
  EXPECT_DOUBLE_EQ(span.carrying_s, 0.25);
  EXPECT_TRUE(std::isnan(span.others_s)) << "nobody read the processes";
  EXPECT_DOUBLE_EQ(span_between(reading(10, 0, 0, 0, 2), reading(14, 0, 0, 0, 1), 9, {}).carrying_s, 0) << "a worker ended";
  EXPECT_TRUE(std::isnan(span_between(reading(10, 0, 0, 0, cpu_unknown), reading(14, 0, 0, 0, 1), 9, {}).carrying_s));
}

// 2 ranks of one machine, 4 s: 7 s busy, of which 3 + 2.5 are the ranks' and 0.5 the kernel's; 0.2 stolen: (7 - 5.5 - 0.5 + 0.2) / 4.
TEST(Disturbance, IsWhatIsNeitherTheRanksNorTheirTraffics) {
  std::vector<CpuSpan> ranks(2);
  ranks[0] = {1, 4, 7, 0.1, 0.2, 0.5, 3};
  ranks[1] = {1, 4, 99, 99, 99, 0, 2.5};  // the first rank speaks for the machine
  const Disturbance d = disturbance_of(ranks);
  EXPECT_DOUBLE_EQ(d.cores, 0.3);
  EXPECT_DOUBLE_EQ(d.machine.own_s, 5.5);
  EXPECT_DOUBLE_EQ(d.machine.busy_s, 7);
  ranks[0].carrying_s = cpu_unknown;
  EXPECT_DOUBLE_EQ(disturbance_of(ranks).cores, 0.425) << "kernel threads that are not to be seen are nobody's own";
  ranks[0].carrying_s = 0.5;
  ranks[0].others_s = 2.5;
  EXPECT_DOUBLE_EQ(disturbance_of(ranks).cores, 0.55) << "(2.5 - 0.5 + 0.2) / 4, whatever the tick saw";
}

TEST(Disturbance, IsThatOfTheWorstMachineAndUnknownWhereOneDoesNotTell) {
  std::vector<CpuSpan> ranks = {{1, 4, 4, 0, 0, 0, 4}, {2, 4, 4, 0, 0, 0, 3.6}, {1, 4, 4, 0, 0, 0, 0.1}};
  EXPECT_NEAR(disturbance_of(ranks).cores, 0.1, 1e-12);
  EXPECT_EQ(disturbance_of(ranks).machine.kernel, 2u);
  ranks[1].own_s = 4.4;
  EXPECT_NEAR(disturbance_of(ranks).cores, -0.025, 1e-12) << "the tick may have sampled a little too much or too little";
  ranks[2].own_s = cpu_unknown;
  EXPECT_TRUE(std::isnan(disturbance_of(ranks).cores));
  EXPECT_TRUE(std::isnan(disturbance_of({}).cores));
}

TEST(Disturbance, IsNotToldOfSpansThatHaveTooFewTicks) {
  EXPECT_TRUE(std::isnan(disturbance_of(std::vector<CpuSpan>{{1, 0.49, 0.5, 0, 0, 0, 0.49}}).cores));
  EXPECT_NEAR(disturbance_of(std::vector<CpuSpan>{{1, 0.5, 0.55, 0, 0, 0, 0.5}}).cores, 0.1, 1e-12);
  EXPECT_TRUE(std::isnan(disturbance_of(std::vector<CpuSpan>{{1, 0, 0, 0, 0, 0, 0}}).cores));
}

// This system's own readings, whatever they are: time does not run backwards, and a process's time is part of what it took.
TEST(ReadCpu, NeverRunsBackwards) {
  const CpuReading before = read_cpu(true), after = read_cpu(true);
  EXPECT_LE(before.at_s, after.at_s);
  EXPECT_LE(before.own_s, after.own_s);
  EXPECT_TRUE(std::isnan(read_cpu(false).carrying_s));
  EXPECT_FALSE(read_cpu(false).processes);
  EXPECT_EQ(std::isnan(before.machine.busy_s), std::isnan(after.machine.busy_s));
  EXPECT_FALSE(before.machine.busy_s > after.machine.busy_s);
}

// A child computes for a fifth of a second of its own time, however long that takes here; others may compute as well.
TEST(ReadCpu, SeesWhatAnotherProcessUsed) {
  const CpuReading before = read_cpu(true);
  if (!before.processes) GTEST_SKIP() << "SKIPPED: not all processes of the machine are to be seen here";
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (clock() < CLOCKS_PER_SEC / 5) continue;
    if (write(done[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(done[0], &byte, 1), 1);
  const CpuReading after = read_cpu(true);
  EXPECT_GE(span_between(before, after, 9, {}).others_s, 0.17) << "user and system time may each lack a tick";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace thinwire
