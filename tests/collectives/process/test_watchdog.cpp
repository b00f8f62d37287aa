// labels: unit
// timeout: 300
// The watchdog of one process: it fires after its limit, and not for the time during which the process was stopped.
#include "collectives/process/watchdog.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/clock.h"
#include "core/error.h"

namespace thinwire {
namespace {

std::string what(const void*) { return "a test"; }

/// A child that waits under a watchdog of four seconds until a byte comes. Its exit status. `stopped`: it stops itself first, and gets the byte seven seconds
/// later; else it never gets one.
int status_of_child(bool stopped) {
  int go[2];
  if (pipe(go) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    close(go[1]);
    setenv("THINWIRE_WATCHDOG", "4", 1);
    Watchdog::start(0);
    const Watchdog::Guard guard(what, nullptr);
    if (stopped) raise(SIGSTOP);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(99);
    sleep_until_ns(now_ns() + 1'000'000'000);  // in which the watchdog's thread has its turn
    _exit(0);
  }
  int status = 0;
  if (stopped) {
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) return -1;
    sleep_until_ns(now_ns() + 7'000'000'000);
    kill(child, SIGCONT);
    const char byte = 1;
    if (write(go[1], &byte, 1) != 1) return -1;
  }
  waitpid(child, &status, 0);
  close(go[0]), close(go[1]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Watchdog, EndsAProcessThatWaitsTooLong) { EXPECT_EQ(status_of_child(false), static_cast<int>(ExitCode::timeout)); }

TEST(Watchdog, DoesNotCountTheTimeInWhichTheProcessWasStopped) { EXPECT_EQ(status_of_child(true), 0); }

}  // namespace
}  // namespace thinwire
