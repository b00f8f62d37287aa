// The machine that ranks share: how many of them, on how many cores, how to wait without taking a core from
// the others, and a lock that lets one rank of the machine compute at a time.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire {

/// Set once by MpiEnvironment. Ranks are counted per kernel (boot id), so ranks in different network
/// namespaces of one machine are seen to share its cores.
class NodeInfo {
 public:
  static void set(int ranks_here, int rank_here, std::uint64_t job, std::uint64_t kernel);
  static int ranks_here();
  /// This rank's number among them.
  static int rank_here();
  /// The same number on all ranks that share this kernel, another one elsewhere.
  static std::uint64_t kernel();
  /// Cores that this process may use (its affinity mask).
  static int cores();
  /// Ranks per core of this machine; above 1 wall-clock times of compute are distorted.
  static double oversubscription();
  /// File of the machine-wide lock, in /dev/shm (else TMPDIR, else /tmp), named by the job.
  static std::string lock_path();
  static void remove_lock();
};

/// Holds the machine-wide lock while it lives; waiting ranks sleep in the kernel.
class MachineLock {
 public:
  MachineLock();
  ~MachineLock();
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;
};

/// How a waiting rank spends its time between two polls. THINWIRE_WAIT = spin | nap | auto (default): auto
/// spins when every rank has a core of its own (lowest latency); else it polls and yields for 1 ms and then
/// sleeps in naps of 20 us (plus 25 us of timer), so that waiting ranks leave the core to those that work.
/// nap: at once.
class Waiter {
 public:
  /// Call between two unsuccessful polls.
  void pause();
  /// While one of these lives, every wait of the process naps at once (serial measuring: the rank that
  /// computes must have the machine to itself).
  struct Quiet {
    /// `nap_us`: of every nap until no Quiet is left; the longest counts. Longer naps leave more of a core to the others.
    explicit Quiet(int nap_us = 0);
    ~Quiet();
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
  };

 private:
  std::int64_t started_ns_ = 0;
};

}  // namespace thinwire
