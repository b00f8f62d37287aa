#include "models/parallel/gradient/gradient_sync.h"

#include <algorithm>
#include <limits>

#include "core/tensor_names.h"
#include "kernels/nn/elementwise.h"

namespace thinwire {
namespace {

template <typename T>
bool is_matrix(const Parameter<T>& p) {
  return p.value.shape().rank() == 2 && p.value.shape().rows() > 1;
}

template <typename T>
void pack_gradients(const ParameterList<T>& members, T* to) {
  for (Parameter<T>* p : members) {
    copy_bytes(to, p->g(), p->gradient.bytes());
    to += p->elements();
  }
}
template <typename T>
void unpack_gradients(const T* from, const ParameterList<T>& members) {
  for (Parameter<T>* p : members) {
    copy_bytes(p->g(), from, p->gradient.bytes());
    from += p->elements();
  }
}

bool in_tensor_group(const ParameterLayout& layout) {
  return std::any_of(layout.replicas().begin(), layout.replicas().end(), [](const SplitGroup& g) { return g.name == "tensor"; });
}

}  // namespace

template <typename T>
GradientSync<T>::GradientSync(const TrainConfig& config, const MeshCoordinates& at, const std::vector<LayeredParameter<T>>& parameters,
                              Parameter<T>* table, const GradientChannels& pairs, ComputeClock& clock)
    : config_(config), at_(at), pairs_(pairs), clock_(clock), table_(table) {
  const bool sums_over_tensor = config.sequence_parallel && config.mesh.tp > 1;
  MessageKey settled;  // a step after any warm-up
  settled.step = std::numeric_limits<std::int64_t>::max();
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (p->parameter == table_) continue;
    plain_.push_back(p->parameter);
    const bool late = sums_over_tensor && in_tensor_group(p->parameter->layout);
    if (late) tensor_replicated_.push_back(p->parameter);
    if (config.mesh.dp == 1) continue;
    const bool coded = is_matrix(*p->parameter) && pairs_.gradient && pairs_.gradient->codes(p->layer, at.pp, settled);
    const bool large = static_cast<double>(p->parameter->value.bytes()) >= config.bucket_cap_mb * (1 << 20);
    const bool stacked = coded && config.compress.at(TrafficClass::dp_gradient).stacked;
    add(*p, coded || large || (config.zero_stage > 0 && is_matrix(*p->parameter)), stacked, late);
  }
  for (Message& m : messages_) {
    std::int64_t elements = 0;
    for (Parameter<T>* p : m.members) elements += p->elements();
    const std::int64_t columns = m.stacked ? m.members[0]->value.shape().columns() : 1;
    if (m.members.size() > 1) m.flat.reshape(m.stacked ? Shape{elements / columns, columns} : Shape{elements}, dtype_of<T>);
    if (!m.sharded) continue;
    Parameter<T>& p = *m.members[0];
    m.rows = shard_rows(p.value.shape().rows(), at.dp, config.mesh.dp);
    m.shard.reshape({m.rows.count, p.value.shape().columns()}, dtype_of<T>);
    m.master.reshape(m.shard.shape(), dtype_of<T>);
  }
  adopt_weights();
}

template <typename T>
void GradientSync<T>::add(const LayeredParameter<T>& p, bool alone, bool stacked, bool late) {
  const bool sharded = config_.zero_stage > 0 && is_matrix(*p.parameter);
  const Shape& shape = p.parameter->value.shape();
  // Packed together: neighbours in the backward pass that are ready at about the same time.
  Message* open = nullptr;
  if (stacked)
    for (Message& m : messages_)
      if (m.stacked && m.late == late && m.members[0]->value.shape() == shape) open = &m;
  if (!alone)
    for (Message& m : messages_) {
      std::int64_t bytes = 0;
      for (Parameter<T>* member : m.members) bytes += static_cast<std::int64_t>(member->value.bytes());
      const bool packs = m.late == late && m.name.rfind("bucket", 0) == 0;
      if (packs && static_cast<double>(bytes + static_cast<std::int64_t>(p.parameter->value.bytes())) <= config_.bucket_cap_mb * (1 << 20))
        open = &m;  // the latest that has room
    }
  if (open == nullptr) {
    open = &messages_.emplace_back();
    const std::string stage = ".stage" + std::to_string(at_.pp);
    open->name = stacked ? "stack" + shape.to_string() + stage : alone ? p.parameter->name() : "bucket" + std::to_string(messages_.size()) + stage;
    open->late = late;
    open->sharded = sharded;
    open->stacked = stacked;
  }
  open->members.push_back(p.parameter);
  open->layer = p.layer;
  owner_of_layer_.emplace_back(p.layer, open);
}

