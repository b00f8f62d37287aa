// sweep plan: the launches and what is done; starts nothing.
#include <memory>
#include "experiments/sweep/summary.h"
#include "experiments/verbs/study_options.h"
#include "experiments/verbs/verb.h"

namespace thinwire::sweep {
namespace {

struct PlanOptions : StudyOptions {
  bool list = false;
};

int plan(const PlanOptions& options) {
  const std::vector<PlannedCell> cells = planned(options);
  const Places places = places_of(options);
  check_programs(places, cells, /*must_exist=*/false);
  print_plan(cells, states_of(cells, places.out), options.list);
  return 0;
}

}  // namespace

VerbBody add_plan_verb(CLI::App& verb) {
  auto options = std::make_shared<PlanOptions>();
  add_study_options(verb, *options);
  verb.add_flag("--list", options->list, "every cell with its parameters");
  return [options] { return plan(*options); };
}

}  // namespace thinwire::sweep
