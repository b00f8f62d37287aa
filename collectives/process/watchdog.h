// A thread that notices when a rank waits too long, says for what, and ends the job.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire {

/// THINWIRE_WATCHDOG = seconds without any progress before a wait counts as a hang (default 120; 0 = off).
/// Time during which the whole process was stopped (scontrol suspend, SIGSTOP) does not count. When it fires, the
/// process fails through fail_process with exit code 4 and a message that names the rank, the channel and the
/// operation.
class Watchdog {
 public:
  static void start(int rank);
  static void stop();
  static double limit_seconds();

  /// Something that is being waited for on the calling thread. Nests: the innermost is named first.
  class Guard {
   public:
    /// `describe(context)` is called from the watchdog's thread, only when it fires; what it reads must not
    /// change while the guard lives.
    using Describe = std::string (*)(const void* context);
    Guard(Describe describe, const void* context);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    /// Progress was made: the clock starts again.
    void touch();

   private:
    friend class Watchdog;
    Describe describe_;
    const void* context_;
    std::int64_t since_ns_;
  };
};

}  // namespace thinwire
