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

/// A child that waits under a watchdog of four seconds until a byte comes. Its exit status; `stopped` seconds of its wait it is stopped, then gets the byte;
/// 0: it never gets one.
int status_of_child(unsigned stopped) {
  int ready[2], go[2];
  if (pipe(ready) != 0 || pipe(go) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    setenv("THINWIRE_WATCHDOG", "4", 1);
    Watchdog::start(0);
    char byte = 1;
    {
      const Watchdog::Guard guard(what, nullptr);
      if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(99);
      // Stopped as well while it read: the watchdog's thread must have had its turn after that.
      sleep_until_ns(now_ns() + 1'000'000'000);
    }
    _exit(0);
  }
  char byte = 1;
  if (read(ready[0], &byte, 1) != 1) return -1;
  if (stopped > 0) {
    kill(child, SIGSTOP);
    sleep_until_ns(now_ns() + static_cast<std::int64_t>(stopped) * 1'000'000'000);
    kill(child, SIGCONT);
    if (write(go[1], &byte, 1) != 1) return -1;
  }
  int status = 0;
  waitpid(child, &status, 0);
  for (const int end : {ready[0], ready[1], go[0], go[1]}) close(end);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Watchdog, EndsAProcessThatWaitsTooLong) { EXPECT_EQ(status_of_child(0), static_cast<int>(ExitCode::timeout)); }

TEST(Watchdog, DoesNotCountTheTimeInWhichTheProcessWasStopped) { EXPECT_EQ(status_of_child(7), 0); }

}  // namespace
}  // namespace thinwire
