#include "experiments/race/race.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace thinwire::race {
namespace {

// Beyond an end of the grid a rate is tried so often at most.
constexpr int beyond_edges = 3;

bool known(const std::vector<Tried>& tried, double rate) { return std::ranges::count(tried, rate, &Tried::rate) > 0; }

const Tried& best_of(const std::vector<Tried>& tried) { return *std::ranges::min_element(tried, {}, &Tried::loss); }

/// The rate next to the best one beyond the end of what was tried; nothing where the best one has neighbours on both sides.
std::optional<double> beyond(std::vector<Tried> tried) {
  if (tried.size() < 2) return std::nullopt;
  const double best = best_of(tried).rate;
  std::ranges::sort(tried, {}, &Tried::rate);
  if (best == tried.front().rate) return best * best / tried[1].rate;
  if (best == tried.back().rate) return best * best / tried[tried.size() - 2].rate;
  return std::nullopt;
}

std::vector<Validation> mean_curve(const std::vector<LossRun>& runs) {
  std::vector<Validation> mean;
  double count = 0;
  for (const LossRun& run : runs) {
    if (run.diverged) continue;
    if (mean.empty())
      for (const Validation& v : run.curve) mean.push_back({v.steps, 0});
    ++count;
    for (std::size_t i = 0; i < std::min(mean.size(), run.curve.size()); ++i) mean[i].loss += run.curve[i].loss;
  }
  for (Validation& v : mean) v.loss /= count;
  return mean;
}

/// Mean over these seeds of the baseline's loss at `target_at` of the horizon.
double mean_at_target(const Course& course, const Performance& baseline, const std::vector<int>& seeds, const TrainRuns& train) {
  std::vector<LossRequest> requests;
  for (const int seed : seeds) requests.push_back({&course.baseline(), baseline.rate, baseline.steps, seed});
  double sum = 0;
  const std::vector<LossRun> runs = train(requests);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double loss = runs[i].loss_at(static_cast<int>(std::lround(course.target_at * course.horizon)));
    if (runs[i].diverged || std::isnan(loss))
      throw RuntimeFailure("the baseline " + baseline.entrant + " has no loss at " + results::to_text(course.target_at) + " of the horizon with seed " + std::to_string(seeds[i]) +
                           ", so there is no target; choose other rates or a longer horizon");
    sum += loss;
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace

double LossRun::final_loss() const {
  return diverged || curve.empty() ? std::numeric_limits<double>::infinity() : curve.back().loss;
}

double LossRun::steps_to(double target) const {
  if (diverged) return none;
  const auto first = std::ranges::find_if(curve, [&](const Validation& v) { return v.loss <= target; });
  return first == curve.end() ? none : first->steps;
}

double LossRun::loss_at(int steps) const {
  double loss = none;
  for (const Validation& v : curve)
    if (v.steps <= steps) loss = v.loss;
  return loss;
}

int Performance::arrived() const {
  return static_cast<int>(std::ranges::count_if(steps_to_target, [](double at) { return !std::isnan(at); }));
}

Performance tune(const Course& course, const Entrant& entrant, double target, const TrainRuns& train) {
  Performance p;
  p.entrant = entrant.name;
  if (entrant.rate > 0) {
    p.rate = entrant.rate, p.steps = entrant.horizons * course.horizon;
    return p;
  }
  const auto try_rates = [&](std::vector<double> rates, int steps) {
    std::vector<LossRequest> requests;
    for (const double rate : rates) requests.push_back({&entrant, rate, steps, course.tuning_seed});
    std::vector<LossRun> runs = train(requests);
    for (std::size_t i = 0; i < runs.size(); ++i) p.tried.push_back({rates[i], steps, runs[i].final_loss()});
    return runs;
  };
  if (course.rates.size() == 1) {
    p.rate = course.rates.front();
  } else {
    try_rates(course.rates, course.horizon / 2);
    for (int more = 0; more < beyond_edges; ++more) {
      const std::optional<double> rate = beyond(p.tried);
      if (!rate || known(p.tried, *rate)) break;
      try_rates({*rate}, course.horizon / 2);
    }
  }
  std::vector<Tried> halves = p.tried;
  std::ranges::sort(halves, {}, &Tried::loss);
  std::vector<double> rates = {p.rate};
  if (!halves.empty()) rates = {halves[0].rate, halves[1].rate};
  const std::vector<LossRun> whole = try_rates(rates, course.horizon);
  const auto before = [&](const LossRun& a, const LossRun& b) {
    const double first = a.steps_to(target), second = b.steps_to(target);
    if (!std::isnan(first) || !std::isnan(second)) return std::isnan(second) || first < second || (first == second && a.final_loss() < b.final_loss());
    return a.final_loss() < b.final_loss();
  };
  const std::size_t best = whole.size() > 1 && before(whole[1], whole[0]) ? 1 : 0;
  p.rate = rates[best], p.steps = course.horizon;
  if (std::isnan(target)) return p;
  bool arrives = !std::isnan(whole[best].steps_to(target));
  while (!arrives && p.steps < course.longest_run()) {
    p.steps *= 2;
    arrives = !std::isnan(try_rates({p.rate}, p.steps).front().steps_to(target));
  }
  if (!arrives) p.steps = 0;
  return p;
}

void run_seeds(const Course& course, const Entrant& entrant, double target, Performance& performance, const TrainRuns& train) {
  if (performance.steps == 0) return;
  std::vector<LossRequest> requests;
  for (const int seed : course.seeds_of(entrant)) requests.push_back({&entrant, performance.rate, performance.steps, seed});
  const std::vector<LossRun> runs = train(requests);
  for (const LossRun& run : runs) {
    performance.steps_to_target.push_back(run.steps_to(target));
    performance.final_loss.push_back(run.final_loss());
  }
  performance.curve = mean_curve(runs);
}

double target_of(const Course& course, const Performance& baseline, const TrainRuns& train) {
  return course.target > 0 ? course.target : mean_at_target(course, baseline, course.seeds, train);
}

double tuning_target_of(const Course& course, const Performance& baseline, const TrainRuns& train) {
  return course.target > 0 ? course.target : mean_at_target(course, baseline, {course.tuning_seed}, train);
}

}  // namespace thinwire::race
