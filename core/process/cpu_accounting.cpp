#include "core/process/cpu_accounting.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/clock.h"

namespace thinwire {
namespace {

/// The next number of `text`, which is cut off; empty where the next word is none.
std::optional<double> next_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return static_cast<double>(value);
}

constexpr double kthreadd = 2;                           // parent of all kernel threads; in a container 2 may be anybody's number
constexpr std::uint64_t kernel_thread_flag = 0x00200000;  // PF_KTHREAD of the kernel's sched.h

struct ProcessStat {
  std::string_view name;
  bool of_kernel = false;
  double user = 0, system = 0, children_user = 0, children_system = 0, started = 0;  ///< times in ticks
};
// "PID (NAME) STATE PARENT ..."; a name may hold spaces and brackets, so that its end is the last one.
std::optional<ProcessStat> parse_process(std::string_view text) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || close + 4 > text.size()) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest{std::string(text.substr(close + 4))};
  // Fields 4 to 22 of proc(5); some of those between are signed.
  std::array<double, 19> fields{};
  for (double& field : fields)
    if (!(rest >> field)) return std::nullopt;
  stat.of_kernel = fields[0] == kthreadd && (static_cast<std::uint64_t>(fields[5]) & kernel_thread_flag) != 0;
  stat.user = fields[10], stat.system = fields[11], stat.children_user = fields[12], stat.children_system = fields[13], stat.started = fields[18];
  return stat;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double ticks_per_second() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

void read_processes(CpuReading& reading) {
  double carrying = 0;
  std::vector<ProcessCpu> processes;
  bool sees_kernel_threads = false;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string text = text_of(entry->path().string() + "/stat");  // empty where the process has ended meanwhile
    sees_kernel_threads |= is_kernel_thread(text);
    carrying += parse_carrying_thread(text, ticks_per_second()).value_or(0);
    if (const std::optional<ProcessCpu> process = parse_process_cpu(text, ticks_per_second())) processes.push_back(*process);
  }
  if (!sees_kernel_threads) return;  // a container, or processes of others are hidden
  reading.carrying_s = carrying;
  reading.processes = std::move(processes);
}

double own_now() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return cpu_unknown;
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

MachineCpu parse_proc_stat(std::string_view text, double ticks) {
  if (!text.starts_with("cpu ")) {
    const std::size_t line = text.find("\ncpu ");
    if (line == std::string_view::npos) return {};
    text.remove_prefix(line + 1);
  }
  text = text.substr(0, text.find('\n'));
  text.remove_prefix(4);
  // user, nice, system, idle, iowait, irq, softirq, steal; guests' time, which follows, is in user and nice already.
  std::array<double, 8> fields{};
  for (double& field : fields) {
    const std::optional<double> number = next_number(text);
    if (!number) return {};
    field = *number / ticks;
  }
  return {fields[0] + fields[1] + fields[2], fields[5] + fields[6], fields[7]};
}

bool is_kernel_thread(std::string_view text) {
  const std::optional<ProcessStat> process = parse_process(text);
  return process && process->of_kernel;
}

std::optional<double> parse_carrying_thread(std::string_view text, double ticks) {
  const std::optional<ProcessStat> process = parse_process(text);
  if (!process || !process->of_kernel) return std::nullopt;
  for (const std::string_view kind : {"kworker/", "napi/", "irq/"})
    if (process->name.starts_with(kind)) return (process->user + process->system) / ticks;
  return std::nullopt;
}

std::optional<ProcessCpu> parse_process_cpu(std::string_view text, double ticks) {
  const std::optional<ProcessStat> process = parse_process(text);
  std::int64_t pid = 0;
  if (!process || std::from_chars(text.data(), text.data() + text.size(), pid).ec != std::errc()) return std::nullopt;
  return ProcessCpu{pid, process->started, (process->user + process->system) / ticks, (process->children_user + process->children_system) / ticks};
}

double used_between(std::span<const ProcessCpu> begin, std::span<const ProcessCpu> end, std::span<const std::int64_t> own) {
  std::map<std::pair<std::int64_t, double>, const ProcessCpu*> ended;
  for (const ProcessCpu& process : begin) ended[{process.pid, process.started}] = &process;
  double used = 0, waited_for = 0, used_before = 0;
  for (const ProcessCpu& process : end) {
    const auto at = ended.find({process.pid, process.started});
    const ProcessCpu before = at == ended.end() ? ProcessCpu{} : *at->second;
    if (at != ended.end()) ended.erase(at);
    if (std::ranges::find(own, process.pid) != own.end()) continue;
    used += process.self_s - before.self_s;
    waited_for += process.children_s - before.children_s;
  }
  for (const auto& [key, process] : ended)
    if (std::ranges::find(own, process->pid) == own.end()) used_before += process->self_s + process->children_s;
  // A parent that waited has all of a child's time, of which this much was before. One that ignores its children has none.
  return used + std::max(0.0, waited_for - used_before);
}

CpuReading read_cpu(bool with_processes) {
  CpuReading reading;
  if (with_processes) read_processes(reading);
  reading.machine = parse_proc_stat(text_of("/proc/stat"), ticks_per_second());
  reading.own_s = own_now();
  reading.at_s = 1e-9 * static_cast<double>(now_ns());
  return reading;
}

CpuSpan span_between(const CpuReading& begin, const CpuReading& end, std::uint64_t kernel, std::span<const std::int64_t> ranks) {
  CpuSpan span;
  span.kernel = kernel;
  span.wall_s = end.at_s - begin.at_s;
  span.busy_s = end.machine.busy_s - begin.machine.busy_s;
  span.interrupt_s = end.machine.interrupt_s - begin.machine.interrupt_s;
  span.steal_s = end.machine.steal_s - begin.machine.steal_s;
  // Threads of a pool end with their time: what is left of the rest is not less than nothing.
  span.carrying_s = std::isnan(end.carrying_s - begin.carrying_s) ? cpu_unknown : std::max(0.0, end.carrying_s - begin.carrying_s);
  span.own_s = end.own_s - begin.own_s;
  if (begin.processes && end.processes) span.others_s = used_between(*begin.processes, *end.processes, ranks);
  return span;
}

Disturbance disturbance_of(std::span<const CpuSpan> ranks) {
  std::vector<CpuSpan> machines;
  for (const CpuSpan& rank : ranks) {
    const auto known = std::find_if(machines.begin(), machines.end(), [&](const CpuSpan& m) { return m.kernel == rank.kernel; });
    if (known == machines.end())
      machines.push_back(rank);
    else
      known->own_s += rank.own_s;
  }
  Disturbance worst;
  for (const CpuSpan& machine : machines) {
    const double carrying = std::isnan(machine.carrying_s) ? 0 : machine.carrying_s;
    const double others = std::isnan(machine.others_s) ? machine.busy_s - machine.own_s : machine.others_s;
    const double cores = (others - carrying + machine.steal_s) / machine.wall_s;
    // One machine that does not tell leaves all unknown: it may be the one that was disturbed.
    if (!(machine.wall_s >= least_disturbance_span_s) || std::isnan(cores)) return {cpu_unknown, machine};
    if (!(worst.cores >= cores)) worst = {cores, machine};
  }
  return worst;
}

}  // namespace thinwire
