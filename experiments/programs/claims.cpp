// claims: the papers' claims as executable experiments. list | run | show.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "core/main_guard.h"
#include "experiments/claims/claim_report.h"
#include "results/files.h"

namespace {

using namespace thinwire;
using namespace thinwire::claims;

struct Options {
  std::vector<std::string> patterns;
  std::string out = "out/claims";
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
  for (const Claim* claim : chosen(options))
    std::printf("%-18s %-14s %s\n", claim->id.c_str(), name_of(claim->basis).c_str(), claim->statement.c_str());
  return 0;
}

int print(const Options& options, const std::vector<Judged>& judged) {
  std::fputs((options.json ? to_json(judged) : to_text(judged)).c_str(), stdout);
  return exit_status_of(judged);
}

int run(const Options& options) {
  std::vector<Judged> all;
  if (std::filesystem::exists(file_of(options))) all = from_json(results::read_file(file_of(options)), file_of(options));
  std::vector<Judged> now;
  for (const Claim* claim : chosen(options)) {
    now.push_back(judge(*claim));
    std::erase_if(all, [&](const Judged& j) { return j.id == claim->id; });
    all.push_back(now.back());
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
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("claim", options.patterns, "ids or their beginnings (optimus_cc, optimus_cc.C5); default: all");
    return command;
  };
  CLI::App* list_verb = verb("list", "ids, bases and statements");
  CLI::App* run_verb = verb("run", "judge, keep the verdicts in OUT/claims.json, print them");
  CLI::App* show_verb = verb("show", "print the verdicts that were kept");
  for (CLI::App* command : {run_verb, show_verb}) {
    command->add_option("--out", options.out, "folder of claims.json")->capture_default_str();
    command->add_flag("--json", options.json, "as JSON");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError("claims: " + std::string(error.what()) + ". All options: claims --help, claims VERB --help");
  }
  if (list_verb->parsed()) return list(options);
  return run_verb->parsed() ? run(options) : show(options);
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
