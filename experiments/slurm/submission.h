// A submission: OUT/slurm/<id>/ with tasks.json (what runs), submission.json (what Slurm took) and the job scripts.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/slurm/packing.h"
#include "experiments/run/launcher.h"
#include "results/row.h"

namespace thinwire::sweep {

/// One sbatch. Written before sbatch is called, with `job` empty; a submit that died in between left a job that its name finds.
struct SubmittedArray {
  std::string name;     ///< of the job, unique in the cluster
  int tasks = 0;
  std::string job;      ///< number that Slurm gave; empty: unknown
  std::string refused;  ///< why sbatch refused it; its cells are free
};

/// One cell of tasks.json. `before`: modification time (ns) of the record that this submission shall replace, 0: it had none.
struct SubmittedCell {
  PlannedCell cell;
  std::int64_t before = 0;
};

/// All of it, for the tasks (docs/clusters.md). Values of a study travel in here, never in a job script.
struct Submission {
  std::string id;      ///< "0001"
  std::string folder;  ///< OUT/slurm/<id>
  std::string created; ///< seconds since the epoch
  RunPaths paths;
  int retries = 0, max_failures = 0;  ///< of the runs inside the tasks (runner.h)
  std::vector<SubmittedCell> cells;
  std::vector<PlannedArray> arrays;      ///< tasks index `cells`
  std::vector<SubmittedArray> submitted; ///< one per array
};

/// The submissions of `out`, oldest first.
std::vector<std::string> submission_folders(const std::string& out);

/// Cells packed for the machine of `paths`, with names of jobs that are placeholders yet; nothing is written (`sweep plan`).
/// Throws UsageError when the machine cannot run a cell.
Submission draft(const RunPaths& paths, std::span<const PlannedCell> cells, const Estimates& estimates);
/// Makes a new folder and fills id, folder, created and the names of the jobs; nothing is written in it yet.
void open_submission(Submission& submission);
/// tasks.json. Throws RuntimeFailure (disk full).
void write_tasks(const Submission& submission);
/// submission.json, replaced atomically after every sbatch.
void write_submitted(const Submission& submission);

/// tasks.json and submission.json. Throws CorruptData naming the file.
Submission read_submission(const std::string& folder);
/// submission.json and the cell ids of each task only: for status, over many cells.
struct SubmissionSummary {
  std::string id, folder, machine;
  double created = 0;
  std::vector<SubmittedArray> arrays;
  std::vector<std::vector<std::vector<std::string>>> cells;  ///< [array][task] -> cell ids
};
/// Nothing where the folder was left before tasks.json was whole: no job knows of it.
std::optional<SubmissionSummary> read_summary(const std::string& folder);

/// Modification time of a cell's record in ns, 0 when there is none.
std::int64_t record_time(const std::string& out, const std::string& cell_id);

}  // namespace thinwire::sweep
