#include "experiments/slurm/job_states.h"

#include <array>
#include <charconv>

namespace thinwire::sweep {

namespace {

using enum JobPhase;

// Every state of Slurm 22.05 (squeue(1) and sacct(1), "JOB STATE CODES"). A cell with a verified record is done whatever its job
// became: this table is asked only for cells without one.
constexpr std::array table = {
    JobState{"PENDING", waiting, "QUEUED", false, "recorded", "waits for its turn, for resources or for its begin time"},
    JobState{"CONFIGURING", waiting, "QUEUED", false, "manual", "has nodes, which are being made ready"},
    JobState{"REQUEUED", waiting, "QUEUED", false, "recorded", "is put back into the queue"},
    JobState{"REQUEUE_FED", waiting, "QUEUED", false, "manual", "is put back into the queue of a federation"},
    JobState{"REQUEUE_HOLD", waiting, "HELD", false, "manual", "was requeued and is held: scontrol release, or scancel and submit again"},
    JobState{"RESV_DEL_HOLD", waiting, "HELD", false, "manual", "is held, its reservation was deleted: scontrol release, or scancel"},
    JobState{"SPECIAL_EXIT", waiting, "HELD", false, "recorded", "was requeued with a mark and is held: scontrol release, or scancel"},
    JobState{"RUNNING", running, "RUNNING", false, "recorded", "runs"},
    JobState{"COMPLETING", running, "RUNNING", false, "recorded", "has ended; some of its processes may still be active"},
    JobState{"SUSPENDED", running, "SUSPENDED", false, "recorded", "has nodes but does not run: scontrol resume goes on"},
    JobState{"STOPPED", running, "SUSPENDED", false, "recorded", "has its cores but was sent SIGSTOP"},
    JobState{"RESIZING", running, "RUNNING", false, "manual", "is about to change its size"},
    JobState{"SIGNALING", running, "RUNNING", false, "manual", "is being signalled"},
    JobState{"STAGE_OUT", running, "RUNNING", false, "manual", "has ended, its files are being copied"},
    JobState{"COMPLETED", over, "LOST", true, "recorded", "ended with exit code 0 and yet left no record of this cell"},
    JobState{"FAILED", over, "LOST", true, "recorded", "the task ended with an error, see its log"},
    JobState{"CANCELLED", over, "CANCELLED", true, "recorded", "was cancelled by a person"},
    JobState{"TIMEOUT", over, "LOST", true, "recorded", "met its time limit before it could requeue itself"},
    JobState{"NODE_FAIL", over, "LOST", true, "recorded", "a node failed and the job was not requeued"},
    JobState{"PREEMPTED", over, "LOST", true, "recorded", "had to make room and was not requeued"},
    JobState{"OUT_OF_MEMORY", over, "LOST", true, "manual", "needed more memory than it had asked for"},
    JobState{"BOOT_FAIL", over, "LOST", true, "manual", "its node could not be started"},
    JobState{"DEADLINE", over, "LOST", true, "recorded", "could not end before its deadline"},
    JobState{"REVOKED", over, "LOST", true, "manual", "was started by another cluster of the federation"},
};

constexpr JobState unheard_of{"?", running, "UNKNOWN", false, "manual", "is in a state that this version does not know"};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0;;) {
    const std::size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to == text.npos ? to : to - from));
    if (to == text.npos) return parts;
    from = to + 1;
  }
}

bool to_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

// "123", "123_4", "123_[0-2,5%3]": the tasks that are meant; empty when it is no job.
std::vector<int> tasks_of(std::string_view job) {
  const std::size_t bar = job.find('_');
  int number = 0;
  if (!to_number(job.substr(0, bar), number)) return {};
  if (bar == job.npos) return {0};
  std::string_view tasks = job.substr(bar + 1);
  if (to_number(tasks, number)) return {number};
  if (!tasks.starts_with("[") || !tasks.ends_with("]")) return {};
  tasks = tasks.substr(1, tasks.size() - 2);
  tasks = tasks.substr(0, tasks.find('%'));
  std::vector<int> found;
  for (const std::string_view part : split(tasks, ',')) {
    const std::size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!to_number(part.substr(0, dash), first)) return {};
    last = first;
    if (dash != part.npos && !to_number(part.substr(dash + 1), last)) return {};
    if (last - first > 1'000'000) return {};
    for (int task = first; task <= last; ++task) found.push_back(task);
  }
  return found;
}

std::vector<JobRecord> parse(std::string_view text) {
  std::vector<JobRecord> records;
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::vector<std::string_view> fields = split(line, '|');
    if (fields.size() < 4) continue;
    const std::string_view state = fields[2].substr(0, fields[2].find_first_of(" +"));
    const std::string_view job = fields[0].substr(0, fields[0].find('_'));
    for (const int task : tasks_of(fields[0])) {
      const bool is_array = fields[0].find('_') != fields[0].npos;
      records.push_back({std::string(fields[1]), task, std::string(job) + (is_array ? "_" + std::to_string(task) : ""),
                         std::string(state), std::string(fields[3])});
    }
  }
  return records;
}

}  // namespace

std::span<const JobState> job_state_table() { return table; }

const JobState& job_state(std::string_view name) {
  name = name.substr(0, name.find_first_of(" +"));
  for (const JobState& state : table)
    if (name == state.name) return state;
  return unheard_of;
}

const char* shown_as(const JobRecord& record) {
  const JobState& state = job_state(record.state);
  const bool held = state.phase == JobPhase::waiting &&
                    (record.reason.starts_with("JobHeld") || record.reason.find("held state") != std::string::npos);
  return held ? "HELD" : state.shown;
}

std::vector<JobRecord> parse_sacct(std::string_view text) { return parse(text); }
std::vector<JobRecord> parse_squeue(std::string_view text) { return parse(text); }

JobRecords merge_records(std::span<const JobRecord> sacct, std::span<const JobRecord> squeue) {
  JobRecords merged;
  for (const JobRecord& record : sacct) merged[{record.name, record.task}] = record;
  std::map<std::pair<std::string, int>, bool> from_queue;
  for (const JobRecord& record : squeue) {
    const std::pair key{record.name, record.task};
    const auto known = merged.find(key);
    const bool in_queue = job_state(record.state).phase != JobPhase::over;
    if (known == merged.end() || in_queue || from_queue[key]) {
      merged[key] = record;
      from_queue[key] = true;
    }
  }
  return merged;
}

}  // namespace thinwire::sweep
