// What an optimizer does with gradients: how they are reduced over replicas, what is clipped, how weights change, what is exchanged and when,
// and what it remembers. The trainer drives one of these and names none. A policy registers itself by name and is chosen by
// --optimizer NAME[:key=value,...]. An outer loop is a policy that drives another one, which stands before it: --optimizer NAME[:...]+LOOP[:...].
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/channel/channel.h"
#include "models/parallel/channels/channel_spec.h"
#include "models/store/parameter_store.h"
#include "models/stage/unit_events.h"
#include "models/update/norm_scope.h"

namespace thinwire {

/// One update.
struct StepContext {
  std::int64_t step = 0;  ///< number of the step, from 0
  double learning_rate = 0;
  double gradient_norm = 0;       ///< within the policy's scope
  double gradient_scale = 1;      ///< what clipping multiplies gradients by
};

struct UpdateExpression;

/// What a policy works with; all of it outlives the policy.
template <typename T>
struct UpdateContext {
  const TrainConfig& config;
  const Parameters& options;  ///< of the policy's own, as its UpdateInfo says
  ProcessMesh& mesh;
  ParameterStore<T>& store;
  const NamedChannels& channels;
  Channel& tensor_control;  ///< exact, over the tensor group
  ComputeClock& clock;
  const UpdateExpression* inner = nullptr;  ///< of an outer loop: what it drives
};

template <typename T>
class UpdatePolicy : public UnitReductions {
 public:
  virtual void begin_step(std::int64_t step) = 0;
  /// After the last backward pass: starts what is left and waits. The gradients of the store's parts are then what the policy updates with.
  virtual void finish_reduction() = 0;
  virtual NormScope clip_scope() const { return NormScope::all; }
  /// *sum (f64, where the thread computes) += this rank's share of the squared norm: over the ranks of the scope each element counts once (where
  /// it is `none`, over all ranks).
  virtual void add_sum_of_squares(double* sum) const = 0;
  /// RuntimeFailure naming the first parameter here whose gradient is not finite; returns when all are.
  virtual void check_finite() const = 0;
  /// Changes the weights of the store's parts. May communicate. Knows the number of the step, so also what happens every so many.
  virtual void finish_step(const StepContext& step) = 0;
  /// Around a validation: a policy that evaluates other weights than it trains puts them into the store's parts, and takes them back. Each says
  /// whether it changed the parts.
  virtual bool begin_evaluation() { return false; }
  virtual bool end_evaluation() { return false; }
  virtual std::vector<StateSlot> state() = 0;
  /// The store's slots as a checkpoint shall hold them: where replicas train apart, the weights of one are not the run's.
  virtual std::vector<StateSlot> weights(std::vector<StateSlot> of_store) { return of_store; }
  /// What a checkpoint keeps besides the slots, equal on all ranks; a number that has its first value may be left out.
  virtual std::map<std::string, double> numbers() const { return {}; }
  /// Of a checkpoint, before loaded(): those that are missing have their first value.
  virtual void set_numbers(const std::map<std::string, double>& /*numbers*/) {}
  /// A checkpoint filled the slots with the state after `steps` steps. `anew`: but for slots that each replica has of its own, which begin again.
  virtual void loaded(std::int64_t /*steps*/, bool /*anew*/) {}
  /// Of a policy whose moments each replica has of its own (in an outer loop), after loaded(): they begin again behind these steps.
  virtual void moments_anew(std::int64_t /*steps*/) {}
  /// Numbers about the updates since the last call, for a validation to tell beside the loss; equal on all ranks.
  struct Told {
    std::string name;
    double value = 0;
  };
  virtual std::vector<Told> told() { return {}; }
  double waited_us = 0;  ///< blocked on its messages since it was reset
};

struct UpdateInfo {
  std::string name = {};
  std::string summary = {};  ///< one line
  std::string source = {};   ///< where the maths comes from
  std::vector<ParameterSpec> parameters = {};
  /// Of the data axis, the factors that it tells apart ("replica", "node"): --dp-replicas, --dp-nodes above 1 are refused without.
  std::set<std::string> factors = {};
  bool reduces_every_micro_batch = false;  ///< reduce() is wanted after each, not only after the last
  /// Sums over the ranks of a replica alone, and needs nothing of other replicas: an outer loop may drive it.
  bool within_replica = false;
  bool drives_another = false;  ///< an outer loop
  bool keeps_together = false;  ///< of a loop: replicas do not train apart in it, so it drives every optimizer
  int state_per_element = 0;  ///< numbers that it keeps for each element that a rank owns
  std::function<double(const Parameters&)> more_per_element = {};  ///< and besides, by its options
  std::function<double(const Parameters&)> state_per_layer_element = {};  ///< of layers' matrices; empty: as many as of all others
  /// Of a loop, by its options: the share of the weights in its largest message; empty: all of them.
  std::function<double(const Parameters&)> message_share = {};
  /// Classes that it sends and a compression rule may cover.
  std::function<std::set<TrafficClass>(const TrainConfig&)> classes = {};
  std::function<std::vector<ChannelSpec>(const TrainConfig&, ProcessMesh&)> channels = {};
  std::function<std::unique_ptr<UpdatePolicy<float>>(const UpdateContext<float>&)> make_f32 = {};
  std::function<std::unique_ptr<UpdatePolicy<double>>(const UpdateContext<double>&)> make_f64 = {};
  /// UsageError for what it does not go with; empty: everything.
  std::function<void(const TrainConfig&)> check = {};
};

/// `const bool registered = register_update<MyPolicy>({.name = "mine", ...});`
bool register_update(UpdateInfo info);
template <template <typename> class Policy>
bool register_update(UpdateInfo info) {
  info.make_f32 = [](const UpdateContext<float>& c) { return std::make_unique<Policy<float>>(c); };
  info.make_f64 = [](const UpdateContext<double>& c) { return std::make_unique<Policy<double>>(c); };
  return register_update(std::move(info));
}
/// Sorted by name.
std::vector<const UpdateInfo*> all_updates();

/// A policy's name and options, checked, and what it drives.
struct UpdateExpression {
  const UpdateInfo* info = nullptr;
  Parameters options;
  std::shared_ptr<const UpdateExpression> inner = nullptr;  ///< of an outer loop; else null

  // Of both together.
  std::string name() const;  ///< "adamw+diloco"
  std::set<std::string> factors() const;
  bool reduces_every_micro_batch() const;
  double state_per_element() const;
  double state_per_layer_element() const;  ///< of matrices of layers
  std::set<TrafficClass> classes(const TrainConfig& config) const;
  std::vector<ChannelSpec> channels(const TrainConfig& config, ProcessMesh& mesh) const;
  void check(const TrainConfig& config) const;
};
/// NAME[:key=value,...][+LOOP[:key=value,...]]. UsageError listing what exists.
UpdateExpression parse_update(const std::string& text);

/// `update` and what the context refers to outlive the policy.
template <typename T>
std::unique_ptr<UpdatePolicy<T>> make_update_policy(const UpdateExpression& update, const TrainConfig& config, ProcessMesh& mesh, ParameterStore<T>& store, const NamedChannels& channels,
                                                    Channel& tensor_control, ComputeClock& clock) {
  const UpdateContext<T> context{config, update.options, mesh, store, channels, tensor_control, clock, update.inner.get()};
  if constexpr (std::is_same_v<T, double>)
    return update.info->make_f64(context);
  else
    return update.info->make_f32(context);
}

}  // namespace thinwire
