// Arms of claims as cells of programs: run by the sweep's runner, kept in one folder, shared between claims by their identity.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/run/runner.h"
#include "results/record.h"

namespace thinwire::claims {

struct CellRequest {
  std::string program;              ///< "train_gpt"
  int ranks = 1;
  std::string link = "shm";
  results::Parameters parameters;   ///< the program's long options
  double timeout = 300;             ///< seconds without news until the cell is a TIMEOUT
  std::vector<std::string> tags = {};
};

/// SIGINT, SIGTERM or SIGUSR1 ended the cells; what is finished stays. Not an Error: it says nothing about a claim.
struct Interrupted {
  int signal;
};

class CellRunner {
 public:
  /// `paths.out` holds the records: OUT/cells/*.h5, journals, logs, as `sweep run` leaves them.
  CellRunner(sweep::RunPaths paths, sweep::IfCodeChanged if_code_changed) : paths_(std::move(paths)), if_code_changed_(if_code_changed) {}

  /// The records of the requests, in their order. Runs those that have none yet (and those FAILED, TIMEOUT or SKIPPED before).
  /// A cell whose rows are SKIPPED or MISTRUSTED is returned as it is: ask measured_well(). RuntimeFailure naming the first cell that
  /// is FAILED, TIMEOUT or WRONG, with its reason; Interrupted.
  std::vector<results::CellRecord> run(std::span<const CellRequest> requests);
  results::CellRecord run_one(const CellRequest& request) { return run({&request, 1}).front(); }

  const sweep::RunPaths& paths() const { return paths_; }

 private:
  sweep::RunPaths paths_;
  sweep::IfCodeChanged if_code_changed_;
};

/// Whether all rows are OK (or have only a remark): neither SKIPPED nor MISTRUSTED.
bool measured_well(const results::CellRecord& record);
/// The first row's reason that is not empty.
std::string reason_of(const results::CellRecord& record);

}  // namespace thinwire::claims
