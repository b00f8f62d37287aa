// sweep collect: merges the records of a result folder into OUT/collected.h5.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include "core/error.h"
#include "core/process/log.h"
#include "experiments/cli/study_options.h"
#include "experiments/cli/command.h"
#include "results/collect.h"
#include "results/csv.h"
#include "thinwire_version.h"

namespace thinwire::sweep {
namespace {

struct CollectOptions : StudyOptions {
  bool allow_mixed_corpus = false;
  bool cut_paths = false;
  std::int64_t steps_of_at_most = results::CollectOptions().steps_of_at_most;
  std::int64_t losses_of_at_most = results::CollectOptions().losses_of_at_most;
  std::string format = "hdf5";
};

/// What a published file says in place of the folders of the machine that measured it.
std::vector<std::pair<std::string, std::string>> words_for_folders(const RunPaths& paths) {
  std::vector<std::pair<std::string, std::string>> words = {{paths.out, "OUT"}, {paths.bin, "BIN"}, {THINWIRE_SOURCE_FOLDER, "SOURCE"}};
  for (auto& [folder, word] : words)
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::ranges::stable_sort(words, std::ranges::greater(), [](const auto& one) { return one.first.size(); });
  return words;
}

int collect(const CollectOptions& options) {
  const RunPaths paths = run_paths_of(options);
  results::CollectOptions collect_options;
  collect_options.allow_mixed_corpus = options.allow_mixed_corpus;
  collect_options.steps_of_at_most = options.steps_of_at_most;
  collect_options.losses_of_at_most = options.losses_of_at_most;
  if (options.cut_paths) collect_options.words_for_folders = words_for_folders(paths);
  const bool chooses = !options.where.empty() || !options.tags.empty() || !options.settings.empty();
  if (!options.study.empty() || chooses)
    for (const PlannedCell& cell : planned(options)) collect_options.cell_ids.push_back(cell.cell_id);
  const results::CollectReport report = results::collect(paths.out, collect_options);
  for (const std::string& damaged : report.damaged) log_warning("left out: " + damaged);
  for (const std::string& program : report.mixed)
    log_warning("rows of " + program + " were measured by more than one build of it (/provenance, binary_hash); sweep run --if-code-changed redo makes them alike");
  if (!report.missing.empty())
    log_warning(std::to_string(report.missing.size()) +
                " cells of the study have no record yet; sweep run measures them");
  std::printf("%s: %zu rows, %zu samples%s\n", report.path.c_str(), report.rows.size(), report.samples,
              report.damaged.empty()
                  ? ""
                  : (", " + std::to_string(report.damaged.size()) + " damaged files left out").c_str());
  if (options.format == "csv") {
    const std::string folder = paths.out + "/collected_csv";
    std::printf("%s: %zu tables and columns.csv\n", folder.c_str(), results::export_csv(report.path, folder));
  }
  return report.damaged.empty() ? 0 : static_cast<int>(ExitCode::runtime_failure);
}

}  // namespace

CommandBody add_collect_command(CLI::App& command) {
  auto options = std::make_shared<CollectOptions>();
  add_study_options(command, *options, false);
  command.get_option("study")->description("study file (TOML); default: all cells of --out, or, with --where, --tag or --set, the study that was started there");
  command.add_flag("--allow-mixed-corpus", options->allow_mixed_corpus, "accept cells that stem from different texts");
  command.add_flag("--cut-paths", options->cut_paths, "for a file that others read: commands and reasons say OUT, BIN and SOURCE in place of the result folder, the programs' and the sources' on this machine");
  command.add_option("--steps-of-at-most", options->steps_of_at_most, "leave out what each traffic class cost step by step (/training_steps) in trainings of more steps than this: it is most of their size")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--losses-of-at-most", options->losses_of_at_most, "leave out the losses of steps that were not validated (/training_curve) in trainings of more steps than this: what a race reads stays")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--format", options->format, "hdf5, or csv: also OUT/collected_csv/ with a file per table")
      ->check(CLI::IsMember({"hdf5", "csv"}))
      ->capture_default_str();
  return [options] { return collect(*options); };
}

}  // namespace thinwire::sweep
