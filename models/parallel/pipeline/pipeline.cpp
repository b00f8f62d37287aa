#include "models/parallel/pipeline/pipeline.h"

#include <algorithm>

#include "collectives/process/rank_clock.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/sums.h"
#include "models/parallel/pipeline/boundary_key.h"
#include "models/training/config/released_form.h"

namespace thinwire {
namespace {

/// Of a pass through a chunk whose time is stated, the part of units first .. last, so that gathers between units have passes to hide behind: layers take
/// equal parts, embedding and head none unless there is nothing else. 1 for the whole chunk.
template <typename T>
double share_of_layers(const Stage<T>& chunk, int first, int last, int layers) {
  const auto& units = chunk.units();
  const auto is_layer = [&](const Unit<T>& unit) { return unit.layer >= 0 && unit.layer < layers; };
  const bool none = std::ranges::none_of(units, is_layer);
  std::int64_t here = 0, all = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!none && !is_layer(units[u])) continue;
    ++all;
    here += static_cast<int>(u) >= first && static_cast<int>(u) <= last;
  }
  return static_cast<double>(here) / static_cast<double>(all);
}

}  // namespace

template <typename T>
Pipeline<T>::Pipeline(const TrainConfig& config, const MeshCoordinates& at, std::vector<Stage<T>*> chunks, const BoundaryChannels& pairs,
                      const UnitActors& actors, ComputeClock& clock)
    : config_(config),
      at_(at),
      chunks_(std::move(chunks)),
      pairs_(pairs),
      actors_(actors),
      clock_(clock),
      // Under sequence parallelism a boundary tensor is scattered already.
      scatters_(config.scatter_gather && config.mesh.tp > 1 && !config.sequence_parallel),
      positions_first_(sends_positions_first(config)),
      names_tokens_(pairs.forward != nullptr && pairs.forward->coded() != nullptr && pairs.forward->coded()->codec().codec->traits().by_token),
      slices_(config.slices()),
      recorded_(config.graphs, clock) {
  std::int64_t begin = 0;
  for (const int tokens : slices_) slice_begins_.push_back(begin), begin += tokens;
}

template <typename T>
void Pipeline<T>::reset_times() {
  waited_us = forward_us = backward_us = 0;
  slice_forward_us.assign(slices_.size() > 1 ? slices_.size() : 0, 0.0);
  slice_backward_us = slice_forward_us;
}

template <typename T>
void Pipeline<T>::train(const Schedule& schedule, std::uint64_t step, const std::vector<Batch>& micro_batches, double* loss) {
  run(schedule, true, {.batch = config_.micro_batch, .seq = config_.seq, .step = step, .replica = static_cast<std::uint64_t>(at_.dp)}, micro_batches, loss);
}

template <typename T>
void Pipeline<T>::evaluate(const Schedule& schedule, int round, std::int64_t trained_steps, const std::vector<Batch>& micro_batches, double* loss, double* metrics, double* predicted) {
  PassContext pass{.batch = config_.micro_batch, .seq = config_.seq, .train = false, .step = static_cast<std::uint64_t>(round), .replica = static_cast<std::uint64_t>(at_.dp)};
  pass.why = Pass::evaluate, pass.trained_steps = trained_steps;
  metrics_ = metrics, predicted_ = predicted;
  run(schedule, false, pass, micro_batches, loss);
  metrics_ = predicted_ = nullptr;
}

