// The queue and the accounting database, asked through Slurm's own programs, and what they say of the cells of a result folder.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/slurm/job_states.h"
#include "experiments/slurm/submission.h"

namespace thinwire::sweep {

/// What became of the job that was to measure a cell without a record.
struct CellJob {
  std::string job;      ///< "123_4"; "" while unknown
  std::string state;    ///< Slurm's word; "" when Slurm knows nothing (any more)
  std::string shown;    ///< QUEUED, RUNNING, HELD, SUSPENDED, CANCELLED, LOST, UNKNOWN
  bool resubmit = true; ///< whether submit takes the cell
  std::string reason;   ///< for people
};

/// For those of `open_cells` (cells without a verified record, or to be measured again) that were submitted: the newest job, or an
/// older one that is still in the queue. One squeue and one sacct call in all (none when nothing is open); sacct may be missing or
/// refuse (no accounting). Where no squeue can be asked, cells show as UNKNOWN and are not submitted again.
/// Also writes down the job numbers of arrays whose submit died before it could (submission.json), when `mend` is set.
std::map<std::string, CellJob> jobs_of_cells(const std::string& out, const std::set<std::string>& open_cells, bool mend = false);

/// Records of the named jobs. `answered`: squeue could be asked.
struct QueueAnswer {
  JobRecords records;
  bool answered = false;
};
QueueAnswer ask_queue(const std::vector<std::string>& names, double since);

/// sbatch with a script; returns the number of the job. RuntimeFailure with sbatch's words when it refuses; its output stays in `log`.
std::string sbatch(const std::string& script, const std::string& log);

/// Whether this job (SLURM_JOB_ID) is still to run: false once it is being cancelled, timed out, ... True when nobody can say.
bool own_job_goes_on();
/// scontrol requeue of this job; false with the reason in `why`.
bool requeue_own_job(const std::string& log, std::string& why);

}  // namespace thinwire::sweep
