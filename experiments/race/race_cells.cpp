#include "experiments/race/race_cells.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "experiments/claims/attempts.h"
#include "experiments/race/entrant_settings.h"
#include "experiments/race/race_report.h"
#include "results/files/files.h"
#include "results/kept_state.h"

namespace thinwire::race {
namespace {

LossRun run_of(const results::CellRecord& record) {
  LossRun run;
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (!std::isnan(row.validation_loss)) run.curve.push_back({static_cast<int>(row.step + 1), row.validation_loss});
  return run;
}

// Windows are steady when so many in a row lie so close together (largest over smallest - 1), and so many more than the course says are tried (docs/papers/low_bandwidth_pipeline.md, the
// contest's own rule).
constexpr int windows_that_agree = 3, windows_beyond = 3;
constexpr double agreement = 0.01;

/// Of the last windows; 0 where there are too few to tell.
double apart(const std::vector<double>& windows) {
  if (windows.size() < windows_that_agree) return 0;
  const auto last = std::ranges::subrange(windows.end() - windows_that_agree, windows.end());
  return std::ranges::max(last) / std::ranges::min(last) - 1;
}

std::string id_of(const claims::CellRequest& r) { return results::cell_id(r.program, r.ranks, r.link, r.parameters); }

void add_distrust(TimedStep& step, const std::string& words) { step.distrust += (step.distrust.empty() ? "" : "; ") + words; }

void add_window(TimedStep& step, const results::CellRecord& record) {
  if (!claims::measured_well(record)) step.distrust = claims::reason_of(record);
  if (claims::is_disturbed(claims::disturbance_of(record))) step.distrust = "the machine was disturbed";
  if (record.samples.empty()) return;  // skipped: no such link here
  double sum = 0;
  for (const results::SampleRow& sample : record.samples) sum += sample.total_us;
  step.step_ms.push_back(sum * 1e-3 / static_cast<double>(record.samples.size()));
  step.link_bytes = 0;
  for (const results::TrainingTrafficRow& row : record.training.traffic) step.link_bytes += static_cast<double>(row.link_bytes);
}

}  // namespace

const Entrant& RaceCells::entrant_of(const Performance& performance) const { return *std::ranges::find(course_.entrants, performance.entrant, &Entrant::name); }

std::optional<LossRequest> RaceCells::start_of(const Performance& p) const {
  if (!course_.midway) return std::nullopt;
  const Entrant& entrant = entrant_of(p);
  if (p.steps == 0) {
    const auto longest = std::ranges::find_if(p.tried, [&](const Tried& t) { return t.rate == p.rate && t.steps == course_.longest_run() && std::isfinite(t.loss); });
    if (longest == p.tried.end()) return std::nullopt;  // it diverged
    return LossRequest{&entrant, p.rate, longest->steps, course_.tuning_seed};
  }
  const auto trained = std::ranges::find_if(p.final_loss, [](double loss) { return std::isfinite(loss); });
  if (trained == p.final_loss.end()) return std::nullopt;  // all of them diverged
  return LossRequest{&entrant, p.rate, p.steps, course_.seeds_of(entrant)[static_cast<std::size_t>(trained - p.final_loss.begin())]};
}

bool RaceCells::is_start(const LossRequest& request) const {
  if (!course_.midway) return false;
  // Of the longest tuning run nobody knows beforehand whether it will arrive.
  return request.seed == course_.tuning_seed ? request.steps == course_.longest_run() : request.seed == course_.seeds_of(*request.entrant).front();
}

claims::CellRequest RaceCells::request_of(const LossRequest& request) const {
  claims::CellRequest r{"train_gpt", course_.loss.ranks, "shm", course_.loss.with(*request.entrant), 3600, {"race", course_.name, request.entrant->name}, /*timed=*/false};
  if (r.ranks == 1) r.threads = 1;
  r.parameters.set("learning-rate", request.rate), r.parameters.set("min-lr", least_rate * request.rate), r.parameters.set("steps", request.steps), r.parameters.set("seed", request.seed);
  r.parameters.set("warmup", std::lround(course_.warmup * request.steps)), r.parameters.set("eval-interval", course_.validate_every), r.parameters.set("plan", request.entrant->name);
  if (is_start(request)) r.parameters.set("keep-at", request.steps / 2);
  return r;
}

claims::CellRequest RaceCells::half_of(const LossRequest& start) const {
  claims::CellRequest r = request_of(start);
  r.parameters.set("steps", start.steps / 2), r.parameters.set("keep-at", start.steps / 2), r.parameters.set("schedule-steps", start.steps), r.parameters.set("eval-interval", 0);
  return r;
}

claims::CellRequest RaceCells::request_of(const Performance& p, const std::string& link, int window) const {
  const Entrant& entrant = entrant_of(p);
  claims::CellRequest r{"train_gpt", course_.time.ranks, link, course_.time.with(entrant), 600, {"race", course_.name, entrant.name}, /*timed=*/true};
  r.parameters.set("learning-rate", p.rate), r.parameters.set("min-lr", least_rate * p.rate), r.parameters.set("plan", entrant.name), r.parameters.set("steps", window_steps(course_, entrant));
  const std::optional<LossRequest> start = start_of(p);
  if (!start) {
    r.parameters.set("seed", window + 1);
    return r;
  }
  r.parameters.set("resume", "kept:" + id_of(request_of(*start))), r.parameters.set("seed", start->seed);
  r.parameters.set("schedule-steps", start->steps), r.parameters.set("warmup", std::lround(course_.warmup * start->steps));
  if (layouts_differ(course_, entrant)) r.parameters.set("codec-state", "reset"), r.parameters.set("replica-state", "reset");
  if (window > 0) r.parameters.set("repetition", window);
  return r;
}

void RaceCells::require_registered_rate(const LossRequest& request) const {
  const std::string path = cells_.paths().out + "/" + registered_file;
  if (request.entrant->name != course_.baseline().name || request.seed == course_.tuning_seed || !std::filesystem::exists(path)) return;
  const double rate = registered_from(results::read_file(path), path).baseline.rate;
  if (request.rate != rate)
    throw UsageError(path + " registered a target that " + request.entrant->name + " set at learning rate " + results::to_text(rate) + ", and its tuning, made again, chose " +
                     results::to_text(request.rate) + "; race in another folder (--out)");
}

std::vector<LossRun> RaceCells::train(std::span<const LossRequest> requests) {
  for (const LossRequest& request : requests) require_registered_rate(request);
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

std::string RaceCells::kept_by(const claims::CellRequest& request) const { return results::kept_state_path(cells_.paths().resume(), id_of(request)); }

std::vector<LossRequest> RaceCells::missing_states(std::span<const Window> windows) const {
  std::vector<claims::CellRequest> without;
  std::map<std::string, LossRequest> starts;  // by cell
  for (const Window& w : windows) {
    const std::optional<LossRequest> start = start_of(*w.performance);
    if (!start || std::filesystem::exists(kept_by(request_of(*start)))) continue;
    without.push_back(request_of(*w.performance, w.link, w.number));
    starts.emplace(id_of(without.back()), *start);
  }
  claims::CellRunner planner(cells_.paths(), cells_.if_code_changed());
  claims::PlannedWork work;
  planner.only_plan(work);
  try {
    planner.prepare(without);
  } catch (const claims::PlanEnds&) {  // there are some
  }
  std::vector<LossRequest> missing;
  for (const claims::CellRequest& cell : work.cells)
    if (const LossRequest& start = starts.at(id_of(cell)); std::ranges::count(missing, start.entrant, &LossRequest::entrant) == 0) missing.push_back(start);
  return missing;
}

void RaceCells::provide_states(std::span<const Window> windows) {
  std::vector<claims::CellRequest> timed;
  for (const Window& w : windows) timed.push_back(request_of(*w.performance, w.link, w.number));
  cells_.take_from_begun(timed);
  const std::vector<LossRequest> missing = missing_states(windows);
  std::vector<claims::CellRequest> halves;
  for (const LossRequest& start : missing) {
    halves.push_back(half_of(start));
    // Its numbers are nobody's: without its state it is run again.
    if (!std::filesystem::exists(kept_by(halves.back()))) std::filesystem::remove(results::record_path(cells_.paths().out, id_of(halves.back())));
  }
  if (halves.empty()) return;
  cells_.not_from_begun(halves);
  cells_.run(halves);
  for (std::size_t i = 0; i < halves.size(); ++i) std::filesystem::rename(kept_by(halves[i]), kept_by(request_of(missing[i])));
}

void RaceCells::remove_states(const std::vector<Performance>& performances) const {
  std::error_code ignored;
  const auto remove = [&](const LossRequest& of) { std::filesystem::remove(kept_by(request_of(of)), ignored); };
  for (const Performance& p : performances) {
    if (const std::optional<LossRequest> start = start_of(p)) remove(*start);
    for (const Tried& t : p.tried)  // also those that arrived or diverged behind their middle
      if (const LossRequest tuning{&entrant_of(p), t.rate, t.steps, course_.tuning_seed}; is_start(tuning)) remove(tuning);
  }
}

Times RaceCells::time(const std::vector<Performance>& performances) {
  using Place = std::pair<const Performance*, std::string>;
  std::vector<Place> places;
  for (const std::string& link : course_.links)
    for (const Performance& p : performances) places.emplace_back(&p, link);
  Times times;
  const auto measure = [&](const std::vector<Place>& where, int first, int end) {
    std::vector<Window> windows;
    for (int window = first; window < end; ++window)
      for (const auto& [p, link] : where) windows.push_back({p, link, window});
    provide_states(windows);
    std::vector<claims::CellRequest> requests;
    for (const Window& w : windows) requests.push_back(request_of(*w.performance, w.link, w.number));
    const std::vector<results::CellRecord> records = cells_.run(requests);
    for (std::size_t i = 0; i < records.size(); ++i) add_window(times[{where[i % where.size()].first->entrant, where[i % where.size()].second}], records[i]);
  };
  measure(places, 0, course_.windows);
  // Paired ones all count: to add some where they scatter would choose among them by what they say.
  for (int more = 0; more < windows_beyond && course_.windows >= windows_that_agree && !course_.pair_windows; ++more) {
    std::vector<Place> again;
    std::ranges::copy_if(places, std::back_inserter(again), [&](const Place& place) { return apart(times[{place.first->entrant, place.second}].step_ms) > agreement; });
    if (again.empty()) break;
    measure(again, course_.windows + more, course_.windows + more + 1);
  }
  for (auto& [place, step] : times) {
    if (step.step_ms.size() > static_cast<std::size_t>(course_.windows)) step.step_ms.erase(step.step_ms.begin(), step.step_ms.end() - course_.windows);
    if (const double spread = apart(step.step_ms); spread > agreement && !course_.pair_windows) {
      char words[64];
      std::snprintf(words, sizeof words, "windows differ by %.1f %%", 100 * spread);
      add_distrust(step, words);
    }
  }
  for (const auto& [p, link] : places)
    if (TimedStep& step = times[{p->entrant, link}]; course_.midway && !start_of(*p) && !step.step_ms.empty()) add_distrust(step, "timed from its initial weights");
  remove_states(performances);
  return times;
}

}  // namespace thinwire::race
