#include "experiments/claims/cells.h"

#include <csignal>
#include <set>

#include "core/error.h"
#include "experiments/run/lock.h"
#include "experiments/study/summary.h"

namespace thinwire::claims {
namespace {

sweep::PlannedCell planned(const CellRequest& request) {
  sweep::PlannedCell cell;
  cell.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  cell.grid = "claims";
  cell.program = request.program;
  cell.link = request.link;
  cell.ranks = request.ranks;
  cell.timeout = request.timeout;
  cell.parameters = request.parameters;
  cell.tags = request.tags;
  return cell;
}

/// Each once: arms that several claims share are one cell.
std::vector<sweep::PlannedCell> distinct(std::span<const CellRequest> requests) {
  std::vector<sweep::PlannedCell> cells;
  std::set<std::string> seen;
  for (const CellRequest& request : requests)
    if (sweep::PlannedCell cell = planned(request); seen.insert(cell.cell_id).second) cells.push_back(std::move(cell));
  return cells;
}

bool is_bad(results::Status status) {
  return status == results::Status::failed || status == results::Status::timeout || status == results::Status::wrong;
}

}  // namespace

std::vector<results::CellRecord> CellRunner::run(std::span<const CellRequest> requests) {
  const std::vector<sweep::PlannedCell> cells = distinct(requests);
  sweep::check_programs(paths_, cells, /*must_exist=*/true);
  sweep::make_out(paths_);
  {
    const sweep::FolderLock lock(paths_.out);
    const std::vector<sweep::CellState> states = sweep::states_of(cells, paths_.out);
    sweep::RunOptions options;
    options.paths = paths_;
    options.choice.if_code_changed = if_code_changed_;
    const sweep::RunReport report = sweep::run_cells(cells, states, options);
    if (report.signal != 0) throw Interrupted{report.signal};
    if (report.asked_to_stop) throw Interrupted{SIGUSR1};
    if (report.stopped) throw RuntimeFailure(paths_.out + ": too many cells failed in a row; see logs/ there");
  }
  std::vector<results::CellRecord> records;
  for (const CellRequest& request : requests) {
    const std::string id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
    records.push_back(results::read_cell_record(results::record_path(paths_.out, id)));
    if (const results::Status status = results::worst_status(records.back().rows); is_bad(status))
      throw RuntimeFailure("cell " + id.substr(0, 12) + " (" + request.program + " on " + request.link + ") is " + std::string(results::name_of(status)) + ": " +
                           reason_of(records.back()));
  }
  return records;
}

bool measured_well(const results::CellRecord& record) {
  const results::Status status = results::worst_status(record.rows);
  return status != results::Status::skipped && status != results::Status::mistrusted && !is_bad(status);
}

std::string reason_of(const results::CellRecord& record) {
  for (const results::CellRow& row : record.rows)
    if (!row.reason.empty()) return row.reason;
  return "";
}

}  // namespace thinwire::claims
