// sweep status: the cells counted by what became of them.
#include <memory>
#include "experiments/sweep/summary.h"
#include "experiments/verbs/study_options.h"
#include "experiments/verbs/verb.h"

namespace thinwire::sweep {
namespace {

int status(const StudyOptions& options) {
  const std::vector<PlannedCell> cells = planned(options);
  const std::vector<CellState> states = states_of(cells, places_of(options).out);
  print_summary(cells, states, {});
  return exit_status_of(states);
}

}  // namespace

VerbBody add_status_verb(CLI::App& verb) {
  auto options = std::make_shared<StudyOptions>();
  add_study_options(verb, *options);
  return [options] { return status(*options); };
}

}  // namespace thinwire::sweep
