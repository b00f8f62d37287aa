#include "models/parallel/gradient/gradient_sync.h"

#include <algorithm>
#include <limits>

#include "core/tensor_names.h"
#include "kernels/nn/elementwise.h"
#include "models/parallel/gradient/packed_gradients.h"
#include "models/parallel/gradient/reduction_wait.h"

namespace thinwire {
namespace {

constexpr const char *gradient_name = "dp_gradient", *scatter_name = "grad_reduce_scatter";

template <typename T>
const OwnedPart<T>* table_of(const ParameterStore<T>& store) {
  for (const OwnedPart<T>& part : store.exchanged())
    if (part.tied_table) return &part;
  return nullptr;
}

}  // namespace

std::vector<ChannelSpec> gradient_channels(const TrainConfig& config, ProcessMesh& mesh) {
  ChannelSpec spec;
  spec.group = "within_replica", spec.average = true;
  std::vector<ChannelSpec> specs;
  spec.name = gradient_name, spec.traffic = TrafficClass::dp_gradient;
  specs.push_back(spec);
  spec.name = scatter_name, spec.traffic = TrafficClass::grad_reduce_scatter;
  if (config.shards_gradients())
    for (ChannelSpec& step : row_exchange_channels(spec, config.mesh.data())) specs.push_back(std::move(step));
  for (ChannelSpec& of_table : tied_table_channels(config, mesh, !config.shards_table())) specs.push_back(std::move(of_table));
  return specs;
}

std::set<TrafficClass> gradient_classes(const TrainConfig& config) {
  return {store_info(config.zero_stage).shards_gradients ? TrafficClass::grad_reduce_scatter : TrafficClass::dp_gradient, TrafficClass::embedding};
}

template <typename T>
GradientSync<T>::GradientSync(const TrainConfig& config, ProcessMesh& mesh, ParameterStore<T>& store, const NamedChannels& channels,
                              Channel& tensor_control, ComputeClock& clock, const std::function<bool(const OwnedPart<T>&)>& reduces)
    : config_(config),
      store_(store),
      at_(mesh.coordinates()),
      gradient_(find_channel(channels, gradient_name)),
      scatter_(channels, scatter_name, {mesh.shape().data(), mesh.data_coordinates()}, at_.pp),
      clock_(clock),
      replicated_("replicated gradients", config.sequence_parallel && config.mesh.tp > 1, tensor_control, clock),
      replicated_parts_("replicated parts of gradients", config.sequence_parallel && config.mesh.tp > 1, tensor_control, clock),
      table_(table_of(store), channels, config.shards_table() ? 1 : config.mesh.data().within_replica(), clock) {
  std::int64_t all = 0;
  for (const OwnedPart<T>& part : store.exchanged()) all += part.parameter->elements();
  bucket_bytes_ = static_cast<double>(config.bucket_bytes(all * static_cast<std::int64_t>(sizeof(T))));
  MessageKey settled;  // a step after any warm-up
  settled.step = std::numeric_limits<std::int64_t>::max();
  for (const OwnedPart<T>& part : store.parts())
    if (part.of_flat) replicated_parts_.add_part(*part.parameter, part.gradient);
  for (const OwnedPart<T>& part : store.exchanged()) {
    if (part.tied_table && !part.sharded) continue;
    Parameter<T>& p = *part.parameter;
    const bool late = replicated_.add(p);
    if (!gradient_ || (reduces && !reduces(part))) continue;
    const bool coded = is_matrix(p) && gradient_->codes(part.rule_layer, at_.pp, settled, p.elements());
    const bool large = static_cast<double>(p.elements()) * sizeof(T) >= bucket_bytes_;
    const bool stacked = coded && config.compress.at(TrafficClass::dp_gradient).stacked;
    add(part, coded || large || part.sharded, stacked, late);
  }
  for (GradientBucket<T>& b : buckets_) {
    std::int64_t elements = 0;
    for (Parameter<T>* p : b.members) elements += p->elements();
    const std::int64_t columns = b.stacked ? b.members[0]->shape().columns() : 1;
    if (b.members.size() > 1) b.flat.reshape(b.stacked ? Shape{elements / columns, columns} : Shape{elements}, dtype_of<T>);
    if (b.sharded && !b.lent()) b.shard.reshape(b.sharded->weights.shape(), dtype_of<T>);
  }
}

template <typename T>
void GradientSync<T>::add(const OwnedPart<T>& part, bool alone, bool stacked, bool late) {
  Parameter<T>& p = *part.parameter;
  const Shape shape = p.shape();
  // Packed together: neighbours in the backward pass that are ready at about the same time.
  GradientBucket<T>* open = nullptr;
  if (stacked)
    for (GradientBucket<T>& b : buckets_)
      if (b.stacked && b.late == late && b.members[0]->shape() == shape) open = &b;
  if (!alone)
    for (GradientBucket<T>& b : buckets_) {
      std::int64_t bytes = 0;
      for (Parameter<T>* member : b.members) bytes += static_cast<std::int64_t>(member->gradient.bytes());
      const bool packs = b.late == late && b.name.rfind("bucket", 0) == 0;
      if (packs && static_cast<double>(bytes + static_cast<std::int64_t>(p.gradient.bytes())) <= bucket_bytes_)
        open = &b;  // the latest that has room
    }
  if (open == nullptr) {
    open = &buckets_.emplace_back();
    const std::string stage = ".stage" + std::to_string(at_.pp);
    open->name = stacked ? "stack" + shape.to_string() + (late ? ".late" : "") + stage : alone ? p.name() : "bucket" + std::to_string(buckets_.size()) + stage;
    open->late = late;
    if (part.sharded) open->sharded = &part;
    open->stacked = stacked;
  }
  open->members.push_back(&p);
  open->layer = part.rule_layer;
  owner_of_unit_.emplace_back(part.unit, open);
}

template <typename T>
void GradientSync<T>::begin_step(std::int64_t step) {
  step_ = step;
  for (GradientBucket<T>& b : buckets_) {
    b.open = static_cast<int>(b.members.size());
    b.started = false;
    b.arrived = 0;
  }
}

template <typename T>
MessageKey GradientSync<T>::key_of(const std::string& name) const {
  MessageKey key;
  key.tensor = tensor_id(name);
  key.step = step_;
  // Replicas' gradients are averaged, a tied table's of two stages added: none of them may round like another.
  key.sender = static_cast<std::uint64_t>(at_.dp / config_.mesh.data().within_replica() * config_.mesh.pp + at_.pp);
  return key;
}

template <typename T>
TensorView GradientSync<T>::view_of(GradientBucket<T>& b) {
  return b.members.size() > 1 ? b.flat.view() : b.members[0]->gradient.view();
}

template <typename T>
bool GradientSync<T>::compares() const {
  return config_.error_interval > 0 && step_ % config_.error_interval == 0;
}

template <typename T>
bool GradientSync<T>::of_matrices(const GradientBucket<T>& b) {
  return b.stacked || (b.members.size() == 1 && is_matrix(*b.members[0]));
}

template <typename T>
void GradientSync<T>::start(GradientBucket<T>& b, int micro) {
  b.started = true;
  if (b.members.size() > 1)
    clock_.run("pack gradients", b.layer, -1, [&] { pack_gradients(b.members, data_of<T>(b.flat)); });
  MessageKey key = key_of(b.name);
  key.micro_batch = micro;
  if (b.stacked) key.stack = static_cast<std::int32_t>(b.members.size());
  const TensorView view = view_of(b);
  if (b.sharded) {
    if (b.lent() && b.arrived > 0) b.shard = spare_.take(b.sharded->weights.shape(), dtype_of<T>);
    b.scattering = scatter_.reduce(b.layer, key, view, b.lent() && b.arrived == 0 ? b.sharded->gradient : b.shard.view());
    return;
  }
  // A packed bucket holds what the rule does not cover: it always travels dense.
  Channel& channel = of_matrices(b) ? gradient_->at(b.layer, at_.pp, key, b.members[0]->elements()) : gradient_->dense();
  b.operation = channel.all_reduce(view, view, key);
}

template <typename T>
void GradientSync<T>::expect(int unit) {
  for (GradientBucket<T>& b : buckets_)
    if (b.lent() && b.scattering && std::ranges::find(b.sharded->adders, unit) != b.sharded->adders.end()) complete(b);
  store_.lend_gradients(unit);
}

template <typename T>
void GradientSync<T>::unit_done(int unit, int micro, bool last) {
  scatter_.progress();
  complete_lent();
  for (auto& [of, bucket] : owner_of_unit_)
    if (of == unit && bucket->lent() && !bucket->late) start(*bucket, micro);
  if (!last || !config_.overlap || compares()) return;
  for (auto& [of, bucket] : owner_of_unit_)
    if (of == unit) --bucket->open;
  // Replicas walk through one list of units, so they start the same operations in the same order, whatever is complete first. None waits for another: the vectors of all
  // layers, in one bucket where matrices go by themselves, are complete with the first layer's.
  for (GradientBucket<T>& b : buckets_)
    if (!b.started && !b.late && b.open == 0) start(b);
}

template <typename T>
void GradientSync<T>::complete(GradientBucket<T>& b) {
  if (b.scattering)
    scatter_.wait(std::exchange(b.scattering, {}), "gradients", waited_us);
  else
    wait_reduction(b.operation, waited_us);
  if (b.lent()) {
    if (b.arrived++ > 0) {
      clock_.run("add gradients", b.layer, -1, [&] { nn::add_into<T>(b.shard.elements(), data_of<T>(b.shard), static_cast<T*>(b.sharded->gradient.data())); });
      spare_.give(b.shard);
    }
    store_.gradient_reduced(*b.sharded);
  } else if (b.sharded) {
    clock_.run("unpack gradients", b.layer, -1, [&] { copy_bytes(b.sharded->gradient.data(), b.shard.view().data(), b.shard.bytes()); });
  } else if (b.members.size() > 1) {
    clock_.run("unpack gradients", b.layer, -1, [&] { unpack_gradients<T>(data_of<T>(b.flat), b.members); });
  }
}

template <typename T>
void GradientSync<T>::complete_lent() {
  for (GradientBucket<T>& b : buckets_)
    if (b.lent() && b.scattering) complete(b);
}

template <typename T>
void GradientSync<T>::finish() {
  replicated_.sum(step_, waited_us);
  for (GradientBucket<T>& b : buckets_) {
    if (b.started) continue;
    if constexpr (std::is_same_v<T, float>) {
      // Steps whose errors are measured start every message here, one by one, so that the input can be kept.
      if (compares() && !b.sharded && b.members.size() == 1 && is_matrix(*b.members[0]) && gradient_->codes(b.layer, at_.pp, key_of(b.name), b.members[0]->elements())) {
        compared_.reshape(b.members[0]->gradient.shape());
        copy_bytes(compared_.view().data(), b.members[0]->g(), compared_.bytes());
        start(b);
        complete(b);
        gradient_->compare_reduction(compared_.view(), b.members[0]->gradient.view(), key_of(b.name));
        continue;
      }
    }
    start(b);
  }
  if (table_.starts() && reducer_zeroes_table()) table_.table()->parameter->gradient.fill_zero();
  table_.start(step_);
  for (GradientBucket<T>& b : buckets_)
    if (b.scattering || b.operation.valid()) complete(b);
  replicated_parts_.sum(step_, waited_us);
  table_.finish(waited_us);
}

// Optimus-CC's released reducer leaves zeros where the table is, and its caller copies the whole buffer back: with the fused
// synchronisation a compressed stage then contributes nothing to the table's gradient (docs/papers/optimus_cc.md, "Defects of the released
// code" 2).
template <typename T>
bool GradientSync<T>::reducer_zeroes_table() const {
  if (config_.form != Form::released || config_.embedding_sync != "fused" || !gradient_ || !gradient_->coded()) return false;
  if (!gradient_->coded()->codec().codec->traits().zeroes_uncompressed) return false;
  return std::any_of(buckets_.begin(), buckets_.end(), [&](const GradientBucket<T>& b) {
    return of_matrices(b) && gradient_->codes(b.layer, at_.pp, key_of(b.name), b.members[0]->elements());
  });
}

template class GradientSync<float>;
template class GradientSync<double>;

}  // namespace thinwire
