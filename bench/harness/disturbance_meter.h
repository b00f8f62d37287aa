// How much of the machine others took while a cell was measured (docs/measuring.md). Reads when cells start and end, never inside timed code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "core/process/cpu_accounting.h"
#include "results/row.h"

namespace thinwire::bench {

/// read_cpu, or what a test plays in its place.
using ReadCpu = std::function<CpuReading(bool with_processes)>;

class DisturbanceMeter {
 public:
  /// Collective. `kernel_carries`: the link is one that this machine's kernel moves bytes over; elsewhere none of its threads work for the job.
  DisturbanceMeter(Communicator& world, bool kernel_carries, ReadCpu read);

  /// Collective. Cells may overlap; each has its own span.
  void start(const std::string& cell_id);
  /// Collective. The row of the first attempt, equal on all ranks; empty for a cell that was not started.
  std::optional<results::AttemptRow> finish(const std::string& cell_id);

 private:
  CpuReading read() const;
  struct Begun {
    CpuReading reading;
    std::string when;
  };
  Communicator& world_;
  bool kernel_carries_;
  ReadCpu read_;
  std::vector<std::int64_t> ranks_here_;  ///< their process numbers
  std::map<std::string, Begun> begun_;
};

}  // namespace thinwire::bench
