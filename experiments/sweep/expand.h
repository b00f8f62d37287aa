// From a study to its cells, and from cells to launches.
#pragma once

#include <string>
#include <vector>

#include "experiments/sweep/study.h"

namespace thinwire::sweep {

struct PlannedCell {
  std::string cell_id;
  std::string grid;
  std::string program;
  std::string link;
  int ranks = 1;
  int omp_threads = 0;
  double timeout = 120;
  Parameters parameters;
};

/// All cells in the order of the file; a cell that several grids name appears once. Throws UsageError on a
/// contradictory grid: a layout that needs another number of ranks, exclusions that leave nothing, a link of
/// an unknown kind.
std::vector<PlannedCell> expand(const Study& study);

/// `--where 'codec=topk and tp=4'`: keeps the cells for which every clause holds. A clause is name=value or
/// name!=value; value may hold * and ?, and matches a codec, method or link also by its name alone (topk for
/// topk:fraction=0.1, netns for netns:1gbit). Names: parameters, link, ranks, program, grid, cell_id
/// (prefix).
std::vector<PlannedCell> filter(std::vector<PlannedCell> cells, const std::string& where);

/// One start of a program: cells that share program, ranks, link and threads.
struct Launch {
  std::string program;
  std::string link;
  int ranks = 1;
  int omp_threads = 0;
  double timeout = 120;
  std::vector<PlannedCell> cells;
};
std::vector<Launch> group_into_launches(const std::vector<PlannedCell>& cells);

}  // namespace thinwire::sweep
