// Training on one device: micro-batches accumulated into one optimizer step, with the learning-rate schedule.
#pragma once

#include <functional>
#include <span>

#include "models/gpt/gpt.h"
#include "models/optimizer/optimizer.h"

namespace thinwire {

struct TrainerOptions {
  nn::AdamW adamw;
  nn::CosineSchedule schedule;
  double max_norm = 1.0;  ///< global-norm clipping
};

struct StepReport {
  double loss = 0;  ///< mean over micro-batches, nats per token
  double gradient_norm = 0, learning_rate = 0;
  double seconds = 0;
  std::int64_t tokens = 0;
};

template <typename T>
class Trainer {
 public:
  Trainer(Gpt<T>& model, const TrainerOptions& options)
      : model_(model), options_(options), optimizer_(model.parameters(), options.adamw) {}

  /// Called after a micro-batch's backward pass, when the parameters' gradients are those of its own mean
  /// loss alone: what replica `micro` of a data-parallel group would send.
  using AfterMicroBatch = std::function<void(int micro)>;

  /// One step over micro-batches of equal size; the gradient is the mean of theirs: each backward pass starts from its share of the step's
  /// loss (from its own mean loss where `after` is given). `observer_of(m)` may give an observer for micro-batch m. Diverged with the step when the loss or a gradient is not finite,
  /// or an observer's codec cannot send what it sees.
  StepReport step(std::span<const Batch> micro_batches,
                  const std::function<TrafficObserver<T>*(int micro)>& observer_of = {},
                  const AfterMicroBatch& after = {});
  std::int64_t steps_taken() const { return optimizer_.steps_taken(); }
  Gpt<T>& model() { return model_; }
  /// Of the micro-batch whose passes run, or ran last: for hooks that want to see its inputs.
  const typename Gpt<T>::Activations& activations() const { return saved_; }

 private:
  StepReport take_step(std::span<const Batch> micro_batches, const std::function<TrafficObserver<T>*(int micro)>& observer_of, const AfterMicroBatch& after);

  Gpt<T>& model_;
  TrainerOptions options_;
  Optimizer<T> optimizer_;
  typename Gpt<T>::Activations saved_;
  std::vector<Tensor> total_;
};

}  // namespace thinwire
