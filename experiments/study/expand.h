// From a study to its cells, and from cells to launches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/study.h"

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
  double minutes = 0;     ///< expected time, 0: the study does not say; a guess, no limit
  double memory_gib = 0;  ///< expected memory of one rank, 0: the study does not say
  std::vector<std::string> tags;
};

/// All cells in the order of the file; a cell that several grids name appears once, with the tags of
/// all of them. Throws UsageError on a
/// contradictory grid: a layout that needs another number of ranks, exclusions that leave nothing, a link of
/// an unknown kind.
std::vector<PlannedCell> expand(const Study& study);

/// `--where 'codec=topk and tp=4'`: keeps the cells for which every clause holds. A clause is name=value or
/// name!=value; value may hold * and ?, and matches a codec, method or link also by its name alone (topk for
/// topk:fraction=0.1, netns for netns:1gbit). Names: parameters, link, ranks, program, grid, tag (any of the
/// cell's), cell_id (prefix).
std::vector<PlannedCell> filter(std::vector<PlannedCell> cells, const std::string& where);

/// One start of a program: cells that share program, ranks, link, threads and the library that multiplies.
struct Launch {
  std::string program;
  std::string link;
  int ranks = 1;
  int omp_threads = 0;
  double timeout = 120;
  std::vector<PlannedCell> cells;
};
std::vector<Launch> group_into_launches(const std::vector<PlannedCell>& cells);

/// Random order of the launches, and of the cells inside each; the same seed gives the same order.
void shuffle(std::vector<Launch>& launches, std::uint64_t seed);

}  // namespace thinwire::sweep