template <typename T>
void Pipeline<T>::run(const Schedule& schedule, bool with_backward, const PassContext& whole, const std::vector<Batch>& batches, double* loss) {
  const int count = schedule.micro_batches, slices = schedule.slices;
  TW_ASSERT(static_cast<int>(batches.size()) == count && slices == static_cast<int>(slices_.size()) && !schedule.units.empty());
  const std::vector<Instruction>& list = schedule.stage[static_cast<std::size_t>(at_.pp)];
  reductions_left_.clear();
  for (const Instruction& i : list)
    if (i.kind == InstructionKind::reduce) ++reductions_left_[layer_of(i)];
  for (std::size_t k = 0; k < list.size();) {
    const Instruction& i = list[k];
    const std::size_t end = is_computation(i.kind) ? end_of_joined_pass(list, k) : k + 1;
    const JoinedPass joined{i, list[end - 1]};
    k = end;
    const Batch& sequences = batches[static_cast<std::size_t>(i.micro)];
    PassContext pass = sliced(whole, i.slice);
    pass.micro = i.micro;
    pass.first_sample = sequences.first_sample;
    pass.samples = sequences.sample_ids;
    if (names_tokens_) pass.tokens = numbers_of(sequences, "tokens", whole);
    clock_.at_slice(i.slice);
    const bool opens = i.kind == InstructionKind::receive_forward || i.kind == InstructionKind::forward;
    if (!with_backward && opens && !live_.contains(slot_of(i))) free_activations(count * slices);
    // Both ends of a boundary have posted their receives by now, so these waits end.
    if (config_.blocking_sends && is_computation(i.kind)) reap(true);
    switch (i.kind) {
      case InstructionKind::receive_forward:
        receive_forward(i, pass);
        break;
      case InstructionKind::forward:
        forward(joined, pass, sequences, loss);
        break;
      case InstructionKind::send_forward:
        send_forward(i, pass);
        break;
      case InstructionKind::receive_backward:
        receive_backward(i, pass);
        break;
      case InstructionKind::backward:
        backward(joined);
        break;
      case InstructionKind::send_backward:
        send_backward(i, pass);
        break;
      default:
        act(i);
    }
    if (!with_backward) release_evaluated(joined.last);
    reap(false);
    clock_.progress();
  }
  reap(true);
  clock_.at_slice(0);
}

template <typename T>
void Pipeline<T>::act(const Instruction& i) {
  const int unit = layer_of(i);
  if (i.kind == InstructionKind::reduce) {
    TW_ASSERT(actors_.reductions != nullptr, "a schedule with reductions, and nobody who reduces");
    return actors_.reductions->reduce(unit, i.micro, --reductions_left_[unit] == 0);
  }
  TW_ASSERT(actors_.gathers != nullptr, "a schedule that gathers parameters from a store that holds them whole");
  if (i.kind == InstructionKind::unshard) actors_.gathers->unshard(unit);
  if (i.kind == InstructionKind::wait_unshard) actors_.gathers->wait_unshard(unit);
  if (i.kind == InstructionKind::reshard) actors_.gathers->reshard(unit);
}

template <typename T>
void Pipeline<T>::release_evaluated(const Instruction& i) {
  const bool sent = i.kind == InstructionKind::send_forward;
  const bool ended = i.kind == InstructionKind::forward && chunk_of(i).part().head && index(i.unit) + 1 == chunk_of(i).units().size();
  if (!sent && !ended) return;
  const Slot slot = slot_of(i);
  Saved* done = live_.at(slot);
  live_.erase(slot);
  parts_.erase(slot);
  if (i.slice + 1 == static_cast<int>(slices_.size())) drop_prefix(slot);
  // An output that travels is given back when it has arrived.
  if (sent)
    in_flight_.back().activations = done;
  else
    free_.push_back(done);
}

template <typename T>
PassContext Pipeline<T>::sliced(PassContext pass, int slice) const {
  if (slices_.size() == 1) return pass;
  const auto n = static_cast<std::size_t>(slice);
  pass.length = pass.seq;
  pass.first_token = slice_begins_[n];
  pass.seq = slices_[n];
  pass.slice = slice;
  return pass;
}

template <typename T>
PrefixCache& Pipeline<T>::prefix(const Slot& slot) {
  auto& cache = prefixes_[{slot.chunk, slot.micro}];
  if (!cache && !spare_prefixes_.empty()) {
    cache = std::move(spare_prefixes_.back());
    spare_prefixes_.pop_back();
  }
  if (!cache) cache = std::make_unique<PrefixCache>();
  return *cache;
}

template <typename T>
void Pipeline<T>::drop_prefix(const Slot& slot) {
  const auto found = prefixes_.find({slot.chunk, slot.micro});
  if (found == prefixes_.end()) return;
  spare_prefixes_.push_back(std::move(found->second));
  prefixes_.erase(found);
}

