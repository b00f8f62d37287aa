// Who is running which cells of a result folder, so that several tasks (on several nodes) and a `sweep run` can work in it at once
// and no cell runs twice at the same time.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "core/clock.h"

namespace thinwire::sweep {

/// The leases of one runner: OUT/leases/<key>.json lists its cells. The file is locked (flock) for as long as the runner or anything
/// that it started lives, and touched every 10 s. Another runner takes it for dead when the lock is free and either the owner was on
/// this same machine or the file was not touched for 90 s (file systems where locks do not reach other nodes). All changes are
/// made under the lock of OUT/leases/.lock. The folder holds nothing else: whatever lies in it is read as a lease, and removed when nobody holds it.
class CellLeases {
 public:
  /// `key`: one per runner, a word ("run", "12_3"); a runner that is started anew under its old key (a requeued task) replaces
  /// its dead self. `who` is shown to others. Throws EnvironmentError when another live process on this machine has this key, or when the
  /// folder cannot be written.
  CellLeases(const std::string& out, const std::string& key, const std::string& who);
  CellLeases(const CellLeases&) = delete;
  CellLeases& operator=(const CellLeases&) = delete;
  ~CellLeases();  ///< gives all back

  /// Holds from now on those of `cells` that nobody else holds, besides what it held; returns the others with their owner.
  std::map<std::string, std::string> take(std::span<const std::string> cells);
  /// Says that the owner lives; call often, it acts every 10 s. False when the leases were taken over by somebody else (this process
  /// was stopped for long): end what is running.
  bool renew();

 private:
  bool is_mine();
  void write();

  std::string folder_, path_, who_;
  int file_ = -1;
  std::set<std::string> cells_;
  Stopwatch since_touch_;
};

/// Cells of `out` that live runners hold now, with their owner; for status.
std::map<std::string, std::string> leased_cells(const std::string& out);

}  // namespace thinwire::sweep
