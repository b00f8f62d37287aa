// sweep: plans, runs and collects studies. Every verb may be repeated at will.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/process/main_guard.h"
#include "experiments/cli/verb.h"

namespace {

using namespace thinwire;
using namespace thinwire::sweep;

struct Verb {
  const char* name;
  const char* help;
  VerbBody (*add)(CLI::App&);
};
constexpr Verb verbs[] = {
    {"plan", "show the launches and what is done; starts nothing", add_plan_verb},
    {"run", "run what is missing or broken", add_run_verb},
    {"resume", "go on with the study of a result folder", add_resume_verb},
    {"submit", "send what is missing or broken to Slurm", add_submit_verb},
    {"status", "count the cells by status", add_status_verb},
    {"task", "run a task of a submission (job scripts call it)", add_task_verb},
    {"rank", "set a rank's GPU (launchers call it)", add_rank_verb},
    {"collect", "merge the records into OUT/collected.h5", add_collect_verb},
    {"compare", "a verdict per cell of two collected files", add_compare_verb},
    {"archive", "a result folder as one file, with its study, source and hashes", add_archive_verb},
    {"validate", "whether an archive or a result folder holds what it says", add_validate_verb},
};

void require_known_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.emplace_back(verb.name);
  if (name.starts_with("-") || std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  throw UsageError("sweep " + name + ": there is no such verb; did you mean `sweep " + nearest_name(name, names.data(), names.data() + names.size()) +
                   "`? (" + list + ")");
}

int dispatch(int argc, char** argv) {
  if (argc > 1) require_known_verb(argv[1]);
  CLI::App app("Runs studies: expands a TOML file into cells, runs what is missing, collects the results.", "sweep");
  app.require_subcommand(1);
  VerbBody chosen;
  for (const Verb& verb : verbs) {
    CLI::App* command = app.add_subcommand(verb.name, verb.help);
    command->parse_complete_callback([&chosen, body = verb.add(*command)] { chosen = body; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError("sweep: " + std::string(error.what()) + ". All options: sweep --help, sweep VERB --help");
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
