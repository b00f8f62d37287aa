// Claims judged over cells that a test makes up: what is asked for is planned, filled in, collected, and the rule is asked.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "experiments/claims/judge.h"
#include "results/record.h"
#include "results/collect.h"
#include "support/temporary_folder.h"

namespace thinwire::testing {

inline claims::CellRunner cells_in(const std::string& out) { return {{out, out, "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error}; }

/// The cells that the claim asks for first, with so many seeds.
inline std::vector<claims::CellRequest> cells_of_claim(const claims::Claim& claim, int seeds) {
  const TemporaryFolder folder;
  claims::CellRunner cells = cells_in(folder.path());
  claims::PlannedWork work;
  cells.only_plan(work);
  claims::JudgeContext context{claims::Profile::standard, folder.path(), cells};
  context.set_seeds(seeds);
  try {
    (void)claim.measure(context);
  } catch (const claims::PlanEnds&) {
  }
  return work.cells;
}

/// Writes the record of a cell whose tables `fill` makes up; its row is OK.
inline void write_made_up(const std::string& folder, const claims::CellRequest& request, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  results::CellRecord record;
  record.program = request.program, record.ranks = request.ranks, record.link = request.link, record.parameters = request.parameters;
  record.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  record.rows.emplace_back().cell_id = record.cell_id;
  fill(request, record);
  results::write_cell_record(results::record_path(folder, record.cell_id), record);
}

/// What the claim makes of cells whose tables `fill` makes up.
inline claims::Outcome judged_over(const claims::Claim& claim, int seeds, const std::function<void(const claims::CellRequest&, results::CellRecord&)>& fill) {
  const TemporaryFolder folder;
  for (const claims::CellRequest& request : cells_of_claim(claim, seeds)) write_made_up(folder.path(), request, fill);
  const std::string collected = results::collect(folder.path()).path;
  claims::CellRunner cells = cells_in(folder.path());
  cells.answer_from(collected);
  claims::JudgeContext context{claims::Profile::standard, folder.path(), cells};
  return judge(claim, context, {}).outcome;
}

}  // namespace thinwire::testing
