// The machine that ranks share: how many of them, on how many cores, and a lock that lets one rank of the machine
// compute at a time.
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

}  // namespace thinwire
