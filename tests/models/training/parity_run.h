// Runs parity cases over the ranks of a launch: cases of 8 ranks by all of them, smaller ones several at a time.
#pragma once

#include <cmath>
#include <functional>
#include <map>

#include "models/data/batches.h"
#include "models/training/parallel_trainer.h"
#include "tests/collectives/world.h"
#include "tests/models/training/parity_cases.h"

namespace thinwire::testing {

/// Losses, gradient norms and validation loss of a run.
struct RunCurve {
  std::vector<double> loss, norm;
  double validation = 0;
};

/// A reference, computed by rank 0 for all (made_once).
template <typename Make>
RunCurve curve_made_once(const Make& make) {
  const std::vector<double> numbers = made_once([&] {
    const RunCurve curve = make();
    std::vector<double> all = curve.loss;
    all.insert(all.end(), curve.norm.begin(), curve.norm.end());
    all.push_back(curve.validation);
    return all;
  });
  const auto steps = static_cast<std::ptrdiff_t>(numbers.size() / 2);
  return {{numbers.begin(), numbers.begin() + steps}, {numbers.begin() + steps, numbers.begin() + 2 * steps}, numbers.back()};
}

/// The independent reference: the single-device trainer, which knows of no mesh, schedule, channel or shard.
inline RunCurve single_device_curve_here(const TrainConfig& c, const Corpus& corpus) {
  Gpt<double> model(c.model);
  Trainer<double> trainer(model, c.trainer);
  const BatchSampler training(corpus.training(), c.model.seed, "data.training"), validation(corpus.validation(), validation_seed, "data.validation");
  RunCurve curve;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const Batch batch = training.batch(static_cast<std::uint64_t>(s), 0, c.global_batch, c.seq);
    const StepReport report = trainer.step({&batch, 1});
    curve.loss.push_back(report.loss);
    curve.norm.push_back(report.gradient_norm);
  }
  typename Gpt<double>::Activations saved;
  curve.validation = model.forward(validation.batch(0, 0, c.global_batch, c.seq), 0, false, 1.0, saved);
  return curve;
}

/// The same on all ranks, computed by one of them. Collective.
inline RunCurve single_device_curve(const TrainConfig& c, const Corpus& corpus) {
  return curve_made_once([&] { return single_device_curve_here(c, corpus); });
}

inline RunCurve parallel_curve(Communicator& group, const TrainConfig& c, const Corpus& corpus) {
  const auto trainer = ParallelTrainer::make(group, c, corpus);
  RunCurve curve;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    curve.loss.push_back(record.loss);
    curve.norm.push_back(record.gradient_norm);
  }
  curve.validation = trainer->validate();
  return curve;
}

/// What one rank alone trains, computed by rank 0 for all. Collective.
inline RunCurve one_rank_curve(const TrainConfig& c, const Corpus& corpus) {
  const auto alone = world().split(world().rank(), 0);
  return curve_made_once([&] { return parallel_curve(*alone, c, corpus); });
}

/// Largest relative distance of two curves.
inline double distance(const RunCurve& a, const RunCurve& b) {
  double worst = std::abs(a.validation - b.validation) / std::abs(b.validation);
  for (std::size_t i = 0; i < b.loss.size(); ++i) {
    worst = std::max(worst, std::abs(a.loss[i] - b.loss[i]) / std::abs(b.loss[i]));
    worst = std::max(worst, std::abs(a.norm[i] - b.norm[i]) / std::abs(b.norm[i]));
  }
  return std::isnan(worst) ? INFINITY : worst;
}

/// A case's distance from its reference, run by a group of as many ranks as it has.
using DistanceOf = std::function<double(Communicator& group, const ParityCase& of)>;

/// Runs `cases` in groups of their size and returns each one's distance, equal on all ranks.
inline std::vector<double> distances(const std::vector<ParityCase>& cases, const DistanceOf& distance_of) {
  std::vector<double> result(cases.size(), 0.0);
  for (int ranks : {1, 2, 4, 8}) {
    if (ranks > world().size()) break;
    const int groups = world().size() / ranks, mine = world().rank() / ranks;
    const auto group = world().split(mine, world().rank());
    int turn = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].config.mesh.ranks() != ranks) continue;
      if (turn++ % groups != mine) continue;
      const Stopwatch watch;
      result[i] = distance_of(*group, cases[i]);
      if (group->rank() == 0 && std::getenv("THINWIRE_TEST_VERBOSE"))
        std::fprintf(stderr, "%3zu  %8.2e  %6.2f s  %s\n", i, result[i], watch.seconds(), cases[i].name.c_str());
    }
    world().barrier();
  }
  std::vector<double> all(result.size());
  world().all_reduce(result.data(), all.data(), static_cast<std::int64_t>(all.size()), DType::f64, ReduceOp::max)->wait();
  return all;
}

/// The single device's curves of the setting `c` with as many layers as the cases have, by that number. Collective.
inline std::map<std::int64_t, RunCurve> single_device_curves(TrainConfig c, const std::vector<ParityCase>& cases, const Corpus& corpus) {
  std::map<std::int64_t, RunCurve> curves;
  for (const ParityCase& one : cases) {
    c.model.layers = one.config.model.layers;
    if (!curves.contains(c.model.layers)) curves[c.model.layers] = single_device_curve(c, corpus);
  }
  return curves;
}

inline std::vector<double> distances(const std::vector<ParityCase>& cases, const std::map<std::int64_t, RunCurve>& references, const Corpus& corpus) {
  return distances(cases, [&](Communicator& group, const ParityCase& of) { return distance(parallel_curve(group, of.config, corpus), references.at(of.config.model.layers)); });
}

}  // namespace thinwire::testing
