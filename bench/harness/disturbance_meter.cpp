#include "bench/harness/disturbance_meter.h"

#include <unistd.h>

#include <type_traits>
#include <utility>

#include "collectives/process/node_info.h"
#include "results/provenance.h"

namespace thinwire::bench {

DisturbanceMeter::DisturbanceMeter(Communicator& world, bool kernel_carries, ReadCpu read) : world_(world), kernel_carries_(kernel_carries), read_(std::move(read)) {
  struct Rank {
    std::uint64_t kernel;
    std::int64_t pid;
  };
  const Rank mine{NodeInfo::kernel(), getpid()};
  std::vector<Rank> all(static_cast<std::size_t>(world_.size()));
  world_.all_gather(&mine, sizeof mine, all.data())->wait();
  for (const Rank& rank : all)
    if (rank.kernel == mine.kernel) ranks_here_.push_back(rank.pid);
}

// The machine's first rank speaks for it (disturbance_of): the others need not look through all processes.
CpuReading DisturbanceMeter::read() const {
  CpuReading reading = read_(NodeInfo::rank_here() == 0);
  if (!kernel_carries_) reading.carrying_s = 0;
  return reading;
}

void DisturbanceMeter::start(const std::string& cell_id) {
  world_.barrier();  // the ranks' spans shall be one
  begun_[cell_id] = {read(), results::timestamp_now()};
}

std::optional<results::AttemptRow> DisturbanceMeter::finish(const std::string& cell_id) {
  const auto begun = begun_.find(cell_id);
  if (begun == begun_.end()) return std::nullopt;
  world_.barrier();
  const CpuSpan mine = span_between(begun->second.reading, read(), NodeInfo::kernel(), ranks_here_);
  static_assert(std::is_trivially_copyable_v<CpuSpan>);
  std::vector<CpuSpan> all(static_cast<std::size_t>(world_.size()));
  world_.all_gather(&mine, sizeof mine, all.data())->wait();
  const Disturbance disturbance = disturbance_of(all);
  const CpuSpan& machine = disturbance.machine;
  results::AttemptRow row;
  row.cell_id = cell_id;
  row.disturbance_cores = disturbance.cores;
  row.others_cpu_s = machine.others_s;
  row.machine_cpu_s = machine.busy_s;
  row.own_cpu_s = machine.own_s;
  row.carrying_cpu_s = machine.carrying_s;
  row.steal_s = machine.steal_s;
  row.interrupt_cpu_s = machine.interrupt_s;
  row.wall_s = machine.wall_s;
  row.started = begun->second.when;
  begun_.erase(begun);
  return row;
}

}  // namespace thinwire::bench
