// Arms of claims as cells of programs: run by the sweep's runner, kept in one folder, shared between claims by their identity.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/claims/rule/rule.h"
#include "core/error.h"
#include "experiments/run/lock.h"
#include "experiments/run/runner.h"
#include "results/record.h"

namespace thinwire::claims {

struct Registry;

struct CellRequest {
  std::string program;              ///< "train_gpt"
  int ranks = 1;
  std::string link = "shm";
  results::Parameters parameters;   ///< the program's long options
  double timeout = 300;             ///< seconds without news until the cell is a TIMEOUT
  std::vector<std::string> tags = {};
  bool timed = true;                ///< its times are evidence: it is repeated where the machine was disturbed. Of losses and counters they are not
  int threads = 0;                  ///< of each rank; 0: one, or all cores for a single rank. Untimed cells of one rank and one thread run side by side
  double about_seconds = no_number; ///< that it takes on two cores, by measured rates, for plans; NaN: what other cells of its program and ranks took
};

/// SIGINT, SIGTERM or SIGUSR1 ended the cells; what is finished stays. Not an Error: it says nothing about a claim.
struct Interrupted {
  int signal;
};

/// Why cells could not be started: another runner is in the folder, a program is missing, cells are of another build and nobody said what becomes of
/// them. Not an Error of a measurement: it says nothing about a claim, and ends the command with the error's own exit code.
struct Refused {
  Error error;
};

/// A cell that a claim's numbers are from.
struct UsedCell {
  std::string cell_id, started;
  std::map<std::string, std::string> rules;  ///< hash of each claim's rule when the cell was made; empty: rules were not registered then
  bool timed = false;              ///< asked for as timed, and measured
  double disturbance = no_number;  ///< cores that others took meanwhile; NaN: unknown
  int attempts = 0;                ///< measurements; 0: unknown
};

/// What is to be judged again from a collected file is not in it.
class NotCollected : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// The first cell of a request whose training diverged: a result of its arm, which says nothing of quality.
class ArmDiverged : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// Ends the measurement of a claim that is only planned: what it asks for next depends on what was not measured yet. Not an Error.
struct PlanEnds {};

/// What a claim would measure.
struct PlannedWork {
  std::vector<CellRequest> cells;          ///< that run() would start, each once
  std::vector<std::string> elsewhere;      ///< long computations of the program itself, and what other programs must make before, in words
  std::vector<CellRequest> later = {};     ///< cells that follow these whatever comes out, with settings that these choose: to be counted
  std::set<std::string> other_build = {};  ///< ids of cells that another build measured, paths of kept files that other sources computed: over these a run would refuse. Planned as if they stood
};

class CellRunner {
 public:
  /// `paths.out` holds the records: OUT/cells/*.h5, journals, logs, as `sweep run` leaves them.
  CellRunner(sweep::RunPaths paths, sweep::IfCodeChanged if_code_changed) : paths_(std::move(paths)), if_code_changed_(if_code_changed), codes_(paths_.bin) {}

  /// The records of the requests, in their order. Runs those that have none yet (and those FAILED, TIMEOUT or SKIPPED before),
  /// and timed ones again that were DISTURBED (attempts.h). From the first call on no other runner gets into the folder while this one lives.
  /// A cell whose rows are SKIPPED or MISTRUSTED is returned as it is: ask measured_well(). ArmDiverged, RuntimeFailure naming the first cell that
  /// is FAILED, TIMEOUT or WRONG, with its reason; Interrupted; Refused. A training that diverged stands as measured cells do: it would diverge again.
  std::vector<results::CellRecord> run(std::span<const CellRequest> requests);
  /// As run(), but of cells that other claims will ask for: nothing is returned, a bad cell is theirs to complain of, and used() does not name them.
  void prepare(std::span<const CellRequest> requests);
  results::CellRecord run_one(const CellRequest& request) { return run({&request, 1}).front(); }

  const sweep::RunPaths& paths() const { return paths_; }
  /// What is done about cells of another build.
  sweep::IfCodeChanged if_code_changed() const { return if_code_changed_; }

