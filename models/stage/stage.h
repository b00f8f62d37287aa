// A model as a pipeline position holds it: a list of units with a forward and a backward pass each, and tensors at its two ends. The executor,
// the trainer and the gradient reduction know models by this interface alone.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/compute/pass.h"
#include "models/data/batch.h"
#include "models/stage/model_part.h"
#include "models/stage/unit.h"

namespace thinwire {

/// What a stage can do beyond whole passes, one launch after the other.
struct StageTraits {
  bool token_slices = false;     ///< a pass may be a slice of the sequences: no token sees those behind it
  bool recorded_passes = false;  ///< equal passes queue the same work on the same addresses, so that they may be recorded as graphs
  bool boundary_hooks = false;   ///< at_boundaries() acts
};

/// Called in the backward pass with the gradient [own rows, hidden] of the input of each layer but the first, which it may change in place: what a
/// pipeline position that begins with this layer would send.
using BoundaryHook = std::function<void(int layer, const PassContext& pass, Tensor& gradient)>;

/// Keys and values of a micro-batch's whole sequences, by block: what its slices see of those in front of them.
using PrefixCache = std::vector<Tensor>;

/// A field of a batch with one number per position of the pass.
inline std::span<const std::int32_t> numbers_of(const Batch& batch, const char* field, const PassContext& pass) {
  const std::vector<std::int32_t>& numbers = batch.ints(field);
  TW_ASSERT(static_cast<std::int64_t>(numbers.size()) == pass.rows());
  return numbers;
}

template <typename T>
class Stage {
 public:
  /// What the forward pass of a micro-batch (or a slice of it) keeps for its backward pass. Several may be alive.
  struct Saved {
    Saved() = default;
    Saved(Saved&&) noexcept = default;
    Saved& operator=(Saved&&) noexcept = default;
    virtual ~Saved() = default;
    Tensor input;  ///< boundary(pass): made by the embedding, or received from the position in front
    PassContext pass;
    PrefixCache* prefix = nullptr;  ///< of slices: one for all slices of a micro-batch, held by the caller
  };

  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  virtual const ModelPart& part() const = 0;
  virtual StageTraits traits() const = 0;
  /// In the order of the forward pass; the same list as long as the stage lives.
  virtual const std::vector<Unit<T>>& units() const = 0;
  /// Every parameter once, in the order in which gradients are packed, norms are summed and state is listed.
  virtual const ParameterList<T>& parameters() const = 0;
  /// The table that the first and the last position of a pipeline both hold, where this part holds it; or null.
  virtual Parameter<T>* tied_table() = 0;
  /// Shape of a tensor at either end of the stage on this rank.
  virtual Shape boundary(const PassContext& pass) const = 0;

  virtual std::unique_ptr<Saved> new_saved() const = 0;
  /// Begins a pass: takes what the units read of the batch, which on the host must outlive the backward pass. UsageError when the sequences
  /// exceed the model's.
  virtual void place(const PassContext& pass, const Batch& batch, Saved& saved) const = 0;
  /// Units in order, after place(). `gradient_scale` scales the gradients of the backward pass (a micro-batch's share of the step's loss).
  virtual void forward_unit(std::size_t unit, double gradient_scale, Saved& saved) = 0;
  /// Units in reverse order. Adds to the parameters' gradients. `gradient`, of the boundary's shape: on entry that of the unit's output (not
  /// read by the head), on return of its input (undefined after the embedding).
  virtual void backward_unit(std::size_t unit, Saved& saved, Tensor& gradient) = 0;
  /// What the part hands to the next position.
  virtual Tensor& output(Saved& saved) const = 0;
  /// With the head: mean loss of the pass's micro-batch, f64 [1], where the thread computes.
  virtual const Tensor& loss(const Saved& saved) const = 0;

  /// Names of what an evaluation tells beside the loss: equal on every part of a model.
  virtual std::vector<std::string> metrics() const { return {}; }
  /// With the head, where there are metrics: f64 [metrics, 2], numerator and weight of each in the pass's micro-batch. An evaluation sums both
  /// over everything evaluated and divides.
  virtual const Tensor& measured(const Saved&) const {
    TW_ASSERT(false, "a stage with metrics must say what it measured");
    std::abort();
  }

  /// With the head: the class or the number that the model predicts of each sample of the pass's micro-batch, on the host; empty: it predicts none.
  virtual std::span<const double> predicted(const Saved&) const { return {}; }

  /// From now on; empty: none. With a hook, gradients of the tied table's two uses are summed apart, as on the first and last position of a
  /// pipeline: join_table_gradients() before the table's gradient is used.
  virtual void at_boundaries(BoundaryHook) { TW_ASSERT(false, "a stage without boundary hooks"); }
  /// Adds the look-up's share to the table's gradient where it was summed apart (once: a second call adds nothing).
  virtual void join_table_gradients() {}

  virtual void zero_gradients() {
    for (Parameter<T>* p : parameters()) p->gradient.fill_zero();
  }
  /// Layer of the unit whose backward pass completes the gradient of `parameter`: its home.
  int home_layer(const Parameter<T>* parameter) const {
    for (const Unit<T>& unit : units())
      for (const Parameter<T>* p : unit.parameters)
        if (p == parameter) return unit.layer;
    TW_ASSERT(false, "a parameter that belongs to no unit");
    return 0;
  }
};

}  // namespace thinwire
