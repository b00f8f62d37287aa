// sweep: plans, runs and collects studies. Every command may be repeated at will.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/joined.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "experiments/cli/command.h"

namespace {

using namespace thinwire;
using namespace thinwire::sweep;

struct Subcommand {
  const char* name;
  const char* help;
  CommandBody (*add)(CLI::App&);
};
constexpr Subcommand subcommands[] = {
    {"plan", "show the launches and what is done; starts nothing", add_plan_command},
    {"run", "run what is missing or broken", add_run_command},
    {"resume", "go on with the study of a result folder", add_resume_command},
    {"submit", "send what is missing or broken to Slurm", add_submit_command},
    {"status", "count the cells by status", add_status_command},
    {"task", "run a task of a submission (job scripts call it)", add_task_command},
    {"rank", "set a rank's GPU (launchers call it)", add_rank_command},
    {"collect", "merge the records into OUT/collected.h5", add_collect_command},
    {"compare", "a verdict per cell of two collected files", add_compare_command},
    {"archive", "a result folder as one file, with its study, source and hashes", add_archive_command},
    {"validate", "whether an archive or a result folder holds what it says", add_validate_command},
};

void require_known_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Subcommand& known : subcommands) names.emplace_back(known.name);
  if (name.starts_with("-") || std::find(names.begin(), names.end(), name) != names.end()) return;
  throw UsageError("sweep " + name + ": there is no such command; did you mean `sweep " + nearest_name(name, names.data(), names.data() + names.size()) +
                   "`? (" + joined(names) + ")");
}

int dispatch(int argc, char** argv) {
  if (argc > 1) require_known_command(argv[1]);
  CLI::App app("Runs studies: expands a TOML file into cells, runs what is missing, collects the results.", "sweep");
  app.require_subcommand(1);
  CommandBody chosen;
  for (const Subcommand& known : subcommands) {
    CLI::App* command = app.add_subcommand(known.name, known.help);
    command->parse_complete_callback([&chosen, body = known.add(*command)] { chosen = body; });
  }
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
