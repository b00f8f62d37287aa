#include "models/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <numeric>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/sums.h"
#include "models/training/config/released_form.h"

namespace thinwire {

template <typename T, typename Model>
Pipeline<T, Model>::Pipeline(const TrainConfig& config, const MeshCoordinates& at, std::vector<Model*> chunks, const BoundaryChannels& pairs,
                      ComputeClock& clock)
    : config_(config),
      at_(at),
      chunks_(std::move(chunks)),
      pairs_(pairs),
      clock_(clock),
      // Under sequence parallelism a boundary tensor is scattered already.
      scatters_(config.scatter_gather && config.mesh.tp > 1 && !config.sequence_parallel),
      positions_first_(sends_positions_first(config)),
      slices_(config.slices()),
      recorded_(config.graphs, clock) {
  std::int64_t begin = 0;
  for (const int tokens : slices_) slice_begins_.push_back(begin), begin += tokens;
}

template <typename T, typename Model>
void Pipeline<T, Model>::reset_times() {
  waited_us = forward_us = backward_us = 0;
  slice_forward_us.assign(slices_.size() > 1 ? slices_.size() : 0, 0.0);
  slice_backward_us = slice_forward_us;
}

template <typename T, typename Model>
void Pipeline<T, Model>::train(const Schedule& schedule, std::uint64_t step, const std::vector<TokenBatch>& micro_batches, double* loss,
                               const LayerDone& layer_done, const std::function<void()>& between) {
  run(schedule, true, {config_.micro_batch, config_.seq, true, step}, micro_batches, loss, layer_done, between);
}

template <typename T, typename Model>
void Pipeline<T, Model>::evaluate(const Schedule& schedule, int round, const std::vector<TokenBatch>& micro_batches, double* loss) {
  PassContext pass{config_.micro_batch, config_.seq, false, static_cast<std::uint64_t>(round)};
  pass.why = Pass::evaluate;
  run(schedule, false, pass, micro_batches, loss, {}, {});
}

template <typename T, typename Model>
void Pipeline<T, Model>::run(const Schedule& schedule, bool with_backward, PassContext pass, const std::vector<TokenBatch>& batches, double* loss,
                             const LayerDone& layer_done, const std::function<void()>& between) {
  const int count = schedule.micro_batches, slices = schedule.slices;
  TW_ASSERT(static_cast<int>(batches.size()) == count && slices == static_cast<int>(slices_.size()));
  backward_left_.assign(chunks_.size(), count * slices);
  const PassContext whole = pass;
  for (const Instruction& i : schedule.stage[static_cast<std::size_t>(at_.pp)]) {
    const TokenBatch& sequences = batches[static_cast<std::size_t>(i.micro)];
    pass = sliced(whole, i.slice);
    pass.micro = i.micro;
    pass.first_sample = sequences.first_sample;
    clock_.at_slice(i.slice);
    if (!with_backward && !live_.contains(slot_of(i))) free_activations(count * slices);
    const bool computes = i.kind == InstructionKind::forward || i.kind == InstructionKind::backward;
    // Both ends of a boundary have posted their receives by now, so these waits end.
    if (config_.blocking_sends && computes) reap(true);
    TokenBatch part;
    if (computes && pass.sliced()) part = slice_tokens(sequences, pass);
    const TokenBatch& batch = pass.sliced() ? part : sequences;
    switch (i.kind) {
      case InstructionKind::receive_forward:
        receive_forward(i, pass);
        break;
      case InstructionKind::forward:
        forward(i, pass, batch, count, loss);
        break;
      case InstructionKind::send_forward:
        send_forward(i, pass);
        break;
      default:
        if (!with_backward) continue;
        if (i.kind == InstructionKind::receive_backward) receive_backward(i, pass);
        if (i.kind == InstructionKind::backward) backward(i, batch, layer_done);
        if (i.kind == InstructionKind::send_backward) send_backward(i, pass);
    }
    if (!with_backward && i.kind != InstructionKind::receive_forward) {
      // An output that travels is given back when it has arrived.
      const bool last = behind(i.chunk) == static_cast<int>(config_.model.layers);
      if (i.kind == InstructionKind::send_forward || last) {
        Activations* done = live_.at(slot_of(i));
        live_.erase(slot_of(i));
        if (i.slice + 1 == slices) drop_prefix(slot_of(i));
        if (last)
          free_.push_back(done);
        else
          in_flight_.back().activations = done;
      }
    }
    reap(false);
    if (between) between();
  }
  reap(true);
  clock_.at_slice(0);
}

template <typename T, typename Model>
PassContext Pipeline<T, Model>::sliced(PassContext pass, int slice) const {
  if (slices_.size() == 1) return pass;
  const auto n = static_cast<std::size_t>(slice);
  pass.length = pass.seq;
  pass.first_token = slice_begins_[n];
  pass.seq = slices_[n];
  pass.slice = slice;
  return pass;
}

template <typename T, typename Model>
TokenBatch Pipeline<T, Model>::slice_tokens(const TokenBatch& batch, const PassContext& pass) {
  TokenBatch part{pass.batch, pass.seq, batch.first_sample, {}, {}};
  for (std::int64_t b = 0; b < pass.batch; ++b) {
    const std::int64_t from = b * pass.length + pass.first_token;
    part.tokens.insert(part.tokens.end(), batch.tokens.begin() + from, batch.tokens.begin() + from + pass.seq);
    part.targets.insert(part.targets.end(), batch.targets.begin() + from, batch.targets.begin() + from + pass.seq);
  }
  return part;
}

template <typename T, typename Model>
PrefixCache& Pipeline<T, Model>::prefix(const Slot& slot) {
  auto& cache = prefixes_[{slot.chunk, slot.micro}];
  if (!cache && !spare_prefixes_.empty()) {
    cache = std::move(spare_prefixes_.back());
    spare_prefixes_.pop_back();
  }
  if (!cache) cache = std::make_unique<PrefixCache>();
  return *cache;
}

template <typename T, typename Model>
void Pipeline<T, Model>::drop_prefix(const Slot& slot) {
  const auto found = prefixes_.find({slot.chunk, slot.micro});
  if (found == prefixes_.end()) return;
  spare_prefixes_.push_back(std::move(found->second));
  prefixes_.erase(found);
}

// Nothing comes back in an evaluation that would hold a stage up: a fast one could run ahead of the next with all its micro-batches. It
// may have as many alive as in training; then it waits for an output to arrive. The last stage waits for nobody, so nobody waits forever,
// but for chunks whose outputs come back to this rank.
template <typename T, typename Model>
void Pipeline<T, Model>::free_activations(int items) {
  const auto most = static_cast<std::size_t>(std::min(config_.mesh.pp - at_.pp, items));
  if (chunks_.size() > 1 || !free_.empty() || owned_.size() < most) return;
  for (InFlight& message : in_flight_)
    if (message.activations) {
      wait(message.operation);
      wait(message.probe);
      break;
    }
  reap(false);
}

template <typename T, typename Model>
typename Pipeline<T, Model>::Activations& Pipeline<T, Model>::activations(const Slot& at) {
  auto& slot = live_[at];
  if (slot) return *slot;
  if (free_.empty()) {
    owned_.push_back(std::make_unique<Activations>());
    free_.push_back(owned_.back().get());
  }
  slot = free_.back();
  free_.pop_back();
  if constexpr (std::is_same_v<Model, Gpt<T>>) slot->prefix = slices_.size() > 1 ? &prefix(at) : nullptr;
  return *slot;
}

template <typename T, typename Model>
std::unique_ptr<Tensor> Pipeline<T, Model>::gradient_buffer() {
  if (spare_.empty()) return std::make_unique<Tensor>();
  std::unique_ptr<Tensor> buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

template <typename T, typename Model>
MessageKey Pipeline<T, Model>::key(int boundary, int micro, const PassContext& pass) const {
  PassContext named = pass;
  named.micro = micro;
  MessageKey key = message_key("boundary" + std::to_string(boundary), named);
  // Numbers of the sequences over the whole run; the channel copies them.
  samples_.resize(static_cast<std::size_t>(pass.batch));
  std::iota(samples_.begin(), samples_.end(), static_cast<std::int64_t>(pass.step) * config_.global_batch + pass.first_sample);
  key.samples = samples_;
  return key;
}

template <typename T, typename Model>
bool Pipeline<T, Model>::compares(const PassContext& pass) const {
  return std::is_same_v<T, float> && config_.error_interval > 0 && pass.why == Pass::train &&
         static_cast<std::int64_t>(pass.step) % config_.error_interval == 0;
}

template <typename T, typename Model>
Shape Pipeline<T, Model>::boundary_shape(const PassContext& pass) const {
  if constexpr (std::is_same_v<Model, GridGpt<T>>)
    return chunks_[0]->boundary(pass);
  else
    return {chunks_[0]->tensor().own_rows(pass.rows()).count, config_.model.hidden};
}

template <typename T, typename Model>
RowBlock Pipeline<T, Model>::travelling(const PassContext& pass) const {
  if (scatters_) return shard_rows(pass.rows(), at_.tp, config_.mesh.tp);
  return {0, boundary_shape(pass).rows()};
}

template <typename T, typename Model>
void Pipeline<T, Model>::wait(Operation operation) {
  if (!operation.valid()) return;
  const std::int64_t begin = now_ns();
  const OperationReport& report = operation.wait();
  const std::int64_t end = now_ns();
  waited_us += std::max(0.0, static_cast<double>(end - begin) * 1e-3 - report.encode_us - report.decode_us);
  Trace::add(TraceCategory::wait, "pipeline", begin, end);
}

template <typename T, typename Model>
void Pipeline<T, Model>::reap(bool all) {
  for (std::size_t n = 0; n < in_flight_.size();) {
    InFlight& message = in_flight_[n];
    bool done = true;
    for (Operation* operation : {&message.operation, &message.probe}) {
      if (all) wait(*operation);
      done = done && (!operation->valid() || operation->test());
    }
    if (!done) {
      ++n;
      continue;
    }
    if (message.activations) free_.push_back(message.activations);
    if (message.gradient) spare_.push_back(std::move(message.gradient));
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

template <typename T, typename Model>
std::unique_ptr<Tensor> Pipeline<T, Model>::swapped(std::unique_ptr<Tensor> gradient, std::int64_t outer, std::int64_t inner, const Instruction& i) {
  std::unique_ptr<Tensor> result = gradient_buffer();
  const std::int64_t h = config_.model.hidden;
  result->reshape({outer * inner, h}, dtype_of<T>);
  clock_.run("reorder gradient", first_layer(i.chunk), i.micro, [&] {
    const T* from = data_of<T>(*gradient);
    T* to = data_of<T>(*result);
    for (std::int64_t o = 0; o < outer; ++o) nn::copy_rows<T>(inner, h, from + o * inner * h, h, to + o * h, outer * h);
  });
  spare_.push_back(std::move(gradient));
  return result;
}

template <typename T, typename Model>
void Pipeline<T, Model>::gather(Channel* channel, Tensor& part, Tensor& whole, const PassContext& pass, const MessageKey& message) {
  whole.reshape({pass.rows(), config_.model.hidden}, dtype_of<T>);
  wait(channel->all_gather(part.view(), whole.view(), message));
}

template <typename T, typename Model>
void Pipeline<T, Model>::receive_forward(const Instruction& i, const PassContext& pass) {
  const int boundary = first_layer(i.chunk);
  const MessageKey message = key(boundary, i.micro, pass);
  Activations& a = activations(slot_of(i));
  Tensor& arriving = scatters_ ? part_ : a.input;
  arriving.reshape({travelling(pass).count, boundary_shape(pass).columns()}, dtype_of<T>);
  wait(pairs_.forward->at(boundary, i.peer, message).receive(arriving.view(), i.peer, message));
  if (compares(pass) && pairs_.forward->codes(boundary, i.peer, message))
    pairs_.forward->compare_received(arriving.view(), i.peer, message);
  if (scatters_) gather(pairs_.gather_forward, part_, a.input, pass, message);
}

template <typename T, typename Model>
void Pipeline<T, Model>::send_forward(const Instruction& i, const PassContext& pass) {
  const int boundary = behind(i.chunk);
  const MessageKey message = key(boundary, i.micro, pass);
  Tensor& output = chunks_[static_cast<std::size_t>(i.chunk)]->output(*live_.at(slot_of(i)));
  const RowBlock mine = travelling(pass);
  const std::int64_t h = boundary_shape(pass).columns();
  const ConstTensorView view = output.view().flat_slice(mine.first * h, mine.count * h).reshaped({mine.count, h});
  InFlight& sent = in_flight_.emplace_back();
  sent.operation = pairs_.forward->at(boundary, at_.pp, message).send(view, i.peer, message);
  if (compares(pass) && pairs_.forward->codes(boundary, at_.pp, message)) sent.probe = pairs_.forward->compare_sent(view, i.peer, message);
}

template <typename T, typename Model>
void Pipeline<T, Model>::run_forward(Model& chunk, const Instruction& i, const PassContext& pass, const TokenBatch& batch, double share, Activations& saved) {
  if constexpr (std::is_same_v<Model, Gpt<T>>) {
    if (config_.graphs && pass.train) {
      chunk.place_batch(pass, batch, saved);
      return recorded_.run({"forward", i.chunk, &saved, saved.input.view().data()}, i.micro, [&] { chunk.run_placed(share, saved); });
    }
  }
  chunk.run_forward(pass, batch, share, saved);
}

template <typename T, typename Model>
void Pipeline<T, Model>::forward(const Instruction& i, PassContext pass, const TokenBatch& batch, int micro_batches, double* loss) {
  // The loss is the mean over all tokens of the step.
  const double part = pass.sliced() ? static_cast<double>(pass.seq) / static_cast<double>(pass.length) : 1.0;
  const double share = part / micro_batches;
  clock_.charge(&forward_us, slice_forward_us.empty() ? nullptr : &slice_forward_us[static_cast<std::size_t>(i.slice)]);
  if (config_.forward_us > 0) clock_.begin_stated("forward", config_.forward_us, i.micro);
  if (config_.mesh.tp == 1) clock_.begin_joined();
  Model& chunk = *chunks_[static_cast<std::size_t>(i.chunk)];
  Activations& saved = activations(slot_of(i));
  run_forward(chunk, i, pass, batch, share, saved);
  clock_.end_joined();
  clock_.end_stated();
  clock_.charge();
  if (chunk.part().head) nn::add_total<double, double>(1, data_of<double>(saved.head.loss), share, 1.0, loss);
}

template <typename T, typename Model>
void Pipeline<T, Model>::receive_backward(const Instruction& i, const PassContext& pass) {
  const int boundary = behind(i.chunk);
  const MessageKey message = key(boundary, i.micro, pass);
  std::unique_ptr<Tensor> gradient = gradient_buffer();
  Tensor& arriving = scatters_ ? part_ : *gradient;
  arriving.reshape({travelling(pass).count, boundary_shape(pass).columns()}, dtype_of<T>);
  // The gradient comes back as the codec of the activation says, which this rank sent.
  Channel& activation = pairs_.forward->at(boundary, at_.pp, message);
  wait(pairs_.backward->at(boundary, i.peer, message).receive_backward(arriving.view(), i.peer, message, activation));
  if (compares(pass) && pairs_.backward->codes(boundary, i.peer, message))
    pairs_.backward->compare_received(arriving.view(), i.peer, message);
  if (scatters_) gather(pairs_.gather_backward, part_, *gradient, pass, message);
  if (positions_first_ && pairs_.backward->codes(boundary, i.peer, message))
    gradient = swapped(std::move(gradient), pass.seq, pass.batch, i);
  gradients_[slot_of(i)] = std::move(gradient);
}

template <typename T, typename Model>
void Pipeline<T, Model>::backward(const Instruction& i, const TokenBatch& batch, const LayerDone& layer_done) {
  const Slot slot = slot_of(i);
  auto& gradient = gradients_[slot];
  if (!gradient) {  // the chunk with the head starts the backward pass
    gradient = gradient_buffer();
    gradient->reshape(boundary_shape(live_.at(slot)->pass), dtype_of<T>);
  }
  clock_.charge(&backward_us, slice_backward_us.empty() ? nullptr : &slice_backward_us[static_cast<std::size_t>(i.slice)]);
  if (config_.backward_us > 0) clock_.begin_stated("backward", config_.backward_us, i.micro);
  const bool last = --backward_left_[static_cast<std::size_t>(i.chunk)] == 0;
  // Gradients may leave from within the last pass.
  if (config_.mesh.tp == 1 && !(last && layer_done && config_.mesh.dp > 1)) clock_.begin_joined();
  Model& chunk = *chunks_[static_cast<std::size_t>(i.chunk)];
  // Where gradients leave from within, the pass is no fixed list of work.
  const LayerDone done = last && config_.mesh.dp > 1 ? layer_done : LayerDone{};
  if constexpr (std::is_same_v<Model, GridGpt<T>>) {
    chunk.backward(batch, *live_.at(slot), *gradient, done);
  } else if (done) {
    chunk.backward(batch, *live_.at(slot), *gradient, nullptr, done);
  } else {
    recorded_.run({"backward", i.chunk, live_.at(slot), gradient->view().data()}, i.micro, [&] { chunk.backward(batch, *live_.at(slot), *gradient); });
  }
  clock_.end_joined();
  clock_.end_stated();
  clock_.charge();
  if (i.slice == 0) drop_prefix(slot);
  free_.push_back(live_.at(slot));
  live_.erase(slot);
  if (first_layer(i.chunk) == 0) {
    spare_.push_back(std::move(gradient));
    gradients_.erase(slot);
  }
}

template <typename T, typename Model>
void Pipeline<T, Model>::send_backward(const Instruction& i, const PassContext& pass) {
  const int boundary = first_layer(i.chunk);
  const MessageKey message = key(boundary, i.micro, pass);
  const auto found = gradients_.find(slot_of(i));
  std::unique_ptr<Tensor> gradient = std::move(found->second);
  gradients_.erase(found);
  if (positions_first_ && pairs_.backward->codes(boundary, at_.pp, message))
    gradient = swapped(std::move(gradient), pass.batch, pass.seq, i);
  const RowBlock mine = travelling(pass);
  const std::int64_t h = boundary_shape(pass).columns();
  const ConstTensorView view = gradient->view().flat_slice(mine.first * h, mine.count * h).reshaped({mine.count, h});
  Channel& activation = pairs_.forward->at(boundary, i.peer, message);
  InFlight& sent = in_flight_.emplace_back();
  sent.operation = pairs_.backward->at(boundary, at_.pp, message).send_backward(view, i.peer, message, activation);
  if (compares(pass) && pairs_.backward->codes(boundary, at_.pp, message))
    sent.probe = pairs_.backward->compare_sent(view, i.peer, message);
  sent.gradient = std::move(gradient);
}

template class Pipeline<float>;
template class Pipeline<double>;
template class Pipeline<float, GridGpt<float>>;
template class Pipeline<double, GridGpt<double>>;

}  // namespace thinwire
