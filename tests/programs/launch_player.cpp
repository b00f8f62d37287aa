// A program that obeys the launch-file contract of the benches (docs/sweeps.md) and plays a part given by
// each cell's parameters, so that tests can see the sweep meet failing, hanging and dying programs. It
// measures nothing; only tests use it.
//   act      ok | wrong | mistrusted | failed_row (a row with that status), throw (exit 6), hang, kill
//   (SIGKILL),
//            vanish (no record for this cell), stop (waits for SIGUSR1, then ends with 7);
//            ACT_once, ACT_twice (so the first time or times in this folder, then ok)
//   seconds  how long the cell takes
//   value    anything: tells cells apart
//   samples  rows of /samples (3)
//   meets    the value of a cell that must have started before this one goes on
//   disturbance  cores that others took, by attempt in this folder ("0.3 0.01": the last one from then on; "unknown"); empty: no row of /attempts
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/clock.h"
#include "core/process/environment.h"
#include "core/process/main_guard.h"
#include "core/process/stop_request.h"
#include "results/files/files.h"
#include "results/journal.h"
#include "results/provenance.h"
#include "results/record.h"

namespace {

using namespace thinwire;
using namespace thinwire::results;

// How often this was asked in this folder, this time included.
int times(const std::string& out, const std::string& what) {
  const std::string mark = out + "/played-" + what;
  std::ofstream(mark, std::ios::app) << "x";
  return static_cast<int>(std::filesystem::file_size(mark));
}

[[noreturn]] void hang() {
  for (;;) pause();
}

// As a bench would have measured it at this attempt; the own time tells attempts apart.
AttemptRow attempt_of(const nlohmann::json& launch, const std::string& id, const Parameters& parameters) {
  const int attempt = times(launch.at("out").get<std::string>(), "disturbance-" + id);
  std::istringstream words(parameters.text("disturbance"));
  std::string word;
  for (int i = 0; i < attempt && words >> word; ++i) continue;
  AttemptRow row;
  row.cell_id = id;
  row.disturbance_cores = word == "unknown" ? not_measured : std::stod(word);
  row.own_cpu_s = attempt;
  row.wall_s = 1;
  row.launch = launch.at("launch").get<std::string>();
  row.started = timestamp_now();
  return row;
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string argument; std::getline(file, argument, '\0');) command.push_back(argument);
  return command;
}

CellRecord record_of(const nlohmann::json& launch, const std::string& id, const Parameters& parameters,
                     Status status) {
  CellRecord record;
  record.cell_id = id;
  record.program = "launch_player";
  record.ranks = Environment::launch_size().value_or(1);
  record.link = launch.at("link").get<std::string>();
  record.parameters = parameters;
  CellRow row;
  row.cell_id = id;
  row.program = record.program;
  row.link = record.link;
  row.ranks = record.ranks;
  row.method = parameters.text("value");
  row.status = name_of(status);
  if (parameters.has("corpus")) row.corpus = parameters.text("corpus");
  if (status != Status::ok) row.reason = "played " + row.method;
  const auto samples = parameters.has("samples") ? parameters.integer("samples") : 3;
  for (std::int64_t i = 0; i < samples; ++i) record.samples.push_back({id, "", 0, i, 1.0, 2.0, 3.0, 6.0 + static_cast<double>(i), 0});
  record.rows.push_back(row);
  if (parameters.has("disturbance")) record.training.attempts.push_back(attempt_of(launch, id, parameters));
  ProvenanceInput input;
  input.launch = launch.at("launch").get<std::string>();
  input.program = record.program;
  input.command = own_command();
  record.provenance = collect_provenance(input);
  record.provenance.finished = timestamp_now();
  return record;
}

void play(const nlohmann::json& launch, const std::string& id, const Parameters& parameters,
          Journal& journal) {
  const std::string out = launch.at("out").get<std::string>();
  std::string act = parameters.has("act") ? parameters.text("act") : "ok";
  journal.cell_started(id);
  std::ofstream(out + "/ran.txt", std::ios::app) << parameters.text("value") << "\n";
  if (parameters.has("meets")) {
    std::ofstream(out + "/started-" + parameters.text("value"));
    while (!std::filesystem::exists(out + "/started-" + parameters.text("meets"))) sleep_until_ns(now_ns() + 5'000'000);
  }
  if (parameters.has("seconds"))
    sleep_until_ns(now_ns() + static_cast<std::int64_t>(parameters.number("seconds") * 1e9));
  for (const auto& [ending, count] : {std::pair("_once", 1), std::pair("_twice", 2)})
    if (act.ends_with(ending)) act = times(out, act + parameters.text("value")) <= count ? act.substr(0, act.rfind('_')) : "ok";
  if (act == "throw") throw RuntimeFailure("played failure of " + parameters.text("value"));
  if (act == "hang") hang();
  if (act == "kill") kill(getpid(), SIGKILL);
  if (act == "vanish") return;
  if (act == "stop") {
    while (!stop_requested()) sleep_until_ns(now_ns() + 10'000'000);
    throw Error(ExitCode::stopped, "played stop at " + parameters.text("value"));
  }
  const Status status = act == "wrong"        ? Status::wrong
                        : act == "mistrusted" ? Status::mistrusted
                        : act == "failed_row" ? Status::failed
                                              : Status::ok;
  write_cell_record(record_path(out, id), record_of(launch, id, parameters, status));
  journal.cell_finished(id);
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::puts("--cells FILE --act A --seconds S --value V --corpus C --tp T --pp P --samples N --seed S --disturbance D --meets V");
    return 0;
  }
  if (argc != 3 || std::string(argv[1]) != "--cells") throw UsageError("launch_player --cells FILE");
  const nlohmann::json launch = nlohmann::json::parse(read_file(argv[2]));
  if (Environment::launch_rank().value_or(0) !=
      0) {  // the other ranks wait for nothing and hang when told to
    for (const auto& cell : launch.at("cells"))
      if (cell.at("parameters").value("act", "ok") == "hang") hang();
    return 0;
  }
  watch_for_stop_request();
  Journal journal(launch.at("out").get<std::string>() + "/journal/" + launch.at("launch").get<std::string>() +
                  ".jsonl");
  for (const auto& cell : launch.at("cells"))
    play(launch, cell.at("cell_id").get<std::string>(),
         Parameters::from_json(cell.at("parameters").dump(), argv[2]), journal);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, run);
}
