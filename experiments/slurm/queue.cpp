#include "experiments/slurm/queue.h"

#include <ctime>
#include <filesystem>
#include <fstream>

#include "core/clock.h"
#include "core/process/environment.h"
#include "core/error.h"
#include "core/joined.h"
#include "core/process/log.h"
#include "experiments/run/process.h"
#include "results/files/files.h"
#include "results/journal.h"

namespace thinwire::sweep {

namespace {

constexpr double answer_limit = 30;  // seconds; a controller under load may be slow

std::string slurm_time(double seconds) {
  const std::time_t time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
  return text;
}

// Runs a program to its end; its output is appended to `log`. Returns its ending and what it added.
std::pair<Ending, std::string> logged(const std::vector<std::string>& arguments, const std::string& log) {
  std::error_code none;
  const auto size = std::filesystem::exists(log, none) ? std::filesystem::file_size(log, none) : 0;
  Ending ending;
  {
    Process process({arguments, {}, "", log});
    const Stopwatch watch;
    std::optional<Ending> ended;
    while (!(ended = process.poll()) && watch.seconds() < 120) sleep_until_ns(now_ns() + 20'000'000);
    if (!ended) throw RuntimeFailure("`" + arguments[0] + "` gave no answer for 120 s; see " + log);
    ending = *ended;
  }
  std::ifstream file(log);
  file.seekg(static_cast<std::streamoff>(size));
  return {ending, std::string(std::istreambuf_iterator<char>(file), {})};
}

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// A task that has started wrote its job's number itself: it is known even where squeue has forgotten it.
std::string job_from_journal(const SubmissionSummary& s, std::size_t array, std::size_t task) {
  std::string job;
  const std::string path = s.folder + "/task-" + std::to_string(array) + "-" + std::to_string(task) + ".jsonl";
  for (const results::JournalEntry& entry : results::JournalReader(path).poll())
    if (entry.event == "task_started") job = entry.reason.substr(0, entry.reason.find(' '));
  return job;
}

CellJob judge(const SubmissionSummary& s, std::size_t k, std::size_t task, const QueueAnswer& answer) {
  CellJob result;
  const SubmittedArray& array = s.arrays[k];
  if (!array.refused.empty()) {
    result.shown = "missing";
    result.reason = "sbatch refused it: " + array.refused;
    return result;
  }
  const auto found = answer.records.find({array.name, static_cast<int>(task)});
  if (found != answer.records.end()) {
    const JobRecord& record = found->second;
    const JobState& state = job_state(record.state);
    result.job = record.job;
    result.state = record.state;
    result.shown = shown_as(record);
    result.resubmit = state.resubmit;
    result.reason = "job " + record.job + " " + record.state + ": " + state.meaning;
    if (state.phase == JobPhase::waiting && !record.reason.empty() && record.reason != "None") result.reason += " (" + record.reason + ")";
    if (state.phase == JobPhase::over) result.reason += "; see " + s.folder + "/task-" + std::to_string(k) + "-" + std::to_string(task) + ".log";
    return result;
  }
  result.job = !array.job.empty() ? array.job + "_" + std::to_string(task) : job_from_journal(s, k, task);
  if (!answer.answered) {
    result.shown = "UNKNOWN";
    result.resubmit = false;
    result.reason = "squeue cannot be asked on this machine";
    return result;
  }
  // The controller takes a job before sbatch has told us its number.
  const double age = static_cast<double>(std::time(nullptr)) - s.created;
  if (result.job.empty() && age >= 0 && age < 10) {
    result.shown = "QUEUED";
    result.resubmit = false;
    result.reason = "is being submitted";
    return result;
  }
  result.shown = result.job.empty() ? "missing" : "LOST";
  result.reason = result.job.empty() ? "the submission ended before sbatch took it"
                                     : "job " + result.job + " is not in the queue any more; see " + s.folder;
  return result;
}

void note_job_numbers(const SubmissionSummary& s, const QueueAnswer& answer) {
  bool changed = false;
  Submission known;
  for (std::size_t k = 0; k < s.arrays.size(); ++k) {
    if (!s.arrays[k].job.empty() || !s.arrays[k].refused.empty()) continue;
    for (const auto& [key, record] : answer.records) {
      if (key.first != s.arrays[k].name) continue;
      if (!changed) known = read_submission(s.folder);
      known.submitted[k].job = record.job.substr(0, record.job.find('_'));
      changed = true;
      break;
    }
  }
  if (changed) write_submitted(known);
}

}  // namespace

QueueAnswer ask_queue(const std::vector<std::string>& names, double since) {
  QueueAnswer answer;
  std::vector<JobRecord> in_queue, in_database;
  // Hundreds of names to a call: a command line has its limits.
  for (std::size_t from = 0; from < names.size(); from += 500) {
    const std::vector<std::string> some(names.begin() + static_cast<std::ptrdiff_t>(from),
                                        names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), from + 500)));
    const auto queue = output_of({"squeue", "--noheader", "--all", "--array", "--states=all", "--name=" + joined(some, ","),
                                  "--format=%i|%j|%T|%r"}, answer_limit);
    if (queue) {
      answer.answered = true;
      for (JobRecord& record : parse_squeue(*queue)) in_queue.push_back(std::move(record));
    }
    // A site without accounting answers with an error: then the queue alone is asked.
    const auto database = output_of({"sacct", "--noheader", "--allocations", "--parsable2", "--starttime=" + slurm_time(since),
                                     "--name=" + joined(some, ","), "--format=JobID,JobName%200,State,ExitCode"}, answer_limit);
    if (database)
      for (JobRecord& record : parse_sacct(*database)) in_database.push_back(std::move(record));
  }
  answer.records = merge_records(in_database, in_queue);
  return answer;
}

