// labels: unit
// timeout: 300
// Children of a runner: how their ends are told, and that none outlives a runner that is killed.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "core/error.h"
#include "experiments/run/process.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::sweep {
namespace {

using thinwire::testing::TemporaryFolder;

void wait_for(const std::function<bool()>& there) {
  while (!there()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

Command shell(const TemporaryFolder& folder, const std::string& script) {
  return {{"sh", "-c", script}, {{"FROM_RUNNER", "7"}}, folder.path(), folder / "log"};
}

Ending end_of(Process& process) {
  wait_for([&] { return process.poll().has_value(); });
  return *process.poll();
}

bool is_there(const std::string& path) {
  return std::filesystem::exists(path) && std::filesystem::file_size(path) > 0;
}

/// Whether a process runs; one that only waits to be reaped does not.
bool runs(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

TEST(Process, TellsHowItsCommandEnded) {
  signal(SIGHUP, SIG_DFL);  // nohup ignores it, and a command inherits that
  const TemporaryFolder folder;
  Process fine(shell(folder, "echo $FROM_RUNNER; pwd; exit 6"));
  EXPECT_EQ(end_of(fine).to_string(), "exit status 6");
  EXPECT_EQ(TemporaryFolder::read(folder / "log"),
            "7\n" + std::filesystem::canonical(folder.path()).string() + "\n");
  for (const int number : {SIGKILL, SIGSEGV, SIGTERM, SIGHUP, SIGPIPE}) {
    Process killed(shell(folder, "kill -" + std::to_string(number) + " $$"));
    EXPECT_EQ(end_of(killed).signal, number);
  }
}

TEST(Process, NamesAProgramThatIsNotThere) {
  const TemporaryFolder folder;
  try {
    Process process({{"no-such-program"}, {}, "", folder / "log"});
    ADD_FAILURE() << "started";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("cannot start `no-such-program`: No such file"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(Process, HandsARequestToStopOnToItsCommand) {
  const TemporaryFolder folder;
  Process process(shell(folder, "trap 'exit 9' USR1; echo ready >ready; while :; do sleep 0.05; done"));
  wait_for([&] { return is_there(folder / "ready"); });
  process.request_stop();
  EXPECT_EQ(end_of(process).exit_status, 9);
}

TEST(Process, TerminatesACommandThatListensAndOneThatDoesNot) {
  const TemporaryFolder folder;
  for (const std::string trap : {"exit 4", ""}) {
    Process process(shell(folder, "trap '" + trap + "' TERM; echo $$ >pid; while :; do sleep 0.05; done"));
    wait_for([&] { return is_there(folder / "pid"); });
    process.terminate(trap.empty() ? 0.1 : 60);
    const Ending ending = *process.poll();
    EXPECT_EQ(ending.to_string(), trap.empty() ? "killed by signal 9 (Killed)" : "exit status 4");
    std::filesystem::remove(folder / "pid");
  }
}

TEST(Process, HoldsNoFileOfTheRunner) {
  const TemporaryFolder folder;
  const auto lock = [&] { return open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); };
  const int mine = lock();
  ASSERT_EQ(flock(mine, LOCK_EX | LOCK_NB), 0);
  Process process(shell(folder, "echo ready >ready; sleep 600"));
  wait_for([&] { return is_there(folder / "ready"); });
  close(mine);
  const int other = lock();
  wait_for([&] {
    return flock(other, LOCK_EX | LOCK_NB) == 0;
  });  // what stands between runner and command closes its copy a moment later
  close(other);
}

TEST(Process, SeesAnMpirunThatHasLostItsRanks) {
  const std::string self = std::to_string(getpid());
  if (!std::filesystem::exists("/proc/" + self + "/task/" + self + "/children"))
    GTEST_SKIP() << "this kernel does not list a process's children";
  const TemporaryFolder folder;
  // mpirun by name: a copy of the shell, as deep below as launch.sh puts it.
  std::filesystem::copy_file("/bin/sh", folder / "mpirun");
  Process process(shell(folder,
                        "./mpirun -c 'echo 1 >begun; while [ ! -e rank ]; do :; done; sleep 600 & echo $! "
                        ">ranks; while [ ! -e stop ]; do :; done'; exit 5"));
  wait_for([&] { return is_there(folder / "begun"); });
  EXPECT_FALSE(process.has_mpirun_without_ranks());  // its ranks have not begun
  std::ofstream(folder / "rank") << "1";
  wait_for([&] { return is_there(folder / "ranks"); });
  EXPECT_FALSE(process.has_mpirun_without_ranks());
  kill(std::stoi(TemporaryFolder::read(folder / "ranks")), SIGKILL);
  wait_for([&] { return process.has_mpirun_without_ranks(); });
  std::ofstream(folder / "stop") << "1";
  EXPECT_EQ(end_of(process).exit_status, 5);
  EXPECT_FALSE(process.has_mpirun_without_ranks());
}

/// Kills a process that runs a command, and waits until nothing of the command is left.
void kill_the_runner_of(const TemporaryFolder& folder, const std::string& script) {
  const pid_t runner = fork();
  ASSERT_GE(runner, 0);
  if (runner == 0) {
    Process process(shell(folder, script));
    for (;;) pause();
  }
  wait_for([&] { return is_there(folder / "pid"); });
  const std::string command = TemporaryFolder::read(folder / "pid");
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  wait_for([&] { return !runs(command.substr(0, command.find('\n'))); });
}

TEST(Process, LetsACommandEndByItselfWhenTheRunnerIsKilled) {
  // A machine that stands still for the five seconds of grace kills it first; not five times.
  bool told = false;
  for (int i = 0; i < 5 && !told; ++i) {
    const TemporaryFolder folder;
    kill_the_runner_of(folder,
                       "trap 'echo told >told; exit 0' TERM; echo $$ >pid; while :; do sleep 0.05; done");
    told = is_there(folder / "told");
  }
  EXPECT_TRUE(told);
}

TEST(Process, EndsACommandThatDoesNotEndWhenTheRunnerIsKilled) {
  const TemporaryFolder folder;
  kill_the_runner_of(folder, "trap '' TERM; echo $$ >pid; while :; do sleep 0.05; done");
}

}  // namespace
}  // namespace thinwire::sweep
