#include "models/parallel/tensor/tensor_grid.h"

#include <algorithm>
#include <utility>

#include "collectives/process/rank_clock.h"
#include "core/tensor_names.h"
#include "models/parallel/tensor/tensor_parallel.h"

namespace thinwire {
namespace {

constexpr std::array uses = {GridUse::activation, GridUse::gradient, GridUse::weight, GridUse::weight_gradient,
                             GridUse::look_up,    GridUse::exact,    GridUse::maximum};

TrafficClass class_of(GridUse use) {
  switch (use) {
    case GridUse::activation: return TrafficClass::tp_forward;
    case GridUse::gradient: return TrafficClass::tp_backward;
    case GridUse::weight: return TrafficClass::tp_weight;
    case GridUse::weight_gradient: return TrafficClass::tp_weight_gradient;
    default: return TrafficClass::control;
  }
}

CompressRule rule_of(const GridOptions& options, TrafficClass traffic) {
  const auto found = options.compress.find(traffic);
  return found == options.compress.end() ? CompressRule{} : found->second;
}

void check_rule(TrafficClass traffic, const CompressRule& rule, Form form) {
  if (!rule.active()) return;
  const CodecStack stack = make_codec(rule.codec, form);
  const std::string name = "compress." + name_of(traffic) + " = " + rule.codec;
  if (stack.codec->traits().backward != BackwardRule::straight_through)
    throw UsageError(name + ": a grid's tensors are cut and summed along the way, so the gradient must be that of the decoded tensor; choose "
                            "a codec with a straight-through gradient (quantize, cast)");
  const bool sent_again = traffic == TrafficClass::tp_forward || traffic == TrafficClass::tp_weight;
  if (sent_again && (stack.codec->traits().stateful || !stack.wrappers.empty()))
    throw UsageError(name + ": what a grid gathers in the forward pass it gathers again in the backward pass, and both must give the same bits; "
                            "choose a codec without state and without wrappers");
}

}  // namespace

void check_grid_rules(const std::map<TrafficClass, CompressRule>& rules, Form form) {
  for (const TrafficClass traffic :
       {TrafficClass::tp_forward, TrafficClass::tp_backward, TrafficClass::tp_weight, TrafficClass::tp_weight_gradient})
    if (const auto rule = rules.find(traffic); rule != rules.end()) check_rule(traffic, rule->second, form);
}

std::string name_of(GatherPolicy policy) {
  switch (policy) {
    case GatherPolicy::again: return "again";
    case GatherPolicy::again_literally: return "again-literally";
    case GatherPolicy::keep: return "keep";
  }
  return {};
}

GatherPolicy parse_gather_policy(const std::string& text) {
  for (const GatherPolicy policy : {GatherPolicy::again, GatherPolicy::again_literally, GatherPolicy::keep})
    if (text == name_of(policy)) return policy;
  throw UsageError("gather policy '" + text + "': choose again, again-literally or keep");
}

// The smallest that suffices, else the largest, which grows: so the pool holds about as much as is ever lent at once.
std::unique_ptr<Buffer> GridScratch::take(std::size_t bytes) {
  const auto by_size = [](const auto& a, const auto& b) { return a->capacity() < b->capacity(); };
  std::sort(free_.begin(), free_.end(), by_size);
  auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& b) { return b->capacity() >= bytes; });
  if (found == free_.end() && !free_.empty()) --found;
  std::unique_ptr<Buffer> buffer;
  if (found != free_.end()) {
    buffer = std::move(*found);
    free_.erase(found);
  } else {
    buffer = std::make_unique<Buffer>();
  }
  buffer->reserve(bytes);
  return buffer;
}

template <typename T>
TensorGrid<T>::TensorGrid(Communicator& group, const GridShape& shape, const GridOptions& options, ComputeClock& clock)
    : shape_(shape), options_(options), rank_(group.rank()), clock_(clock) {
  if (group.size() != shape.ranks())
    throw UsageError("A grid " + shape.describe() + " has " + std::to_string(shape.ranks()) + " ranks, not " + std::to_string(group.size()) +
                     "; launch that many, or choose another grid.");
  TW_ASSERT(shape.kind != GridKind::one_d);
  check_grid_rules(options.compress, options.form);
  for (int axis = 0; axis < 3; ++axis) {
    if (size(axis) == 1) continue;
    Line& line = lines_[static_cast<std::size_t>(axis)];
    // The line's colour: this rank with its place on the axis taken out.
    int stride = 1;
    for (int a = 0; a < axis; ++a) stride *= size(a);
    line.communicator = group.split(rank_ - index(axis) * stride, rank_);
    for (const GridUse use : uses) {
      ChannelPairOptions pair;
      pair.form = options.form;
      const bool exact = use == GridUse::exact || use == GridUse::maximum;
      pair.comm_dtype = std::is_same_v<T, double> || exact ? dtype_of<T> : options.comm_dtype;
      if (use == GridUse::maximum) pair.operation = ReduceOp::max;
      pair.reuse_payloads = use == GridUse::weight;
      pair.run_seed = options.run_seed;
      const TrafficClass traffic = class_of(use);
      const CompressRule rule = traffic == TrafficClass::control ? CompressRule{} : rule_of(options, traffic);
      line.pairs.push_back(std::make_unique<ChannelPair>(*line.communicator, traffic, rule, pair));
    }
  }
}

