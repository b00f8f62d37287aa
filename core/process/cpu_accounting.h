// Who used a machine's cores in a span of time: the job's own processes, kernel threads that carry its traffic, or others. Readings are cheap (a few
// files of /proc) but no part of anything timed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace thinwire {

inline constexpr double cpu_unknown = std::numeric_limits<double>::quiet_NaN();

/// Seconds since the machine started, summed over its cores; NaN where the system does not tell.
struct MachineCpu {
  double busy_s = cpu_unknown;       ///< user (guests included), nice and system
  double interrupt_s = cpu_unknown;  ///< irq and softirq, which `busy_s` does not hold
  double steal_s = cpu_unknown;      ///< a core was wanted while the hypervisor gave it to others
};
/// From the text of /proc/stat: its line "cpu". NaN everywhere for a text without that line or with fewer than its eight numbers.
MachineCpu parse_proc_stat(std::string_view text, double ticks_per_second);

/// CPU seconds of a kernel thread that can carry network traffic, from the text of /proc/PID/stat; empty for any other process and for what is no
/// such text. kworker, napi and irq threads can: their time is in `busy_s`. ksoftirqd's is not: the kernel books it under softirq.
std::optional<double> parse_carrying_thread(std::string_view text, double ticks_per_second);
/// Whether the text of /proc/PID/stat is of a kernel thread. A container or PID namespace shows none.
bool is_kernel_thread(std::string_view text);

/// All at one moment. Seconds since points that stay the same while the machine runs.
struct CpuReading {
  double at_s = cpu_unknown;  ///< on the monotonic clock
  MachineCpu machine;
  double own_s = cpu_unknown;       ///< of this process, all its threads
  double carrying_s = cpu_unknown;  ///< of parse_carrying_thread's threads; NaN where no kernel thread is to be seen; 0 where it was not asked for
};
/// Now, from this system. `with_carrying`: read every process's stat, a millisecond per few hundred processes.
CpuReading read_cpu(bool with_carrying);

/// One rank's share of a span, for exchange between ranks (plain bytes).
struct CpuSpan {
  std::uint64_t kernel = 0;  ///< equal for ranks of one machine
  double wall_s = cpu_unknown, busy_s = cpu_unknown, interrupt_s = cpu_unknown, steal_s = cpu_unknown, carrying_s = cpu_unknown;  ///< of the machine
  double own_s = cpu_unknown;                                                                                                     ///< of the rank
};
CpuSpan span_between(const CpuReading& begin, const CpuReading& end, std::uint64_t kernel);

/// What others took of the machine that was disturbed most.
struct Disturbance {
  /// (busy - own - carrying + steal) / wall. May be a little below 0: own time holds the softirqs that interrupted a rank, busy time none, and the
  /// kernel samples busy time by its tick. NaN where it is not known on every machine, or the span is shorter than `least_disturbance_span_s`.
  double cores = cpu_unknown;
  CpuSpan machine;  ///< own_s: sum over its ranks
};
/// Of the ranks' spans in rank order. A machine's readings are its first rank's, its own time is the sum over its ranks; carrying time that is NaN
/// (no kernel thread to be seen) counts as others'.
Disturbance disturbance_of(std::span<const CpuSpan> ranks);

/// Shorter spans have too few ticks (100 a second) for a limit of a twentieth of a core.
inline constexpr double least_disturbance_span_s = 0.5;

}  // namespace thinwire
