#include "experiments/race/race_cells.h"

#include <algorithm>
#include <cmath>

#include "experiments/claims/attempts.h"

namespace thinwire::race {
namespace {

LossRun run_of(const results::CellRecord& record) {
  LossRun run;
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (!std::isnan(row.validation_loss)) run.curve.push_back({static_cast<int>(row.step + 1), row.validation_loss});
  return run;
}

}  // namespace

claims::CellRequest RaceCells::request_of(const LossRequest& request) const {
  claims::CellRequest r{"train_gpt", course_.loss.ranks, "shm", course_.loss.parameters, 3600, {"race", course_.name, request.entrant->name}, /*timed=*/false};
  if (r.ranks == 1) r.threads = 1;
  for (const auto& [name, value] : request.entrant->settings.values()) r.parameters.set(name, value);
  r.parameters.set("learning-rate", request.rate), r.parameters.set("steps", request.steps), r.parameters.set("seed", request.seed);
  r.parameters.set("warmup", std::lround(course_.warmup * request.steps)), r.parameters.set("eval-interval", course_.validate_every), r.parameters.set("plan", request.entrant->name);
  return r;
}

claims::CellRequest RaceCells::request_of(const Entrant& entrant, const std::string& link, double rate, int window) const {
  claims::CellRequest r{"train_gpt", course_.time.ranks, link, course_.time.parameters, 600, {"race", course_.name, entrant.name}, /*timed=*/true};
  for (const auto& [name, value] : entrant.settings.values()) r.parameters.set(name, value);
  r.parameters.set("learning-rate", rate), r.parameters.set("seed", window + 1), r.parameters.set("plan", entrant.name);
  return r;
}

std::vector<LossRun> RaceCells::train(std::span<const LossRequest> requests) {
  std::vector<claims::CellRequest> cells;
  for (const LossRequest& request : requests) cells.push_back(request_of(request));
  cells_.prepare(cells);  // all of them, before the first that diverged is found
  std::vector<LossRun> runs;
  for (const claims::CellRequest& cell : cells) {
    try {
      runs.push_back(run_of(cells_.run_one(cell)));
    } catch (const claims::ArmDiverged&) {
      runs.emplace_back();
      runs.back().diverged = true;
    }
  }
  return runs;
}

Times RaceCells::time(const std::vector<Performance>& performances) {
  struct Asked {
    const Performance* performance;
    std::string link;
  };
  std::vector<Asked> asked;
  std::vector<claims::CellRequest> requests;
  for (int window = 0; window < course_.windows; ++window)
    for (const std::string& link : course_.links)
      for (const Performance& p : performances) {
        const auto entrant = std::ranges::find(course_.entrants, p.entrant, &Entrant::name);
        asked.push_back({&p, link});
        requests.push_back(request_of(*entrant, link, p.rate, window));
      }
  const std::vector<results::CellRecord> records = cells_.run(requests);
  Times times;
  for (std::size_t i = 0; i < records.size(); ++i) {
    TimedStep& step = times[{asked[i].performance->entrant, asked[i].link}];
    const results::CellRecord& record = records[i];
    if (!claims::measured_well(record)) step.distrust = claims::reason_of(record);
    if (claims::is_disturbed(claims::disturbance_of(record))) step.distrust = "the machine was disturbed";
    if (record.training.time.empty()) continue;  // skipped: no such link here
    step.step_ms.push_back(record.training.time.front().step_ms);
    step.link_bytes = 0;
    for (const results::TrainingTrafficRow& row : record.training.traffic) step.link_bytes += static_cast<double>(row.link_bytes);
  }
  return times;
}

}  // namespace thinwire::race