std::map<std::string, CellJob> jobs_of_cells(const std::string& out, const std::set<std::string>& open_cells, bool mend) {
  std::map<std::string, CellJob> jobs;
  if (open_cells.empty()) return jobs;
  std::vector<SubmissionSummary> submissions;
  std::vector<std::string> names;
  double since = static_cast<double>(std::time(nullptr));
  for (const std::string& folder : submission_folders(out)) {
    const std::optional<SubmissionSummary> s = read_summary(folder);
    if (!s) continue;
    bool is_open = false;
    for (std::size_t k = 0; k < s->arrays.size() && k < s->cells.size(); ++k) {
      bool any = false;
      for (const auto& task : s->cells[k])
        for (const std::string& cell : task) any = any || open_cells.contains(cell);
      if (any && s->arrays[k].refused.empty()) names.push_back(s->arrays[k].name);
      is_open = is_open || any;
    }
    if (!is_open) continue;
    since = std::min(since, s->created);
    submissions.push_back(*s);
  }
  if (submissions.empty()) return jobs;
  const QueueAnswer answer = names.empty() ? QueueAnswer{{}, true} : ask_queue(names, since - 3600);
  for (const SubmissionSummary& s : submissions) {
    for (std::size_t k = 0; k < s.arrays.size() && k < s.cells.size(); ++k)
      for (std::size_t task = 0; task < s.cells[k].size(); ++task) {
        std::optional<CellJob> job;  // one judgement per task, not per cell
        for (const std::string& cell : s.cells[k][task]) {
          if (!open_cells.contains(cell)) continue;
          if (!job) job = judge(s, k, task, answer);
          const auto older = jobs.find(cell);
          if (older == jobs.end() || older->second.resubmit) jobs[cell] = *job;
        }
      }
    if (mend && answer.answered) note_job_numbers(s, answer);
  }
  return jobs;
}

std::string sbatch(const std::string& script, const std::string& log) {
  const auto [ending, text] = logged({"sbatch", "--parsable", script}, log);
  if (ending.signal != 0 || ending.exit_status != 0) throw RuntimeFailure("sbatch refused " + script + ": " + one_line(text));
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    const std::string job = line.substr(0, line.find(';'));  // "123;cluster"
    if (!job.empty() && job.find_first_not_of("0123456789") == std::string::npos) return job;
    from = end + 1;
  }
  throw RuntimeFailure("sbatch took " + script + " without naming a job: " + one_line(text));
}

namespace {

/// What squeue and scontrol know this job by. A task of an array by its place in it: its SLURM_JOB_ID is the whole array's where it was the last to start.
std::optional<std::string> own_job() {
  const auto array = Environment::get("SLURM_ARRAY_JOB_ID"), task = Environment::get("SLURM_ARRAY_TASK_ID");
  return array && task ? std::optional(*array + "_" + *task) : Environment::get("SLURM_JOB_ID");
}

}  // namespace

bool own_job_goes_on() {
  const auto job = own_job();
  if (!job) return true;
  const auto text = output_of({"squeue", "--noheader", "--array", "--states=all", "--jobs=" + *job, "--format=%i|%j|%T|%r"}, answer_limit);
  if (!text) return true;
  for (const JobRecord& record : parse_squeue(*text)) return record.state == "RUNNING";
  return true;
}

bool requeue_own_job(const std::string& log, std::string& why) {
  const auto job = own_job();
  if (!job) {
    why = "this is no Slurm job";
    return false;
  }
  const auto [ending, text] = logged({"scontrol", "requeue", *job}, log);
  why = one_line(text);
  return ending.signal == 0 && ending.exit_status == 0;
}

}  // namespace thinwire::sweep
