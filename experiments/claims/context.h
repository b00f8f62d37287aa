// What a measurement may use: how much it may cost, how many seeds, a folder, and cells; and what becomes of it where a cell cannot be measured here.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/claims/cells.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims {

class JudgeContext {
 public:
  JudgeContext(Profile under, std::string folder, CellRunner& runner) : profile(under), out(std::move(folder)), cells(runner) {}

  const Profile profile;
  const std::string out;  ///< result folder of the claims; a measurement may keep files in out + "/" + its id
  CellRunner& cells;

  /// Seeds or repetitions to measure now (Claim::seeds); 1 for a claim that states none.
  int seeds() const { return seeds_; }
  void set_seeds(int seeds) { seeds_ = seeds; }

  /// Training steps of models that are only looked at (probes, identities); arms that are compared state their own.
  int steps() const { return profile == Profile::full ? 1000 : profile == Profile::standard ? 300 : 10; }

 private:
  int seeds_ = 1;
};

/// A cell that a claim needs was not measured: without the right to make network namespaces, say, its rows are SKIPPED. Of a registered claim (register_claim) it makes the verdict SKIPPED, with this
/// reason.
class CellSkipped : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// CellSkipped, with its reason, for the first of these of which no row was measured: times that are NaN, and bytes and errors that are none, would pass through sums and comparisons into a verdict.
inline void require_measured(std::span<const results::CellRecord> records) {
  const auto skipped = [](const results::CellRow& row) { return row.status == results::name_of(results::Status::skipped); };
  for (const results::CellRecord& record : records)
    // Of several rows some may be SKIPPED for what they are: grids that do not divide the sizes.
    if (!record.rows.empty() && std::ranges::all_of(record.rows, skipped)) throw CellSkipped(record.program + " on " + record.link + " was not measured: " + reason_of(record));
}

/// The records of the requests, in their order, all of them measured: what a claim asks for whose rule needs each of its cells. CellSkipped, and what CellRunner::run() throws.
inline std::vector<results::CellRecord> run_measured(JudgeContext& context, std::span<const CellRequest> requests) {
  std::vector<results::CellRecord> records = context.cells.run(requests);
  require_measured(records);
  return records;
}

}  // namespace thinwire::claims