template <typename T>
MessageKey TensorGrid<T>::key_of(const Message& m) const {
  if (m.use == GridUse::weight) {  // the same message wherever, and for whichever micro-batch, it is sent
    MessageKey key = message_key(m.tensor, m.pass);
    key.step = weights_step_, key.micro_batch = 0;
    if (key.pass == Pass::recompute) key.pass = Pass::train;
    return key;
  }
  MessageKey key = message_key(m.tensor + " " + m.label, m.pass);
  if (key.pass == Pass::recompute) key.pass = Pass::train;
  return key;
}

template <typename T>
Channel& TensorGrid<T>::channel(const Message& m, const MessageKey& key) {
  TW_ASSERT(size(m.axis) > 1, m.tensor);
  return lines_[static_cast<std::size_t>(m.axis)].pairs[static_cast<std::size_t>(m.use)]->at(m.layer, options_.stage, key);
}

template <typename T>
typename TensorGrid<T>::Pending TensorGrid<T>::pending(const Message& m, Operation operation) const {
  return {std::move(operation), m.label, class_of(m.use)};
}

template <typename T>
typename TensorGrid<T>::Pending TensorGrid<T>::all_gather(const Message& m, std::int64_t rows, std::int64_t columns, const T* shard, T* whole) {
  TW_ASSERT(rows % size(m.axis) == 0, m.tensor);
  const MessageKey key = key_of(m);
  return pending(m, channel(m, key).all_gather(placed(shard, {rows / size(m.axis), columns}), placed(whole, {rows, columns}), key));
}

template <typename T>
typename TensorGrid<T>::Pending TensorGrid<T>::reduce_scatter(const Message& m, std::int64_t rows, std::int64_t columns, const T* partial,
                                                              T* shard) {
  TW_ASSERT(rows % size(m.axis) == 0, m.tensor);
  const MessageKey key = key_of(m);
  return pending(m, channel(m, key).reduce_scatter(placed(partial, {rows, columns}), placed(shard, {rows / size(m.axis), columns}), key));
}

template <typename T>
typename TensorGrid<T>::Pending TensorGrid<T>::broadcast(const Message& m, std::int64_t rows, std::int64_t columns, T* data, int root) {
  const MessageKey key = key_of(m);
  return pending(m, channel(m, key).broadcast(placed(data, {rows, columns}), root, key));
}

template <typename T>
typename TensorGrid<T>::Pending TensorGrid<T>::reduce(const Message& m, std::int64_t rows, std::int64_t columns, const T* in, T* out, int root) {
  const MessageKey key = key_of(m);
  return pending(m, channel(m, key).reduce(placed(in, {rows, columns}), placed(out, {rows, columns}), root, key));
}

template <typename T>
typename TensorGrid<T>::Pending TensorGrid<T>::all_reduce(const Message& m, std::int64_t rows, std::int64_t columns, T* data) {
  const MessageKey key = key_of(m);
  const TensorView view = placed(data, {rows, columns});
  return pending(m, channel(m, key).all_reduce(view, view, key));
}

template <typename T>
void TensorGrid<T>::wait(Pending&& pending) {
  if (!pending.operation.valid()) return;
  const std::int64_t begin = RankClock::now_ns();
  const OperationReport& r = pending.operation.wait();
  const std::int64_t end = RankClock::now_ns();
  waited_us += std::max(0.0, static_cast<double>(end - begin) * 1e-3 - r.encode_us - r.decode_us);
  Trace::add(TraceCategory::wait, pending.label, begin, end);
  Count& count = counts_[pending.label];
  count.traffic = pending.traffic;
  ++count.operations;
  count.sum += r;
}

template <typename T>
void TensorGrid<T>::weights_changed(std::int64_t step) {
  weights_step_ = step;
  for (Line& line : lines_)
    for (auto& pair : line.pairs)
      if (pair->coded()) pair->coded()->forget_payloads();
}

template <typename T>
std::string TensorGrid<T>::state_name(int axis, const Channel& coded) const {
  return "grid " + group(axis).name + " " + thinwire::name_of(coded.options().traffic);
}

template <typename T>
void TensorGrid<T>::save_states(std::map<std::string, std::vector<std::byte>>& to) const {
  for (int axis = 0; axis < 3; ++axis)
    for (const auto& pair : lines_[static_cast<std::size_t>(axis)].pairs)
      if (const Channel* coded = std::as_const(*pair).coded()) to[state_name(axis, *coded)] = coded->save_state();
}

template <typename T>
void TensorGrid<T>::load_states(const std::map<std::string, std::vector<std::byte>>& from) {
  for (int axis = 0; axis < 3; ++axis)
    for (auto& pair : lines_[static_cast<std::size_t>(axis)].pairs) {
      if (pair->coded() == nullptr) continue;
      const std::string name = state_name(axis, *pair->coded());
      const auto found = from.find(name);
      if (found == from.end()) throw CorruptData("The checkpoint has no codec state for '" + name + "'");
      pair->coded()->load_state(found->second);
    }
}

template <typename T>
void TensorGrid<T>::set_compute(ComputeMode mode, double scale) {
  for (Line& line : lines_)
    for (auto& pair : line.pairs) pair->set_compute(mode, scale);
}

template <typename T>
void TensorGrid<T>::drain_link(LinkDrain* drain) {
  for (Line& line : lines_)
    for (auto& pair : line.pairs) pair->drain_link(drain);
}

template <typename T>
void TensorGrid<T>::progress() {
  for (Line& line : lines_)
    for (auto& pair : line.pairs) pair->progress();
}

template <typename T>
void TensorGrid<T>::take_records(std::vector<TrafficRecord>& records) {
  for (Line& line : lines_)
    for (auto& pair : line.pairs) pair->take_records(records);
}

template class TensorGrid<float>;
template class TensorGrid<double>;

}  // namespace thinwire