  /// From now on nothing is run: requests are answered from this collected file (the registers of rules lie in rules/ beside
  /// it), and from those of earlier calls; NotCollected names the first that none of them has.
  void answer_from(const std::string& collected);
  /// The same, of records by their cells' ids.
  void answer_from(std::map<std::string, results::CellRecord> records);

  bool answers_from_file() const { return archive_.has_value(); }
  /// The different values that an option has in the commands which repeat the cells of these files, where they state it; a value of letters and digits.
  std::set<std::string> archived_values(const std::string& option) const;

  /// Cells that this collected file holds are taken from it, once, where the folder has none (a run that goes on where another folder's ended; their records say
  /// when and by which build they were made). Timed ones of another machine (processor, cores or host) are measured here. Calibrations of links are not kept in such a file and stay empty.
  void begin_with(const std::string& collected);
  /// Those of them at once, for whoever asks the folder what it lacks; run() and prepare() do it themselves.
  void take_from_begun(std::span<const CellRequest> requests);
  /// These are not taken: not their records are asked for, but files that they leave beside them.
  void not_from_begun(std::span<const CellRequest> requests);
  /// From now on no timed cell is taken, so that all that is compared is timed together, also what joined since.
  void time_anew() { time_anew_ = true; }

  /// From now on nothing is run: work that has no result yet is noted in `work`, and ends the measurement.
  void only_plan(PlannedWork& work) { plan_ = &work; }
  bool only_plans() const { return plan_ != nullptr; }
  /// To be called before a long computation outside of cells that has no kept result. Throws PlanEnds where nothing is to be run, and
  /// NotCollected where only a collected file answers.
  void about_to_compute(const std::string& what);
  /// Whether the kept result of such a computation stands, by the hashes of the sources that made it and that would make it now. What becomes of one by other sources, if_code_changed() says as of cells of
  /// another build; Refused where it says nothing. What is judged again beside a collected file stands, as the cells in it do.
  bool stands(const std::string& file, const std::string& then, const std::string& now);
  /// To be called before seconds of arithmetic without cells, which keeps no result and is done anew wherever the claim is judged. Throws PlanEnds where a run is only planned.
  void about_to_calculate(const std::string& what);
  /// Where a run is only planned: what must be made by other programs before, in words. Else nothing.
  void note_missing(const std::string& what) {
    if (plan_) plan_->elsewhere.push_back(what);
  }
  /// Where a run is only planned: cells that will be asked for, in settings that depend on what was not measured yet. Else nothing.
  void note_later(std::span<const CellRequest> requests) {
    if (plan_) plan_->later.insert(plan_->later.end(), requests.begin(), requests.end());
  }

  /// Cells that are run from now on carry the hash of this register; its text is kept in OUT/rules/HASH.lock.
  void run_under(const Registry& registry);
  /// What run() has returned since forget_used(), each cell once.
  const std::vector<UsedCell>& used() const { return used_; }
  void forget_used() { used_.clear(); }

 private:
  void measure_missing(std::span<const CellRequest> requests);
  void plan(std::span<const CellRequest> requests);
  results::CellRecord record_of(const CellRequest& request, const std::string& id) const;
  void repeat_disturbed(std::span<const CellRequest> requests);
  void note_used(const results::CellRecord& record, bool timed);
  sweep::RunPaths paths_;
  sweep::IfCodeChanged if_code_changed_;
  sweep::ProgramCodes codes_;  ///< for plans, which ask for each claim
  std::unique_ptr<sweep::FolderLock> lock_;  ///< from the first cells on: a runner that came between two batches would end this one with a refusal
  PlannedWork* plan_ = nullptr;
  std::vector<UsedCell> used_;
  std::optional<std::map<std::string, results::CellRecord>> archive_;
  std::map<std::string, results::CellRecord> begun_;
  bool time_anew_ = false;
  std::vector<std::string> archive_folders_;
  std::map<std::string, std::map<std::string, std::string>> rule_hashes_;  ///< of the registers read so far: each is named by its content, and parsed once
};

/// Whether all rows are OK (or have only a remark): neither SKIPPED nor MISTRUSTED.
bool measured_well(const results::CellRecord& record);
/// The first row's reason that is not empty.
std::string reason_of(const results::CellRecord& record);

}  // namespace thinwire::claims
