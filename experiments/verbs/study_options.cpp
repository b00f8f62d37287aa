#include "experiments/verbs/study_options.h"

#include <filesystem>

#include "core/error.h"

namespace thinwire::sweep {

void add_study_options(CLI::App& verb, StudyOptions& options, bool needs_study) {
  auto* study = verb.add_option("study", options.study, "study file (TOML), see docs/sweeps.md");
  if (needs_study) study->required();
  verb.add_option("--out", options.out, "result folder")->capture_default_str();
  verb.add_option("--set", options.settings, "name=value: one value in place of an axis or a fixed parameter")
      ->allow_extra_args(false);
  verb.add_option("--where", options.where, "'codec=topk and tp=4': only these cells")->allow_extra_args(false);
  verb.add_option("--bin", options.bin, "folder of the programs (default: of sweep itself)");
}

Study study_of(const StudyOptions& options) {
  Study study = read_study(options.study);
  for (const std::string& setting : options.settings) apply_setting(study, setting);
  return study;
}

std::vector<PlannedCell> planned(const StudyOptions& options) {
  std::vector<PlannedCell> cells = expand(study_of(options));
  for (const std::string& where : options.where) cells = filter(std::move(cells), where);
  if (cells.empty())
    throw UsageError("no cell of " + options.study + " is left by --where; `sweep plan --list` shows all");
  return cells;
}

Places places_of(const StudyOptions& options) {
  Places places;
  places.out = std::filesystem::absolute(options.out).lexically_normal().string();
  while (places.out.size() > 1 && places.out.back() == '/') places.out.pop_back();
  places.bin = options.bin.empty() ? default_bin() : std::filesystem::absolute(options.bin).string();
  places.lab = options.lab.empty() ? default_lab(places.bin) : std::filesystem::absolute(options.lab).string();
  return places;
}

}  // namespace thinwire::sweep
