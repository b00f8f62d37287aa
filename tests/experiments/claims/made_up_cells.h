// Claims judged over cells that a test makes up: what is asked for is planned, filled in, collected, and the rule is asked.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/claims/judge.h"
#include "results/record.h"
#include "support/temporary_folder.h"

namespace thinwire::testing {

inline claims::CellRunner cells_in(const std::string& out) { return {{out, out, "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error}; }

/// The cells that the claim asks for next, with so many seeds, where the folder has its earlier ones; none where it has all.
inline std::vector<claims::CellRequest> next_cells_of_claim(const claims::Claim& claim, int seeds, const std::string& folder) {
  claims::CellRunner cells = cells_in(folder);
  claims::PlannedWork work;
  cells.only_plan(work);
  claims::JudgeContext context{claims::Profile::standard, folder, cells};
  context.set_seeds(seeds);
  try {
    (void)claim.measure(context);
  } catch (const claims::PlanEnds&) {
  }
  return work.cells;
}

/// Those that it asks for first.
inline std::vector<claims::CellRequest> cells_of_claim(const claims::Claim& claim, int seeds) {
  const TemporaryFolder folder;
  return next_cells_of_claim(claim, seeds, folder.path());
}

/// The record of a cell whose tables `fill` makes up; its row is OK.
inline results::CellRecord made_up(const claims::CellRequest& request, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  results::CellRecord record;
  record.program = request.program, record.ranks = request.ranks, record.link = request.link, record.parameters = request.parameters;
  record.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  record.rows.emplace_back().cell_id = record.cell_id;
  fill(request, record);
  return record;
}
inline void write_made_up(const std::string& folder, const claims::CellRequest& request, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  const results::CellRecord record = made_up(request, fill);
  results::write_cell_record(results::record_path(folder, record.cell_id), record);
}

/// All cells that the claim asks for, in their order, of which those of a later batch may depend on what `fill` makes up for the earlier ones.
inline std::vector<claims::CellRequest> all_cells_of_claim(const claims::Claim& claim, int seeds, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  const TemporaryFolder folder;
  std::vector<claims::CellRequest> all;
  try {
    for (std::vector<claims::CellRequest> next; !(next = next_cells_of_claim(claim, seeds, folder.path())).empty(); all.insert(all.end(), next.begin(), next.end()))
      for (const claims::CellRequest& request : next) write_made_up(folder.path(), request, fill);
  } catch (const std::exception&) {  // it would have numbers that nobody made up
  }
  return all;
}

/// What the claim makes of these cells, whose tables `fill` makes up.
inline claims::Outcome judged_over(const claims::Claim& claim, const std::vector<claims::CellRequest>& requests, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  std::map<std::string, results::CellRecord> records;
  for (const claims::CellRequest& request : requests) {
    results::CellRecord record = made_up(request, fill);
    records.insert_or_assign(record.cell_id, std::move(record));
  }
  const TemporaryFolder folder;
  claims::CellRunner cells = cells_in(folder.path());
  cells.answer_from(std::move(records));
  claims::JudgeContext context{claims::Profile::standard, folder.path(), cells};
  return judge(claim, context, {}).outcome;
}

/// What the claim makes of the cells that it asks for first, whose tables `fill` makes up.
inline claims::Outcome judged_over(const claims::Claim& claim, int seeds, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  return judged_over(claim, cells_of_claim(claim, seeds), fill);
}

/// As it is where nothing was measured (experiments/run/launcher.h).
inline void skip(const claims::CellRequest& request, results::CellRecord& record, const std::string& reason) {
  record.samples.clear(), record.training = {};
  results::CellRow row;
  row.cell_id = record.cell_id, row.program = request.program, row.link = request.link, row.status = results::name_of(results::Status::skipped), row.reason = reason;
  record.rows = {row};
}

}  // namespace thinwire::testing
