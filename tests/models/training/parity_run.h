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

/// The independent reference: the single-device trainer, which knows of no mesh, schedule, channel or shard.
inline RunCurve single_device_curve(const TrainConfig& c, const Corpus& corpus) {
  world();  // shares the cores out before the first product
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

inline std::vector<double> distances(const std::vector<ParityCase>& cases, const RunCurve& reference, const Corpus& corpus) {
  return distances(cases, [&](Communicator& group, const ParityCase& of) { return distance(parallel_curve(group, of.config, corpus), reference); });
}

}  // namespace thinwire::testing
