// A child process: started without a shell, in a process group of its own, and never outliving this one.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace thinwire::sweep {

struct Command {
  std::vector<std::string> arguments;              ///< arguments[0] is looked up in PATH
  std::map<std::string, std::string> environment;  ///< added to this process's
  std::string folder;                              ///< working folder; empty: this process's
  std::string log;                                 ///< stdout and stderr are appended here
};

/// How a process ended.
struct Ending {
  int exit_status = 0;  ///< when `signal` is 0
  int signal = 0;
  std::string to_string() const;  ///< "exit status 6", "killed by signal 9"
};

class Process {
 public:
  /// Throws EnvironmentError when the program cannot be started (not found, not executable). When this
  /// process dies, even by SIGKILL, the command gets SIGTERM, and its group SIGKILL five seconds later.
  explicit Process(const Command& command);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Ends the whole group if it still runs.
  ~Process();

  /// The ending, once it has ended; does not wait.
  std::optional<Ending> poll();
  /// SIGUSR1 to the first processes below this one that handle it: mpirun and srun hand it on to every rank;
  /// shells in between are spared.
  void request_stop();
  /// Whether an mpirun among what was started has had processes, and none of them lives any more: its time to
  /// end has come. mpirun may wait for ever then
  /// (experiments/run/process.cpp). False where the kernel does not list children (CONFIG_PROC_CHILDREN).
  bool has_mpirun_without_ranks();
  /// SIGTERM to the group, SIGKILL to what is left after `grace_seconds`, children of children included
  /// (ranks live in groups of their own). Returns when nothing is left. Also cleans up after a process that
  /// has ended by itself.
  void terminate(double grace_seconds);

 private:
  pid_t pid_ = -1;
  std::optional<Ending> ending_;
  std::set<pid_t> had_ranks_;  ///< every mpirun that was seen with processes
};

/// Orphaned grandchildren (ranks of a killed mpirun) become children of this process, so that terminate()
/// finds them. Call once at start.
void adopt_orphans();

/// Output of a short-lived program (stdout and stderr), or nothing when it cannot be started, fails, or takes
/// longer than `limit_seconds`.
std::optional<std::string> output_of(const std::vector<std::string>& arguments, double limit_seconds);

}  // namespace thinwire::sweep
