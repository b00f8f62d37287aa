// Where the values and gradients of parameters lie: whole on every data-parallel rank, split over them, or gathered for a while. Only a store
// knows where an element is; optimizers update the parts it shows, executors ask it to gather units (models/stage/unit_events.h), checkpoints save its
// slots. A store registers itself for a zero stage (Rajbhandari et al. 2020, ZeRO) and is chosen by --zero-stage.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/compute/compute_clock.h"
#include "models/store/owned_part.h"
#include "models/stage/unit.h"
#include "models/stage/unit_events.h"
#include "models/parallel/channels/channel_spec.h"
#include "models/parallel/schedule/lower.h"

namespace thinwire {

struct TrainConfig;
class ProcessMesh;

/// Of the layout of flat parameters (flat_store.h).
struct FlatOptions {
  std::int64_t alone_from = 0;  ///< FlatRule
  double padding = 0;           ///< what elements hold that are no parameter's: tests put NaN there, which must reach nothing
};

/// `parameters` in the order of the forward pass. `table`: the tied table where first and last stage both hold it, else null; it stays whole, unless `shards_table`.
template <typename T>
struct StoreContext {
  /// A table that the store does not split.
  bool keeps_whole(const Parameter<T>* p) const { return p == table && !shards_table; }

  const TrainConfig& config;
  ProcessMesh& mesh;
  std::vector<UnitParameter<T>> parameters;
  std::vector<Unit<T>> units;  ///< with what the passes of each read
  Parameter<T>* table = nullptr;
  const NamedChannels& channels;
  ComputeClock& clock;
  bool node_shards = false;  ///< TrainConfig::zero_node_shards
  std::optional<DType> param_dtype = {};  ///< TrainConfig::param_dtype; what `channels` gather in
  bool shards_table = false;  ///< TrainConfig::shards_table(): a matrix like others, whose rows' gradients the two stages add up afterwards
  std::optional<FlatOptions> flat = {};  ///< TrainConfig::zero_layout; without: by rows
};

template <typename T>
class ParameterStore : public UnitGathers {
 public:
  /// In the order in which the backward pass completes gradients; the tied table last. Views stay valid as long as the store.
  virtual const std::vector<OwnedPart<T>>& parts() const = 0;
  /// What replicas reduce gradients of and gather values of, in the same order: the parts themselves, or the flat parameters that these are pieces of.
  virtual const std::vector<OwnedPart<T>>& exchanged() const { return parts(); }
  /// The weights of all parts are those of `version`, the number of updates so far. Whole values follow, now or when they are gathered.
  virtual void updated(std::int64_t version) = 0;
  /// A checkpoint filled the slots with the state after `version` updates.
  virtual void loaded(std::int64_t version) = 0;
  std::int64_t version() const { return version_; }
  /// Weights of this rank; what an update remembers is the policy's.
  virtual std::vector<StateSlot> state() = 0;
  // Stores whose values are always whole have nothing to gather. A gather of values older than version() is a RuntimeFailure.
  void unshard(int /*unit*/) override {}
  void wait_unshard(int /*unit*/) override {}
  void reshard(int /*unit*/) override {}
  // Of `lent` parts; nothing where whole gradients stay.
  /// Backward passes of the unit will add to its gradients: zeros, or what they added since the last gradient_reduced().
  virtual void lend_gradients(int /*unit*/) {}
  /// The part's rows have arrived, and the whole gradient's memory may go.
  virtual void gradient_reduced(const OwnedPart<T>& /*part*/) {}
  double waited_us = 0;  ///< blocked on gathers since it was reset

 protected:
  std::int64_t version_ = 0;
};

/// Bytes of this rank in closed form, in elements of the parameters' type.
struct StoreFootprint {
  std::int64_t weights = 0, gradients = 0;
  std::int64_t kept = 0;   ///< besides: full-precision rows, reduced gradients
  std::int64_t owned = 0;  ///< elements that the optimizer keeps state for
  std::int64_t in_place = 0;  ///< of them those that are updated where passes read them: with --param-dtype they have memory of their own
};

struct StoreInfo {
  int zero_stage = 0;
  std::string summary = {};  ///< one line
  std::string source = {};   ///< where the method comes from
  bool gathers = false;  ///< values are whole only between unshard and reshard: a lowered schedule says when
  KeepGathered keep = KeepGathered::step;  ///< then, how long where the run does not say
  bool shards_gradients = false;  ///< gradients of matrices travel as grad_reduce_scatter
  ReduceWhen reduce = ReduceWhen::last;  ///< when, where the run does not say
  /// Memory of matrices is lent for a while: that of their gradients, and where it gathers that of their values. footprint() has none of it,
  /// estimates add its peak.
  bool lends = false;
  std::set<TrafficClass> classes = {};  ///< that it sends itself
  std::function<std::vector<ChannelSpec>(const TrainConfig&, ProcessMesh&)> channels = {};
  std::function<std::unique_ptr<ParameterStore<float>>(const StoreContext<float>&)> make_f32 = {};
  std::function<std::unique_ptr<ParameterStore<double>>(const StoreContext<double>&)> make_f64 = {};
  /// Of a rank with so many elements in matrices that are split over `ranks` and `whole` others.
  std::function<StoreFootprint(std::int64_t split, std::int64_t whole, int ranks)> footprint = {};
  /// UsageError for what the store does not go with; empty: everything.
  std::function<void(const TrainConfig&)> check = {};
};

/// `static const bool registered = register_store<WholeStore>({.zero_stage = 0, ...});`
bool register_store(StoreInfo info);
template <template <typename> class Store>
bool register_store(StoreInfo info) {
  info.make_f32 = [](const StoreContext<float>& c) { return std::make_unique<Store<float>>(c); };
  info.make_f64 = [](const StoreContext<double>& c) { return std::make_unique<Store<double>>(c); };
  return register_store(std::move(info));
}
/// UsageError listing what exists.
const StoreInfo& store_info(int zero_stage);
std::vector<const StoreInfo*> all_stores();

template <typename T>
std::unique_ptr<ParameterStore<T>> make_store(const StoreInfo& info, const StoreContext<T>& context) {
  if constexpr (std::is_same_v<T, double>)
    return info.make_f64(context);
  else
    return info.make_f32(context);
}

}  // namespace thinwire
