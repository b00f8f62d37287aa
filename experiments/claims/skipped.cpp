#include "experiments/claims/skipped.h"

#include <algorithm>

namespace thinwire::claims {

void require_measured(std::span<const results::CellRecord> records) {
  const auto skipped = [](const results::CellRow& row) { return row.status == results::name_of(results::Status::skipped); };
  for (const results::CellRecord& record : records)
    // Of several rows some may be SKIPPED for what they are: grids that do not divide the sizes.
    if (!record.rows.empty() && std::ranges::all_of(record.rows, skipped)) throw CellSkipped(record.program + " on " + record.link + " was not measured: " + reason_of(record));
}

std::vector<results::CellRecord> run_measured(JudgeContext& context, std::span<const CellRequest> requests) {
  std::vector<results::CellRecord> records = context.cells.run(requests);
  require_measured(records);
  return records;
}

}  // namespace thinwire::claims
