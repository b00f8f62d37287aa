// Signals that end a run early: noted by a handler, acted on between polls.
#pragma once

#include <csignal>
#include <map>

namespace thinwire::sweep {

/// While one lives, SIGINT and SIGTERM (end now) and SIGUSR1 (a time limit is near: what can leave a checkpoint shall do so
/// first) are noted instead of ending the process. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The signal that came last, 0: none.
  static int pending();

 private:
  std::map<int, struct sigaction> old_;
};

}  // namespace thinwire::sweep
