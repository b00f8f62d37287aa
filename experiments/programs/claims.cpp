// claims: the papers' claims as executable experiments. list | run | show.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "core/process/log.h"
#include "experiments/claims/claim_report.h"
#include "experiments/claims/plan.h"
#include "experiments/claims/registry.h"
#include "experiments/claims/unbuilt.h"
#include "experiments/programs/cell_program.h"
#include "experiments/run/lock.h"
#include "results/collect.h"
#include "results/files/files.h"
#include "results/provenance.h"

namespace {

using namespace thinwire;
using namespace thinwire::claims;

struct Options : CellOptions {
  Options() { out = "out/claims"; }
  std::vector<std::string> patterns;
  std::string profile = "smoke";
  bool json = false, check = false, commands = false;
  std::string date, what, why;
  std::vector<std::string> times, cells_of;
};

std::vector<const Claim*> chosen(const Options& options) {
  if (options.patterns.empty()) return all_claims();
  std::vector<const Claim*> claims;
  for (const std::string& pattern : options.patterns)
    for (const Claim* claim : claims_named(pattern)) claims.push_back(claim);
  return claims;
}

std::string file_of(const Options& options) { return options.out + "/claims.json"; }

/// Of the pages that were asked for.
std::vector<ListedClaim> not_built(const Options& options) {
  std::vector<ListedClaim> listed = claims_not_built(sweep::default_bin());
  if (options.patterns.empty()) return listed;
  std::erase_if(listed, [&](const ListedClaim& claim) {
    return std::none_of(options.patterns.begin(), options.patterns.end(), [&](const std::string& pattern) { return claim.id == pattern || claim.id.starts_with(pattern + "."); });
  });
  return listed;
}

std::vector<const Claim*> chosen_or_none(const Options& options);

int list(const Options& options) {
  if (options.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Claim* claim : chosen_or_none(options))
      all.push_back({{"id", claim->id}, {"statement", claim->statement}, {"provenance", claim->provenance}, {"rule", claim->measure ? text_of(claim->rule) : ""},
                     {"rule_hash", claim->measure ? rule_hash(*claim) : ""}, {"built", static_cast<bool>(claim->measure)}, {"figure", claim->figure}, {"basis", name_of(claim->basis)}, {"from", name_of(claim->from)}});
    for (const ListedClaim& claim : not_built(options))
      all.push_back({{"id", claim.id}, {"statement", claim.statement}, {"provenance", claim.provenance}, {"rule", ""}, {"rule_hash", ""}, {"built", false}, {"figure", ""},
                     {"basis", ""}, {"from", "full"}});
    std::puts(nlohmann::json{{"schema", 1}, {"claims", all}}.dump(1).c_str());
    return 0;
  }
  for (const Claim* claim : chosen_or_none(options))
    std::printf("%-18s %-14s %-9s %s\n", claim->id.c_str(), name_of(claim->basis).c_str(), name_of(claim->from).c_str(), claim->statement.c_str());
  for (const ListedClaim& claim : not_built(options)) std::printf("%-18s %-14s %-9s %s\n", claim.id.c_str(), "NOT BUILT YET", "", claim.statement.c_str());
  return 0;
}

/// As chosen(), but a page of which nothing is built yet is no wrong word.
std::vector<const Claim*> chosen_or_none(const Options& options) {
  if (options.patterns.empty()) return all_claims();
  const std::vector<const Claim*> all = all_claims();
  std::vector<const Claim*> claims;
  for (const std::string& pattern : options.patterns) {
    Options one = options;
    one.patterns = {pattern};
    if (!not_built(one).empty() && std::none_of(all.begin(), all.end(), [&](const Claim* c) { return c->id.starts_with(pattern); })) continue;
    for (const Claim* claim : chosen(one)) claims.push_back(claim);
  }
  return claims;
}

int print(const Options& options, const std::vector<Judged>& judged) {
  std::fputs((options.json ? to_json(judged) : to_text(judged)).c_str(), stdout);
  return exit_status_of(judged);
}

Registry registry_of(const std::string& bin) {
  const std::string path = shared_file(bin, registry_file);
  return registry_from(results::read_file(path), path);
}

int lock(const Options& options) {
  const std::string path = shared_file(sweep::default_bin(), registry_file);
  const Registry registry = registry_of(sweep::default_bin());
  if (options.check) {
    const std::vector<std::string> wrong = unregistered(registry, chosen(options));
    for (const std::string& line : wrong) std::printf("%s\n", line.c_str());
    if (!wrong.empty()) throw UsageError(path + " is not up to date: `claims lock --what TEXT --why TEXT` registers the rules as they are");
    return 0;
  }
  const std::string date = options.date.empty() ? results::timestamp_now().substr(0, 10) : options.date;
  results::write_file_atomically(path, to_text(updated(registry, chosen(options), date, options.what, options.why)));
  return 0;
}

