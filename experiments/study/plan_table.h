// What a study would do, as text on stdout.
#pragma once

#include <span>

#include "experiments/study/estimate.h"
#include "experiments/study/selection.h"

namespace thinwire::sweep {

/// Per grid: its program, how many points, and the axes with their values (long lists cut): x crosses, & goes together with the line above.
void print_matrix(const Study& study);

struct PlanTable {
  bool list_cells = false;  ///< every cell with its state and parameters
  int cores_per_node = 1;   ///< what node-hours count
};
/// One line per launch: cells, how many are done, how many of those stem from another build (`codes`), how many a run would do with its
/// default choices, and the node-hours of those. Then the totals; cells of unknown length are counted and said.
void print_launches(std::span<const PlannedCell> cells, std::span<const CellState> states, const Estimates& estimates, ProgramCodes& codes,
                    const PlanTable& table);

}  // namespace thinwire::sweep
