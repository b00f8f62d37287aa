// Who used a machine's cores in a span of time: the job's own processes, kernel threads that carry its traffic, or others. Readings are cheap (a few
// files of /proc) but no part of anything timed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace thinwire {

inline constexpr double cpu_unknown = std::numeric_limits<double>::quiet_NaN();

/// Seconds since the machine started, summed over its cores; NaN where the system does not tell.
struct MachineCpu {
  /// User (guests included), nice and system, as the kernel's tick samples them: work that timers wake, as ranks that nap do, may run between the ticks.
  double busy_s = cpu_unknown;
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

/// What a process had used at one moment, in seconds. The kernel fits user and system time of a process to the time that it ran, to the nanosecond,
/// and tells them in ticks of 10 ms.
struct ProcessCpu {
  std::int64_t pid = 0;
  double started = 0;     ///< ticks since the machine started: tells processes of one number apart
  double self_s = 0;      ///< user and system, all threads
  double children_s = 0;  ///< of children that have ended and that it has waited for
};
/// From the text of /proc/PID/stat; empty for what is no such text.
std::optional<ProcessCpu> parse_process_cpu(std::string_view text, double ticks_per_second);
/// Seconds that processes but `own` used between two moments. The time of a process that ended counts where its parent waited for it; nothing is known of one that began and ended
/// in between and that nobody waited for.
double used_between(std::span<const ProcessCpu> begin, std::span<const ProcessCpu> end, std::span<const std::int64_t> own);

/// All at one moment. Seconds since points that stay the same while the machine runs.
struct CpuReading {
  double at_s = cpu_unknown;  ///< on the monotonic clock
  MachineCpu machine;
  double own_s = cpu_unknown;       ///< of this process, all its threads
  double carrying_s = cpu_unknown;  ///< of parse_carrying_thread's threads; NaN where no kernel thread is to be seen or it was not asked for
  std::optional<std::vector<ProcessCpu>> processes = {};  ///< all of the machine; empty where not all are to be seen (no kernel thread is), or it was not asked for
};
/// Now, from this system. `with_processes`: read every process's stat, a millisecond per few hundred processes.
CpuReading read_cpu(bool with_processes);

/// One rank's share of a span, for exchange between ranks (plain bytes).
struct CpuSpan {
  std::uint64_t kernel = 0;  ///< equal for ranks of one machine
  double wall_s = cpu_unknown, busy_s = cpu_unknown, interrupt_s = cpu_unknown, steal_s = cpu_unknown, carrying_s = cpu_unknown;  ///< of the machine
  double own_s = cpu_unknown;     ///< of the rank
  double others_s = cpu_unknown;  ///< of the machine's processes that are none of the job's ranks; NaN where not all processes are to be seen
};
/// `ranks`: process numbers of the job's ranks on this machine.
CpuSpan span_between(const CpuReading& begin, const CpuReading& end, std::uint64_t kernel, std::span<const std::int64_t> ranks);

/// What others took of the machine that was disturbed most.
struct Disturbance {
  /// (others - carrying + steal) / wall; where others' time is not known (busy - own - carrying + steal) / wall, which may be far below 0: the kernel samples busy time
  /// by its tick, and ranks that nap run between the ticks. NaN where it is not known on every machine, or the span is shorter than `least_disturbance_span_s`.
  double cores = cpu_unknown;
  CpuSpan machine;  ///< own_s: sum over its ranks
};
/// Of the ranks' spans in rank order. A machine's readings are its first rank's, its own time is the sum over its ranks; carrying time that is NaN
/// (no kernel thread to be seen) counts as others'.
Disturbance disturbance_of(std::span<const CpuSpan> ranks);

/// Shorter spans have too few ticks (100 a second) for a limit of a twentieth of a core.
inline constexpr double least_disturbance_span_s = 0.5;

}  // namespace thinwire
