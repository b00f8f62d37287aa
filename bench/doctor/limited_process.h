// Work in a child process with a time limit: a check that hangs or crashes costs its time, not the program.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace thinwire::bench {

struct ProcessResult {
  int exit_status = -1;  ///< of a process that ended by itself, else -1
  int signal = 0;        ///< that ended it, else 0
  bool timed_out = false;
  std::string output;    ///< stdout and stderr together, at most 1 MiB
  bool succeeded() const { return exit_status == 0; }
  /// "ended with exit status 2", "was killed by signal 9 (Killed)", "did not end within its time".
  std::string ending() const;
};

/// Forks; the child calls `body` and ends with what it returns. After `limit_s` seconds the child and its process
/// group get SIGTERM, 2 s later SIGKILL. The child dies with the caller. Call it before threads are started. Throws
/// EnvironmentError when no process can be started.
ProcessResult run_limited(const std::function<int()>& body, double limit_s);
/// The same with a command, found through PATH; exit status 127 when it does not exist. stdin is empty.
ProcessResult run_limited(const std::vector<std::string>& command, double limit_s);

}  // namespace thinwire::bench
