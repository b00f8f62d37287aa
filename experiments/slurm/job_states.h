// What Slurm says of jobs: its states and what they mean for a cell, and the outputs of sacct and squeue.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thinwire::sweep {

enum class JobPhase { waiting, running, over };

/// One line of the table in job_states.cpp.
struct JobState {
  const char* name;     ///< as squeue --format=%T and sacct print it
  JobPhase phase;
  const char* shown;    ///< what `sweep status` counts a cell without a record as
  bool resubmit;        ///< whether `sweep submit` takes such a cell
  const char* seen;     ///< "recorded": in tests/slurm/recordings; "manual": after Slurm's manual only
  const char* meaning;
};
std::span<const JobState> job_state_table();

/// The line of a state; "CANCELLED by 0" and "COMPLETED+" are understood. A state that the table does not have counts as running:
/// nothing is submitted twice because of a word that nobody knows.
const JobState& job_state(std::string_view name);

/// A task of an array, as a queue or an accounting database tells of it.
struct JobRecord {
  std::string name;   ///< of the job
  int task = 0;       ///< index in its array; 0 for a job that is none
  std::string job;    ///< "123_4", for people
  std::string state;  ///< word of the table
  std::string reason; ///< why it waits, or its exit code
};
/// What `sweep status` counts a cell without a record as: the table's word, but HELD for a job that the queue calls PENDING and says only
/// in its reason to be held (JobHeldUser, "job requeued in held state").
const char* shown_as(const JobRecord& record);
/// Output of `sacct -X --parsable2 --format=JobID,JobName,State,ExitCode` (a heading and lines of other kinds are passed over).
/// Ranges of waiting tasks, 12_[3-5,8%2], become one record each.
std::vector<JobRecord> parse_sacct(std::string_view text);
/// Output of `squeue --array --format=%i|%j|%T|%r`.
std::vector<JobRecord> parse_squeue(std::string_view text);

/// (name, task) -> record. sacct's word counts, except for a job that squeue still has waiting or running: the database learns of
/// a requeue later than the queue does. Of several records of one task in one output the last counts.
using JobRecords = std::map<std::pair<std::string, int>, JobRecord>;
JobRecords merge_records(std::span<const JobRecord> sacct, std::span<const JobRecord> squeue);

}  // namespace thinwire::sweep
