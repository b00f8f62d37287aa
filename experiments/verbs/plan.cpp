// sweep plan: the matrix, the launches, what is done and what the rest costs; starts nothing.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "experiments/sweep/plan_table.h"
#include "experiments/verbs/study_options.h"
#include "experiments/verbs/verb.h"

namespace thinwire::sweep {
namespace {

struct PlanOptions : StudyOptions {
  bool list = false;
};

int plan(const PlanOptions& options) {
  const Study study = study_of(options);
  const std::vector<PlannedCell> cells = planned(options, study);
  const Places places = places_of(options);
  check_programs(places, cells, /*must_exist=*/false);
  const std::vector<CellState> states = states_of(cells, places.out);
  ProgramCodes codes(places.bin);
  PlanTable table;
  table.list_cells = options.list;
  table.cores_per_node = places.machine->cores_per_node > 0 ? places.machine->cores_per_node
                                                            : std::max<int>(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  print_matrix(study);
  std::puts("");
  print_launches(cells, states, Estimates(cells, places.out), codes, table);
  return 0;
}

}  // namespace

VerbBody add_plan_verb(CLI::App& verb) {
  auto options = std::make_shared<PlanOptions>();
  add_study_options(verb, *options, /*needs_study=*/false);
  verb.add_flag("--list", options->list, "every cell with its parameters");
  return [options] { return plan(*options); };
}

}  // namespace thinwire::sweep
