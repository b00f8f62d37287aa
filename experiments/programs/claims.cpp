// claims: the papers' claims as executable experiments. list | run | show.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/process/main_guard.h"
#include "core/process/log.h"
#include "experiments/claims/claim_report.h"
#include "results/files/files.h"

namespace {

using namespace thinwire;
using namespace thinwire::claims;

struct Options {
  std::vector<std::string> patterns;
  std::string out = "out/claims", profile = "smoke", bin, lab, if_code_changed = "error";
  bool json = false;
};

std::vector<const Claim*> chosen(const Options& options) {
  if (options.patterns.empty()) return all_claims();
  std::vector<const Claim*> claims;
  for (const std::string& pattern : options.patterns)
    for (const Claim* claim : claims_named(pattern)) claims.push_back(claim);
  return claims;
}

std::string file_of(const Options& options) { return options.out + "/claims.json"; }

int list(const Options& options) {
  if (options.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Claim* claim : chosen(options))
      all.push_back({{"id", claim->id}, {"statement", claim->statement}, {"provenance", claim->provenance}, {"rule", claim->rule},
                     {"basis", name_of(claim->basis)}, {"from", name_of(claim->from)}});
    std::puts(nlohmann::json{{"schema", 1}, {"claims", all}}.dump(1).c_str());
    return 0;
  }
  for (const Claim* claim : chosen(options))
    std::printf("%-18s %-14s %-9s %s\n", claim->id.c_str(), name_of(claim->basis).c_str(), name_of(claim->from).c_str(), claim->statement.c_str());
  return 0;
}

int print(const Options& options, const std::vector<Judged>& judged) {
  std::fputs((options.json ? to_json(judged) : to_text(judged)).c_str(), stdout);
  return exit_status_of(judged);
}

CellRunner cells_of(const Options& options) {
  sweep::RunPaths paths;
  paths.out = std::filesystem::absolute(options.out);
  paths.bin = options.bin.empty() ? sweep::default_bin() : std::string(std::filesystem::absolute(options.bin));
  paths.lab = options.lab.empty() ? sweep::default_lab(paths.bin) : std::string(std::filesystem::absolute(options.lab));
  const std::vector<std::string> known = {"keep", "redo", "error"};
  const auto found = std::find(known.begin(), known.end(), options.if_code_changed);
  if (found == known.end()) throw UsageError("--if-code-changed " + options.if_code_changed + ": keep, redo or error");
  return {paths, static_cast<sweep::IfCodeChanged>(found - known.begin())};
}

int run(const Options& options) {
  const Profile profile = profile_named(options.profile);
  CellRunner cells = cells_of(options);
  JudgeContext context(profile, std::filesystem::absolute(options.out), cells);
  std::vector<Judged> all;
  if (std::filesystem::exists(file_of(options))) all = from_json(results::read_file(file_of(options)), file_of(options));
  std::vector<Judged> now;
  for (const Claim* claim : chosen(options)) {
    if (claim->from > profile) {
      log_info(claim->id + " is judged from the profile " + name_of(claim->from) + " upwards");
      continue;
    }
    log_info(claim->id + ": " + claim->statement);
    now.push_back(judge(*claim, context));
    const bool kept = keep_verdict(all, now.back());
    log_info(claim->id + ": " + name_of(now.back().outcome.verdict) + (kept ? "" : "; the verdict of a larger profile stays in " + file_of(options)));
    results::make_folder(options.out);
    results::write_file_atomically(file_of(options), to_json(all));  // what is judged stays, whatever happens to the rest
  }
  return print(options, now);
}

int show(const Options& options) {
  if (!std::filesystem::exists(file_of(options)))
    throw EnvironmentError(file_of(options) + " does not exist; `claims run --out " + options.out + "` judges the claims");
  std::vector<Judged> kept = from_json(results::read_file(file_of(options)), file_of(options));
  if (!options.patterns.empty()) {
    const std::vector<const Claim*> wanted = chosen(options);
    std::erase_if(kept, [&](const Judged& j) { return std::none_of(wanted.begin(), wanted.end(), [&](const Claim* c) { return c->id == j.id; }); });
  }
  return print(options, kept);
}

int dispatch(int argc, char** argv) {
  Options options;
  CLI::App app("Judges the papers' claims by the rules written beside them, and shows the verdicts with their numbers.", "claims");
  app.require_subcommand(1);
  const auto add_command = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("claim", options.patterns, "ids or their beginnings (optimus_cc, optimus_cc.C5); default: all");
    return command;
  };
  CLI::App* list_command = add_command("list", "ids, bases, smallest profiles and statements");
  CLI::App* run_command = add_command("run", "judge, keep the verdicts in OUT/claims.json, print them");
  CLI::App* show_command = add_command("show", "print the verdicts that were kept");
  for (CLI::App* command : {run_command, show_command}) command->add_option("--out", options.out, "folder of claims.json")->capture_default_str();
  for (CLI::App* command : {list_command, run_command, show_command}) command->add_flag("--json", options.json, "as JSON");
  run_command->add_option("--profile", options.profile, "smoke (seconds), quick (2 minutes), standard (300 training steps), full (1000, twice the seeds)")->capture_default_str();
  run_command->add_option("--bin", options.bin, "folder of the programs (default: beside this one)");
  run_command->add_option("--lab", options.lab, "launcher of netns links (default: experiments/lab/launch.sh)");
  run_command->add_option("--if-code-changed", options.if_code_changed, "cells whose program was built anew since: keep, redo, or error")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError("claims: " + std::string(error.what()) + ". All options: claims --help, claims COMMAND --help");
  }
  if (list_command->parsed()) return list(options);
  if (!run_command->parsed()) return show(options);
  try {
    return run(options);
  } catch (const Interrupted& interrupted) {
    log_error("interrupted; the same command goes on from what is finished");
    std::signal(interrupted.signal, SIG_DFL);
    std::raise(interrupted.signal);
    return 0;  // not reached: the signal ends the process
  }
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