// Nothing comes back in an evaluation that would hold a stage up: a fast one could run ahead of the next with all its micro-batches. It
// may have as many alive as in training; then it waits for an output to arrive. The last stage waits for nobody, so nobody waits forever,
// but for chunks whose outputs come back to this rank.
template <typename T>
void Pipeline<T>::free_activations(int items) {
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

template <typename T>
typename Pipeline<T>::Saved& Pipeline<T>::activations(const Slot& at) {
  auto& slot = live_[at];
  if (slot) return *slot;
  if (free_.empty()) {
    owned_.push_back(chunks_[static_cast<std::size_t>(at.chunk)]->new_saved());
    free_.push_back(owned_.back().get());
  }
  slot = free_.back();
  free_.pop_back();
  slot->prefix = slices_.size() > 1 ? &prefix(at) : nullptr;
  return *slot;
}

template <typename T>
std::unique_ptr<Tensor> Pipeline<T>::gradient_buffer() {
  if (spare_.empty()) return std::make_unique<Tensor>();
  std::unique_ptr<Tensor> buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

template <typename T>
MessageKey Pipeline<T>::key(int boundary, int micro, const PassContext& pass) {
  PassContext named = pass;
  named.micro = micro;
  // Rows of a grid's block are not told apart by sample.
  const bool whole = scatters_ || boundary_shape(pass).rows() == pass.rows();
  const RowBlock rows = whole ? travelling(pass) : RowBlock{0, 0};
  MessageKey message = boundary_key(boundary, named, rows);
  if (names_tokens_) message.tokens = token_ids(pass, rows, cut_tokens_);
  return message;
}

template <typename T>
bool Pipeline<T>::compares(const PassContext& pass) const {
  return std::is_same_v<T, float> && config_.error_interval > 0 && pass.why == Pass::train &&
         static_cast<std::int64_t>(pass.step) % config_.error_interval == 0;
}

template <typename T>
RowBlock Pipeline<T>::travelling(const PassContext& pass) const {
  if (scatters_) return shard_rows(pass.rows(), at_.tp, config_.mesh.tp);
  return {0, boundary_shape(pass).rows()};
}

template <typename T>
void Pipeline<T>::wait(Operation operation) {
  if (!operation.valid()) return;
  const std::int64_t begin = RankClock::now_ns();
  const OperationReport& report = operation.wait();
  const std::int64_t end = RankClock::now_ns();
  waited_us += std::max(0.0, static_cast<double>(end - begin) * 1e-3 - report.encode_us - report.decode_us);
  Trace::add(TraceCategory::wait, "pipeline", begin, end);
}

template <typename T>
void Pipeline<T>::reap(bool all) {
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

template <typename T>
std::unique_ptr<Tensor> Pipeline<T>::swapped(std::unique_ptr<Tensor> gradient, std::int64_t outer, std::int64_t inner, const Instruction& i) {
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

template <typename T>
void Pipeline<T>::gather(Channel* channel, Tensor& part, Tensor& whole, const PassContext& pass, const MessageKey& message) {
  whole.reshape({pass.rows(), config_.model.hidden}, dtype_of<T>);
  wait(channel->all_gather(part.view(), whole.view(), message));
}

template <typename T>
void Pipeline<T>::receive_forward(const Instruction& i, const PassContext& pass) {
  const int boundary = first_layer(i.chunk);
  const MessageKey message = key(boundary, i.micro, pass);
  Saved& a = activations(slot_of(i));
  Tensor& arriving = scatters_ ? part_ : a.input;
  arriving.reshape({travelling(pass).count, boundary_shape(pass).columns()}, dtype_of<T>);
  wait(pairs_.forward->at(boundary, i.peer, message).receive(arriving.view(), i.peer, message));
  if (compares(pass) && pairs_.forward->codes(boundary, i.peer, message))
    pairs_.forward->compare_received(arriving.view(), i.peer, message);
  if (scatters_) gather(pairs_.gather_forward, part_, a.input, pass, message);
}

template <typename T>
void Pipeline<T>::send_forward(const Instruction& i, const PassContext& pass) {
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

template <typename T>
void Pipeline<T>::forward(const JoinedPass& joined, const PassContext& pass, const Batch& sequences, double* loss) {
  const Instruction &i = joined.first, &last = joined.last;
  Stage<T>& chunk = chunk_of(i);
  const bool begins = i.unit == 0, ends = index(last.unit) + 1 == chunk.units().size();
  // Of the loss over all that is labelled in the global batch. In this order equal micro-batches get exactly 1 / their number.
  const double part = pass.sliced() ? static_cast<double>(pass.seq) / static_cast<double>(pass.length) : 1.0;
  const double share = part / (sequences.global_weight / (sequences.weight * config_.mesh.dp));
  clock_.charge(&forward_us, slice_forward_us.empty() ? nullptr : &slice_forward_us[static_cast<std::size_t>(i.slice)]);
  if (config_.forward_us > 0) clock_.begin_stated("forward", config_.forward_us * share_of_layers(chunk, i.unit, last.unit, config_.model.layers), i.micro);
  if (config_.mesh.tp == 1) clock_.begin_joined();
  Saved& saved = activations(slot_of(i));
  if (begins) chunk.place(pass, pass.sliced() ? parts_[slot_of(i)] = token_slice(sequences, pass.first_token, pass.seq) : sequences, saved);
  const auto units = [&] {
    for (int u = i.unit; u <= last.unit; ++u) chunk.forward_unit(index(u), share, saved);
  };
  // A recorded pass is a fixed list of work: that of a whole chunk.
  if (config_.graphs && pass.train && begins && ends && chunk.traits().recorded_passes)
    recorded_.run({"forward", i.chunk, &saved, saved.input.view().data()}, i.micro, units);
  else
    units();
  clock_.end_joined();
  if (ends) clock_.end_stated();
  clock_.charge();
  if (!ends || !chunk.part().head) return;
  nn::add_total<double, double>(1, data_of<double>(chunk.loss(saved)), share, 1.0, loss);
  const std::int64_t numbers = metrics_ ? 2 * static_cast<std::int64_t>(chunk.metrics().size()) : 0;
  for (std::int64_t n = 0; n < numbers; ++n) nn::add_total<double, double>(1, data_of<double>(chunk.measured(saved)) + n, 1.0, 1.0, metrics_ + n);
  if (predicted_ == nullptr) return;
  const std::span<const double> said = chunk.predicted(saved);
  if (static_cast<std::int64_t>(said.size()) != pass.batch)
    throw UsageError("these data are judged by what a model says of each sample, and --model " + config_.model_kind + " says nothing of one; choose a task= of it that does, or other data");
  std::copy(said.begin(), said.end(), predicted_ + i.micro * config_.micro_batch);
}

template <typename T>
void Pipeline<T>::receive_backward(const Instruction& i, const PassContext& pass) {
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

template <typename T>
void Pipeline<T>::backward(const JoinedPass& joined) {
  const Instruction &i = joined.first, &last = joined.last;
  const Slot slot = slot_of(i);
  Stage<T>& chunk = chunk_of(i);
  const bool begins = index(i.unit) + 1 == chunk.units().size(), ends = last.unit == 0;
  Saved& saved = *live_.at(slot);
  auto& gradient = gradients_[slot];
  if (!gradient) {  // the chunk with the head starts the backward pass
    gradient = gradient_buffer();
    gradient->reshape(boundary_shape(saved.pass), dtype_of<T>);
  }
  if (actors_.reductions)
    for (int u = i.unit; u >= last.unit; --u) actors_.reductions->expect(chunk.units()[index(u)].layer);
  clock_.charge(&backward_us, slice_backward_us.empty() ? nullptr : &slice_backward_us[static_cast<std::size_t>(i.slice)]);
  if (config_.backward_us > 0) clock_.begin_stated("backward", config_.backward_us * share_of_layers(chunk, last.unit, i.unit, config_.model.layers), i.micro);
  if (config_.mesh.tp == 1) clock_.begin_joined();
  const auto units = [&] {
    for (int u = i.unit; u >= last.unit; --u) chunk.backward_unit(index(u), saved, *gradient);
  };
  if (begins && ends && chunk.traits().recorded_passes)
    recorded_.run({"backward", i.chunk, &saved, gradient->view().data()}, i.micro, units);
  else
    units();
  clock_.end_joined();
  if (!ends) return clock_.charge();
  clock_.end_stated();
  clock_.charge();
  if (i.slice == 0) drop_prefix(slot);
  free_.push_back(&saved);
  live_.erase(slot);
  parts_.erase(slot);
  if (first_layer(i.chunk) == 0) {
    spare_.push_back(std::move(gradient));
    gradients_.erase(slot);
  }
}

template <typename T>
void Pipeline<T>::send_backward(const Instruction& i, const PassContext& pass) {
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

}  // namespace thinwire
