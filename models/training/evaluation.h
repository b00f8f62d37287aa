// What a model is worth on data that it does not learn from.
//   loss = sum over rounds of weight * loss of the round / sum of weights,   a round a global batch
// Of validation data a fixed number of samples is taken; of sets to be judged on (JudgedSet) all, each once: what the ranks with the head predict is brought
// together on all ranks in the order of the samples, so that a task's metrics are of the whole set and the same for every way of sharing it.
#pragma once

#include <string>
#include <vector>

#include "models/parallel/pipeline/pipeline.h"
#include "models/training/replica_batches.h"
#include "models/training/trainer_channels.h"

namespace thinwire {

/// Means over everything evaluated, equal on all ranks.
struct Evaluation {
  struct Metric {
    std::string name;
    double value = 0;
  };
  double loss = 0;
  std::vector<Metric> metrics;  ///< what the model, or the task, names beside the loss
};

template <typename T>
class Evaluator {
 public:
  /// What is pointed to outlives it. `last`: the rank's last chunk.
  Evaluator(const TrainConfig& config, const MeshCoordinates& at, Pipeline<T>& pipeline, const Stage<T>& last, TrainerChannels& channels)
      : config_(config), at_(at), pipeline_(pipeline), last_(last), channels_(channels), schedule_(lowered(config)) {}

  /// Collective over the mesh; `step`: steps taken, which names its messages. With several judged sets the loss is the first one's, and names of metrics begin with the set's.
  Evaluation run(const DataSource& data, std::int64_t step);

 private:
  static Schedule lowered(const TrainConfig& config);
  /// One tensor rank of each last stage speaks for its replica.
  bool speaks() const { return last_.part().head && at_.tp == 0; }
  Evaluation sampled(const Dataset& data, std::int64_t step);
  Evaluation judged(const JudgedSet& set, std::int64_t step);
  /// This rank's loss over rounds 0 .. rounds - 1, as a share of the mesh's sum. `predicted` [rounds x global batch]: this replica's samples are filled in.
  double share_of_loss(const Dataset& data, std::int64_t rounds, std::int64_t step, double* metrics, std::vector<double>* predicted);

  const TrainConfig& config_;
  MeshCoordinates at_;
  Pipeline<T>& pipeline_;
  const Stage<T>& last_;
  TrainerChannels& channels_;
  Schedule schedule_;  ///< lowered to units
  Tensor loss_{{1}, DType::f64};
  Tensor measured_;  ///< numerators and weights of the model's metrics
};

}  // namespace thinwire