int run(const Options& options) {
  const Profile profile = profile_named(options.profile);
  const std::vector<const Claim*> asked = chosen(options);  // a mistyped id leaves no folder behind
  CellRunner cells = runner_of(options);
  JudgeContext context(profile, std::filesystem::absolute(options.out), cells);
  const Registry registry = registry_of(cells.paths().bin);
  if (options.cells_of.empty())
    cells.run_under(registry);
  else
    for (const std::string& collected : options.cells_of) cells.answer_from(collected);
  std::string bytes;        // of OUT/claims.json as this run last saw it, and what they say
  std::vector<Judged> all;
  const auto read_kept = [&] {
    if (!std::filesystem::exists(file_of(options))) return void((bytes.clear(), all.clear()));
    std::string there = results::read_file(file_of(options));
    if (there == bytes) return;  // to parse the file for each of two hundred claims took most of the time of judging them
    all = from_json(there, file_of(options));
    bytes = std::move(there);
  };
  read_kept();  // a file that cannot be read is said before hours are spent
  std::vector<Judged> now;
  for (const Claim* claim : asked) {
    if (claim->from > profile) {
      log_info(claim->id + " is judged from the profile " + name_of(claim->from) + " upwards");
      continue;
    }
    if (!claim->measure) continue;  // `claims list` shows what is not built
    log_info(claim->id + ": " + claim->statement);
    try {
      now.push_back(judge(*claim, context, registry));
    } catch (const NotCollected& missing) {
      log_info(claim->id + " is not judged again: " + missing.what());
      continue;
    }
    results::make_folder(options.out);
    // Read anew: another run may have judged other claims in this folder meanwhile.
    const sweep::FolderGuard guard(options.out, ".claims.lock");
    read_kept();
    const bool kept = keep_verdict(all, now.back());
    mark_former_rules(all, registry);
    log_info(claim->id + ": " + name_of(now.back().outcome.verdict) + (kept ? "" : "; the verdict of a larger profile stays in " + file_of(options)));
    bytes = to_json(all);
    results::write_file_atomically(file_of(options), bytes);  // what is judged stays, whatever happens to the rest
  }
  return print(options, now);
}

int plan(const Options& options) {
  CellRunner cells = runner_of(options);
  JudgeContext context(profile_named(options.profile), std::filesystem::absolute(options.out), cells);
  CellTimes times;
  for (const std::string& file : options.times)
    times.add(CellTimes(results::records_in(file)));
  const std::vector<ClaimPlan> plans = plan_claims(chosen(options), context, times);
  std::fputs((options.commands ? commands_of(plans) : to_text(plans)).c_str(), stdout);
  return 0;
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
  CLI::App* plan_command = add_command("plan", "what `run` would measure, and how long such cells took before; starts nothing");
  plan_command->add_option("--times", options.times, "collected files to take the cells' times from");
  plan_command->add_flag("--commands", options.commands, "print the command of each cell instead, to repeat one by hand");
  CLI::App* lock_command = add_command("lock", "register the rules as they are in experiments/claims/registry.lock; a changed rule keeps its history");
  lock_command->add_flag("--check", options.check, "write nothing; an error where a rule is not the registered one");
  lock_command->add_option("--date", options.date, "day of registration (default: today, UTC)");
  lock_command->add_option("--what", options.what, "what was changed in the rules that changed");
  lock_command->add_option("--why", options.why, "why");
  for (CLI::App* command : {run_command, show_command, plan_command}) command->add_option("--out", options.out, "folder of claims.json")->capture_default_str();
  for (CLI::App* command : {list_command, run_command, show_command}) command->add_flag("--json", options.json, "as JSON");
  for (CLI::App* command : {run_command, plan_command}) command->add_option("--profile", options.profile, "smoke (seconds), quick (4 minutes), standard (hours), full (days)")->capture_default_str();
  run_command->add_option("--cells-of", options.cells_of, "a collected file (again for more): run nothing, judge again what it holds")->allow_extra_args(false);
  run_command->add_option("--begin-with", options.begin_with, "a collected file whose cells count as measured; the rest is run (of another build: --if-code-changed keep)")->excludes("--cells-of");
  run_command->add_option("--lab", options.lab, "launcher of netns links (default: experiments/lab/launch.sh)");
  for (CLI::App* command : {run_command, plan_command}) {
    command->add_option("--bin", options.bin, "folder of the programs (default: beside this one)");
    command->add_option("--if-code-changed", options.if_code_changed, "cells whose program was built anew since: keep, redo, or error")->capture_default_str();
  }
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  if (list_command->parsed()) return list(options);
  if (lock_command->parsed()) return lock(options);
  if (show_command->parsed()) return show(options);
  return with_cells([&] { return plan_command->parsed() ? plan(options) : run(options); });
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