template <typename T>
std::vector<OptimizerPart<T>> GradientSync<T>::optimizer_parts() {
  std::vector<OptimizerPart<T>> parts;
  const bool first_replica = at_.dp == 0;
  for (Parameter<T>* p : plain_) {
    OptimizerPart<T> part{p, {0, -1}, nullptr, p->layout.counts_in_norm() && first_replica};
    for (Message& m : messages_)
      if (m.sharded && m.members[0] == p) {
        part.rows = m.rows;
        part.master = &m.master;
        part.counts = p->layout.counts_in_norm();
      }
    parts.push_back(part);
  }
  if (table_) parts.push_back({table_, {0, -1}, nullptr, table_->layout.counts_in_norm() && first_replica});
  return parts;
}

template <typename T>
void GradientSync<T>::adopt_weights() {
  for (Message& m : messages_)
    if (m.sharded)
      copy_bytes(m.master.view().data(), m.members[0]->w() + m.rows.first * m.master.shape().columns(), m.master.bytes());
}

template <typename T>
void GradientSync<T>::begin_step(std::int64_t step) {
  step_ = step;
  for (Message& m : messages_) {
    m.open = static_cast<int>(m.members.size());
    m.started = false;
  }
}

template <typename T>
MessageKey GradientSync<T>::key_of(const std::string& name) const {
  MessageKey key;
  key.tensor = tensor_id(name);
  key.step = step_;
  return key;
}

template <typename T>
TensorView GradientSync<T>::view_of(Message& m) {
  if (m.members.size() > 1) return m.flat.view();
  Parameter<T>& p = *m.members[0];
  return p.gradient.view();
}

template <typename T>
bool GradientSync<T>::compares() const {
  return config_.error_interval > 0 && step_ % config_.error_interval == 0;
}

template <typename T>
void GradientSync<T>::wait(Operation& operation) {
  if (!operation.valid()) return;
  const std::int64_t begin = now_ns();
  operation.wait();
  const std::int64_t end = now_ns();
  waited_us += static_cast<double>(end - begin) * 1e-3;
  Trace::add(TraceCategory::wait, "gradients", begin, end);
}

template <typename T>
bool GradientSync<T>::of_matrices(const Message& m) {
  return m.stacked || (m.members.size() == 1 && is_matrix(*m.members[0]));
}

template <typename T>
void GradientSync<T>::start(Message& m) {
  m.started = true;
  if (m.members.size() > 1)
    clock_.run("pack gradients", m.layer, -1, [&] { pack_gradients(m.members, data_of<T>(m.flat)); });
  MessageKey key = key_of(m.name);
  if (m.stacked) key.stack = static_cast<std::int32_t>(m.members.size());
  // A packed bucket holds what the rule does not cover: it always travels dense.
  ChannelPair& pair = pair_of(m);
  Channel& channel = of_matrices(m) ? pair.at(m.layer, at_.pp, key) : pair.dense();
  const TensorView view = view_of(m);
  m.operation = m.sharded ? channel.reduce_scatter(view, m.shard.view(), key) : channel.all_reduce(view, view, key);
}

template <typename T>
void GradientSync<T>::layer_done(int layer) {
  if (!config_.overlap || compares()) return;
  for (auto& [of, message] : owner_of_layer_)
    if (of == layer) --message->open;
  // Strictly in order, so that all replicas start the same operations in the same order.
  for (Message& m : messages_) {
    if (m.started || m.late || (m.stacked && m.open > 0)) continue;  // others need not wait for a stack's last matrix
    if (m.open > 0) break;
    start(m);
  }
}

template <typename T>
void GradientSync<T>::complete(Message& m) {
  wait(m.operation);
  m.operation = {};
  if (m.sharded) {
    Parameter<T>& p = *m.members[0];
    clock_.run("unpack gradients", m.layer, -1, [&] {
      copy_bytes(p.g() + m.rows.first * m.shard.shape().columns(), m.shard.view().data(), m.shard.bytes());
    });
  } else if (m.members.size() > 1) {
    clock_.run("unpack gradients", m.layer, -1, [&] { unpack_gradients(data_of<T>(m.flat), m.members); });
  }
}

