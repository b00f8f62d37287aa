// Cells that cannot be measured here: without the right to make network namespaces, say, the rows of a cell are SKIPPED and hold no number. A claim that needs such a cell is SKIPPED, too.
#pragma once

#include <span>
#include <vector>

#include "core/error.h"
#include "experiments/claims/context.h"

namespace thinwire::claims {

/// A cell that a claim needs was not measured. Of a registered claim (register_claim) it makes the verdict SKIPPED, with this reason.
class CellSkipped : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// CellSkipped, with its reason, for the first of these of which no row was measured: times that are NaN, and bytes and errors that are none, would pass through sums and comparisons into a verdict.
void require_measured(std::span<const results::CellRecord> records);
/// The records of the requests, in their order, all of them measured: what a claim asks for whose rule needs each of its cells. CellSkipped, and what CellRunner::run() throws.
std::vector<results::CellRecord> run_measured(JudgeContext& context, std::span<const CellRequest> requests);

}  // namespace thinwire::claims
