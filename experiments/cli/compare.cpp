// sweep compare A B: a verdict per cell from the raw samples of two collected files.
#include "results/compare/compare.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "experiments/cli/command.h"
#include "results/files/files.h"

namespace thinwire::sweep {
namespace {

struct CompareVerbOptions {
  std::string a, b, metric = "total", html, json, run_spread = "auto";
  std::vector<std::string> more_a, more_b, where, where_a, where_b, match, ignore;
  double threshold = 5, error_rate = 5, error_tolerance = 1;
  bool all = false, complete = false;
};

std::vector<results::CollectedFile> read_side(const std::string& first, const std::vector<std::string>& more,
                                              const CompareVerbOptions& options,
                                              const std::vector<std::string>& where) {
  std::vector<std::string> paths = more;
  paths.insert(paths.begin(), first);
  std::vector<results::CollectedFile> files;
  for (const std::string& path : paths) {
    files.push_back(results::read_collected(path));
    for (const auto* clauses : {&options.where, &where})
      for (const std::string& clause : *clauses) results::select_rows(files.back(), clause);
  }
  return files;
}

std::vector<std::string> columns_of(const CompareVerbOptions& options) {
  std::vector<std::string> match = options.match;
  if (match.empty() && !options.ignore.empty()) match = results::key_columns();
  for (const std::string& name : options.ignore) {
    if (std::find(results::key_columns().begin(), results::key_columns().end(), name) ==
        results::key_columns().end())
      throw UsageError("--ignore " + name + ": did you mean " +
                       nearest_name(name, results::key_columns().data(),
                                    results::key_columns().data() + results::key_columns().size()) +
                       "?");
    std::erase(match, name);
    // What follows from the codec differs with it.
    if (name == "codec")
      for (const char* follows : {"method", "protocol", "form"}) std::erase(match, std::string(follows));
  }
  return match;
}

int compare(const CompareVerbOptions& options) {
  results::CompareOptions compare_options;
  const std::vector<std::string> metrics = {"total", "encode", "transfer", "decode", "speedup"};
  compare_options.metric = static_cast<results::Metric>(
      std::find(metrics.begin(), metrics.end(), options.metric) - metrics.begin());
  compare_options.threshold = options.threshold / 100;
  compare_options.error_rate = options.error_rate / 100;
  compare_options.error_tolerance = options.error_tolerance / 100;
  if (options.run_spread != "auto") {
    char* end = nullptr;
    compare_options.run_spread = std::strtod(options.run_spread.c_str(), &end) / 100;
    if (end == options.run_spread.c_str() || *end != '\0' || !(compare_options.run_spread >= 0))
      throw UsageError("--run-spread " + options.run_spread + ": give a percentage of at least 0, or auto");
  }
  compare_options.match = columns_of(options);
  const results::Comparison comparison =
      results::compare(read_side(options.a, options.more_a, options, options.where_a),
                       read_side(options.b, options.more_b, options, options.where_b), compare_options);
  std::fputs(results::as_text(comparison, options.all).c_str(), stdout);
  if (!options.html.empty()) results::write_file_atomically(options.html, results::as_html(comparison));
  if (!options.json.empty()) results::write_file_atomically(options.json, results::as_json(comparison));
  const bool missing =
      options.complete &&
      comparison.count(results::Verdict::only_in_a) + comparison.count(results::Verdict::only_in_b) > 0;
  return comparison.any_worse() || missing ? static_cast<int>(ExitCode::wrong_result) : 0;
}

}  // namespace

CommandBody add_compare_command(CLI::App& command) {
  auto options = std::make_shared<CompareVerbOptions>();
  command.add_option("a", options->a, "collected file of side A (before)")->required();
  command.add_option("b", options->b, "collected file of side B (after)")->required();
  command.add_option("--more-a", options->more_a,
                  "a further run of side A; repeatable, pairs with --more-b in order")
      ->allow_extra_args(false);
  command.add_option("--more-b", options->more_b, "a further run of side B; repeatable")
      ->allow_extra_args(false);
  command.add_option("--metric", options->metric,
                  "total, encode, transfer, decode, or speedup: time over that of the cell's own baseline")
      ->check(CLI::IsMember({"total", "encode", "transfer", "decode", "speedup"}))
      ->capture_default_str();
  command.add_option("--threshold", options->threshold, "percent: a smaller change is none")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command.add_option("--error-rate", options->error_rate, "percent of faster and slower that may be false")
      ->check(CLI::Range(0.001, 50.0))
      ->capture_default_str();
  command.add_option("--run-spread", options->run_spread,
                  "percent that a run lies off the next one of the same thing, or auto: estimated")
      ->capture_default_str();
  command.add_option("--error-tolerance", options->error_tolerance,
                  "percent: a smaller change of the result's error is none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--where", options->where,
                  "'codec=topk and tp=4': only these rows of both sides (columns of /cells)")
      ->allow_extra_args(false);
  command.add_option("--where-a", options->where_a, "only these rows of side A")->allow_extra_args(false);
  command.add_option("--where-b", options->where_b, "only these rows of side B")->allow_extra_args(false);
  command.add_option("--match", options->match,
                  "pair cells by these columns instead of cell_id; seed pairs runs")
      ->delimiter(',');
  command.add_option("--ignore", options->ignore,
                  "pair cells by all columns that describe them but these, e.g. codec")
      ->delimiter(',');
  command.add_flag("--all", options->all, "list also the cells that are the same or undecided");
  command.add_flag("--complete", options->complete, "a cell that only one side has counts as a failure");
  command.add_option("--html", options->html, "write a page");
  command.add_option("--json", options->json, "write everything for programs");
  return [options] { return compare(*options); };
}

}  // namespace thinwire::sweep
