// Outer loops by hand: each rank trains its replica alone, on its samples of the global batch, with the inner optimizer of a run of one rank; the outer step is written out, number by number, in float64.
#pragma once

#include "tests/models/training/parity_run.h"

namespace thinwire::testing {

/// A replica's samples of each global batch, as if there were no others.
class OfReplica final : public Dataset {
 public:
  OfReplica(std::unique_ptr<Dataset> all, int replica, std::int64_t share) : all_(std::move(all)), first_(replica * share) {}
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override { return all_->batch(step, first_ + first_sample, count, seq); }
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override { return all_->weight(step, count, seq); }
  std::int64_t samples() const override { return all_->samples(); }

 private:
  std::unique_ptr<Dataset> all_;
  std::int64_t first_;
};

/// The samples of global batches of `whole`, in their order, as batches of `share`.
class Regrouped final : public Dataset {
 public:
  Regrouped(std::unique_ptr<Dataset> all, std::int64_t whole, std::int64_t share) : all_(std::move(all)), whole_(whole), share_(share) {}
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override {
    const std::int64_t number = static_cast<std::int64_t>(step) * share_ + first_sample;
    return all_->batch(static_cast<std::uint64_t>(number / whole_), number % whole_, count, seq);
  }
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override { return all_->weight(step, count, seq); }
  std::int64_t samples() const override { return all_->samples(); }

 private:
  std::unique_ptr<Dataset> all_;
  std::int64_t whole_, share_;
};

struct OuterByHand {
  std::string inner = "adamw";
  int inner_steps = 1;
  double rate = 1, momentum = 0;
  bool nesterov = false;
  int fragments = 1, overlap = 0;
  double mixing = 0;
};

/// Of a parameter, by its name: runs of neighbouring layers; what is in no layer goes with the first.
inline int fragment_by_hand(const std::string& parameter, std::int64_t layers, int fragments) {
  return parameter.starts_with("layer") ? static_cast<int>(std::stoi(parameter.substr(5)) * fragments / layers) : 0;
}

/// The run that `c` describes (its optimizer aside), collectively over the world: losses and norms as the mesh records them, and the validation loss of the global weights.
inline RunCurve by_hand(TrainConfig c, const OuterByHand& outer, const Corpus& corpus) {
  const int replicas = c.mesh.dp_replicas, replica = data_coordinates(c.mesh, mesh_coordinates(c.mesh, world().rank()).dp).replica;
  c.mesh = {1, 1, 1};
  c.zero_stage = 0, c.sequence_parallel = false, c.tensor_parallel = "1d";
  c.optimizer = outer.inner;
  c.global_batch /= replicas;
  DataSource data = text_data(corpus, c.model.seed);
  data.training = std::make_unique<OfReplica>(std::move(data.training), replica, c.global_batch);
  data.validation = std::make_unique<Regrouped>(std::move(data.validation), c.global_batch * replicas, c.global_batch);
  const auto alone = world().split(world().rank(), 0);
  const auto trainer = ParallelTrainer::make(*alone, c, std::move(data));
  struct Weights {
    std::span<double> local;
    std::vector<double> global, momentum, moved;
    int fragment = 0;
  };
  std::vector<Weights> weights;
  for (const StateSlot& slot : trainer->state_slots()) {
    if (slot.name != "weights") continue;
    Weights& w = weights.emplace_back();
    w.local = TensorView(slot.value).as<double>();
    w.global.assign(w.local.begin(), w.local.end());
    w.momentum.resize(w.local.size()), w.moved.resize(w.local.size());
    w.fragment = fragment_by_hand(slot.layout.name(), c.model.layers, outer.fragments);
  }
  // As many ranks for each replica.
  const auto mean = [](const std::vector<double>& own) {
    std::vector<double> all(own.size());
    world().all_reduce(own.data(), all.data(), static_cast<std::int64_t>(own.size()), DType::f64, ReduceOp::sum)->wait();
    for (double& value : all) value /= world().size();
    return all;
  };
  const int turn = outer.inner_steps / outer.fragments;
  RunCurve curve;
  for (int done = 1; done <= c.steps; ++done) {
    const StepRecord record = trainer->step();
    curve.loss.push_back(mean({record.loss})[0]);
    curve.norm.push_back(std::sqrt(mean({record.gradient_norm * record.gradient_norm})[0]));
    for (Weights& w : weights) {
      if ((done + outer.overlap) % turn == 0 && ((done + outer.overlap) / turn - 1) % outer.fragments == w.fragment) {
        std::vector<double> own(w.local.size());
        for (std::size_t i = 0; i < own.size(); ++i) own[i] = w.global[i] - w.local[i];
        w.moved = mean(own);
      }
      if (done % turn != 0 || (done / turn - 1) % outer.fragments != w.fragment) continue;
      for (std::size_t i = 0; i < w.local.size(); ++i) {
        const double d = w.moved[i], u = w.momentum[i] = outer.momentum * w.momentum[i] + d;
        w.global[i] -= outer.rate * (outer.nesterov ? d + outer.momentum * u : u);
        w.local[i] = (1 - outer.mixing) * w.global[i] + outer.mixing * w.local[i];
      }
    }
  }
  for (const Weights& w : weights) std::ranges::copy(w.global, w.local.begin());
  curve.validation = trainer->validate();
  return curve;
}

}  // namespace thinwire::testing