// Under sequence parallelism each rank saw its own tokens only.
template <typename T>
void GradientSync<T>::sum_over_tensor_group() {
  if (tensor_replicated_.empty()) return;
  std::int64_t elements = 0;
  for (Parameter<T>* p : tensor_replicated_) elements += p->elements();
  T* packed = shaped<T>(tensor_sum_, {elements});
  clock_.run("pack replicated gradients", -1, -1, [&] { pack_gradients(tensor_replicated_, packed); });
  Operation sum = pairs_.tensor_control->all_reduce(tensor_sum_.view(), tensor_sum_.view(), key_of("replicated gradients"));
  wait(sum);
  clock_.run("unpack replicated gradients", -1, -1, [&] { unpack_gradients(packed, tensor_replicated_); });
}

template <typename T>
void GradientSync<T>::finish() {
  sum_over_tensor_group();
  std::vector<Message*> compared;
  for (Message& m : messages_) {
    if (m.started) continue;
    if constexpr (std::is_same_v<T, float>) {
      // Steps whose errors are measured start every message here, one by one, so that the input can be kept.
      if (compares() && !m.sharded && m.members.size() == 1 && is_matrix(*m.members[0]) &&
          pair_of(m).codes(m.layer, at_.pp, key_of(m.name))) {
        compared_.reshape(m.members[0]->gradient.shape());
        copy_bytes(compared_.view().data(), m.members[0]->g(), compared_.bytes());
        start(m);
        complete(m);
        pair_of(m).compare_reduction(compared_.view(), m.members[0]->gradient.view(), key_of(m.name));
        continue;
      }
    }
    start(m);
  }
  start_embedding();
  for (Message& m : messages_)
    if (m.operation.valid()) complete(m);
  finish_embedding();
}

// Optimus-CC's released reducer leaves zeros where the table is, and its caller copies the whole buffer back: with the fused
// synchronisation a compressed stage then contributes nothing to the table's gradient (papers/optimus_cc.md section 7, defect 2).
template <typename T>
bool GradientSync<T>::reducer_zeroes_table() const {
  if (config_.form != Form::released || config_.embedding_sync != "fused" || !pairs_.gradient || !pairs_.gradient->coded()) return false;
  if (!pairs_.gradient->coded()->codec().codec->traits().zeroes_uncompressed) return false;
  return std::any_of(messages_.begin(), messages_.end(), [&](const Message& m) {
    return of_matrices(m) && pairs_.gradient->codes(m.layer, at_.pp, key_of(m.name));
  });
}

template <typename T>
void GradientSync<T>::start_embedding() {
  if (!table_ || !pairs_.embedding_dp) return;
  if (reducer_zeroes_table()) table_->gradient.fill_zero();
  const MessageKey key = key_of("embedding.token");
  const TensorView view = table_->gradient.view();
  table_operation_ = pairs_.embedding_dp->at(-1, 0, key).all_reduce(view, view, key);
}

template <typename T>
void GradientSync<T>::finish_embedding() {
  if (!table_) return;
  wait(table_operation_);
  table_operation_ = {};
  const MessageKey key = key_of("embedding.token");
  const TensorView view = table_->gradient.view();
  if (pairs_.embedding_stages) {
    Operation second = pairs_.embedding_stages->at(-1, 0, key).all_reduce(view, view, key);
    wait(second);
  }
  if (config_.mesh.dp > 1)
    clock_.run("average table gradient", -1, -1, [&] {
      nn::scale_in_place<T>(table_->elements(), static_cast<T>(1.0 / config_.mesh.dp), table_->g());
    });
}

template <typename T>
void GradientSync<T>::gather_weights() {
  for (Message& m : messages_) {
    if (!m.sharded) continue;
    Parameter<T>& p = *m.members[0];
    const MessageKey key = key_of(m.name);
    m.operation = pairs_.gather->at(m.layer, at_.pp, key).all_gather(m.master.view(), p.value.view(), key);
  }
  for (Message& m : messages_)
    if (m.operation.valid()) {
      wait(m.operation);
      m.operation = {};
    }
}

template <typename T>
void GradientSync<T>::progress() {
  for (ChannelPair* pair : {pairs_.gradient, pairs_.scatter})
    if (pair) pair->progress();
}

template class GradientSync<float>;
template class GradientSync<double>;

}  // namespace thinwire
