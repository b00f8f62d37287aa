#include "experiments/cli/study_options.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "experiments/study/saved_study.h"
#include "results/files/tuned_products.h"

namespace thinwire::sweep {

void add_study_options(CLI::App& command, StudyOptions& options, bool needs_study) {
  auto* study = command.add_option("study", options.study, needs_study ? "study file (TOML), see docs/sweeps.md" : "study file (TOML); default: the study that was started in --out");
  if (needs_study) study->required();
  command.add_option("--out", options.out, "result folder")->capture_default_str();
  command.add_option("--set", options.settings, "name=value: one value in place of an axis or a fixed parameter")
      ->allow_extra_args(false);
  command.add_option("--where", options.where, "'codec=topk and tp=4': only these cells")->allow_extra_args(false);
  command.add_option("--tag", options.tags, "only cells with this tag; repeated: with any of them")->allow_extra_args(false);
  command.add_option("--bin", options.bin, "folder of the programs (default: of sweep itself)");
  command.add_option("--machine", options.machine, "profile of the machine: a shipped NAME or a FILE, see docs/clusters.md (default: local)");
}

Study study_of(const StudyOptions& options) {
  Study study = read_study(options.study.empty() ? find_saved_study(options.out) : options.study);
  // A saved study says already what its cells were made with.
  if (!options.study.empty()) apply_product_library(study, results::tuned_library_of_this_machine());
  for (const std::string& setting : options.settings) apply_setting(study, setting);
  return study;
}

std::vector<PlannedCell> planned(const StudyOptions& options, const Study& study) {
  std::vector<PlannedCell> cells = expand(study);
  for (const std::string& tag : options.tags) (void)filter(cells, "tag=" + tag);  // refuses unknown ones
  if (!options.tags.empty())
    std::erase_if(cells, [&](const PlannedCell& cell) {
      return std::none_of(options.tags.begin(), options.tags.end(), [&](const std::string& tag) {
        return std::find(cell.tags.begin(), cell.tags.end(), tag) != cell.tags.end();
      });
    });
  for (const std::string& where : options.where) cells = filter(std::move(cells), where);
  if (cells.empty())
    throw UsageError("no cell of " + study.path + " is left by --where and --tag; `sweep plan --list` shows all");
  return cells;
}

std::vector<PlannedCell> planned(const StudyOptions& options) { return planned(options, study_of(options)); }

RunPaths run_paths_of(const StudyOptions& options) {
  RunPaths paths;
  paths.out = std::filesystem::absolute(options.out).lexically_normal().string();
  while (paths.out.size() > 1 && paths.out.back() == '/') paths.out.pop_back();
  paths.bin = options.bin.empty() ? default_bin() : std::filesystem::absolute(options.bin).string();
  paths.lab = options.lab.empty() ? default_lab(paths.bin) : std::filesystem::absolute(options.lab).string();
  if (!options.machine.empty()) paths.machine = std::make_shared<Machine>(read_machine(options.machine, paths.bin));
  return paths;
}

}  // namespace thinwire::sweep
