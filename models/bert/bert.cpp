#include "models/bert/bert.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "kernels/nn/elementwise.h"

namespace thinwire {

template <typename T>
Bert<T>::Bert(const BertConfig& config, const ModelPart& part, const StageRuntime<T>& runtime)
    : config_(config), part_(part), runtime_{runtime.tensor, runtime.clock}, recompute_(runtime.recompute) {
  const auto layers = static_cast<int>(config.layers);
  if (part_.layers < 0) part_.layers = layers - part_.first_layer;
  TW_ASSERT(part_.first_layer >= 0 && part_.end_layer() <= layers);
  const SplitGroups replicas = runtime_.tensor->splits() ? SplitGroups{runtime_.tensor->group()} : SplitGroups{};
  if (part_.embedding || (part_.head && config.masks())) {
    const bool tied = config.masks() && !part_.whole();
    const SplitGroups copies = tied ? SplitGroups{{"embedding", 2, part_.embedding ? 0 : 1}} : SplitGroups{};
    token_.emplace(token_table<T>(config.vocab, config.hidden, config.seed, *runtime_.tensor, copies));
  }
  if (part_.embedding) {
    embedding_.emplace(config, runtime_);
    units_.push_back({"embedding", -1, {&*token_}});
    embedding_->collect(units_.back().parameters);
  }
  for (int l = part_.first_layer; l < part_.end_layer(); ++l) {
    blocks_.push_back(std::make_unique<Block<T>>(l, config.block(), runtime_));
    units_.push_back({layer_name(l), l, {}, blocks_.back()->summed()});
    blocks_.back()->collect(units_.back().parameters);
  }
  if (part_.head) {
    Unit<T>& unit = units_.emplace_back(Unit<T>{"head", layers, {}});
    if (config.masks()) unit.parameters.push_back(&*token_);
    if (!config.post_norm) norm_.emplace("head.final_norm", config.hidden, Layout::replicated(), replicas, config.epsilon).collect(unit.parameters);
    if (config.masks()) masked_.emplace(config, runtime_).collect(unit.parameters);
    if (config.reads_sequences()) sequence_.emplace(config, runtime_).collect(unit.parameters);
  }
  for (const Unit<T>& unit : units_)
    for (Parameter<T>* p : unit.parameters)
      if (std::find(parameters_.begin(), parameters_.end(), p) == parameters_.end()) parameters_.push_back(p);
}

template <typename T>
std::vector<std::string> Bert<T>::metrics() const {
  if (config_.task == BertTask::masked) return {"masked_accuracy"};
  if (config_.task == BertTask::pretraining) return {"masked_accuracy", "pair_accuracy"};
  if (config_.task == BertTask::classification) return {"accuracy"};
  return {};
}

template <typename T>
std::span<const double> Bert<T>::predicted(const Saved& s) const {
  const bool fine_tuned = config_.task == BertTask::classification || config_.task == BertTask::regression;
  return fine_tuned ? std::span<const double>(static_cast<const Activations&>(s).sequence.predicted) : std::span<const double>();
}

template <typename T>
void Bert<T>::place(const PassContext& pass, const Batch& batch, Saved& s) const {
  TW_ASSERT(!pass.sliced());
  if (pass.seq > config_.max_seq)
    throw UsageError("Sequence of " + std::to_string(pass.seq) + " tokens exceeds the model's maximum of " + std::to_string(config_.max_seq) + ".");
  auto& saved = static_cast<Activations&>(s);
  saved.pass = pass;
  saved.blocks.resize(blocks_.size());
  if (!batch.lengths.empty() && static_cast<std::int64_t>(batch.lengths.size()) != pass.batch)
    throw CorruptData("The batch has " + std::to_string(batch.lengths.size()) + " lengths of " + std::to_string(pass.batch) + " sequences.");
  saved.lengths = batch.lengths.empty() ? nullptr : batch.lengths.data();
  if (part_.embedding) {
    saved.tokens = numbers_of(batch, "tokens", pass).data();
    saved.types = config_.types > 0 ? numbers_of(batch, "types", pass).data() : nullptr;
  }
  if (part_.head) place_labels(batch, pass, saved);
}

template <typename T>
void Bert<T>::place_labels(const Batch& batch, const PassContext& pass, Activations& saved) const {
  if (masked_) {
    MaskedHead<T>::place(numbers_of(batch, "masked_labels", pass), saved.masked);
    const auto labelled = static_cast<double>(saved.masked.rows.size());
    if (labelled != batch.weight)
      throw CorruptData("The batch weighs " + std::to_string(batch.weight) + ", but " + std::to_string(saved.masked.rows.size()) + " of its positions are labelled.");
  }
  if (!sequence_) return;
  SequenceLabels& labels = saved.sequence.labels;
  labels = config_.task == BertTask::regression ? SequenceLabels{{}, batch.floats("labels")} : SequenceLabels{batch.ints("labels"), {}};
  const std::size_t count = std::max(labels.classes.size(), labels.numbers.size());
  if (static_cast<std::int64_t>(count) != pass.batch)
    throw CorruptData("The batch has " + std::to_string(count) + " labels of " + std::to_string(pass.batch) + " samples.");
  if (config_.task != BertTask::pretraining) {
    const auto without = std::count(labels.classes.begin(), labels.classes.end(), -1) + std::ranges::count_if(labels.numbers, [](float n) { return std::isnan(n); });
    const auto labelled = static_cast<double>(count) - static_cast<double>(without);
    if (labelled != batch.weight)
      throw CorruptData("The batch weighs " + std::to_string(batch.weight) + ", but " + std::to_string(labelled) + " of its samples are labelled.");
    saved.sequence.divisor = std::max(1.0, labelled);
    return;
  }
  // Both losses come out of the step with the factor weight / global_weight; that of the samples wants samples / global_samples.
  if (!(batch.weight > 0)) throw CorruptData("A micro-batch without a masked position: its labels of sequences would be lost. Mask one of each sequence at least.");
  if (batch.global_samples < 1 || !(batch.global_weight > 0)) throw CorruptData("The batch does not say what its global batch weighs and how many samples that has.");
  saved.sequence.divisor = static_cast<double>(batch.global_samples) * batch.weight / batch.global_weight;
}

template <typename T>
Tensor& Bert<T>::output(Saved& s) const {
  auto& saved = static_cast<Activations&>(s);
  return blocks_.empty() ? saved.input : saved.blocks.back().output;
}

template <typename T>
const T* Bert<T>::input_of(std::size_t block, const Activations& saved) const {
  return data_of<T>(block == 0 ? saved.input : saved.blocks[block - 1].output);
}

template <typename T>
void Bert<T>::forward_unit(std::size_t unit, double gradient_scale, Saved& s) {
  auto& saved = static_cast<Activations&>(s);
  const int block = block_of(unit);
  if (block < 0)
    embedding_->forward(saved.pass, saved.tokens, saved.types, *token_, saved.embedded, shaped<T>(saved.input, boundary(saved.pass)));
  else if (block < part_.layers)
    forward_block(static_cast<std::size_t>(block), saved);
  else
    forward_head(gradient_scale, saved);
}

template <typename T>
void Bert<T>::backward_unit(std::size_t unit, Saved& s, Tensor& gradient) {
  auto& saved = static_cast<Activations&>(s);
  T* d = shaped<T>(gradient, boundary(saved.pass));
  const int block = block_of(unit);
  if (block < 0)
    embedding_->backward(saved.pass, saved.tokens, saved.types, *token_, saved.embedded, d);
  else if (block < part_.layers)
    backward_block(static_cast<std::size_t>(block), saved, d);
  else
    backward_head(saved, d);
}

template <typename T>
void Bert<T>::forward_block(std::size_t l, Activations& saved) {
  typename Block<T>::Saved& kept = recompute_ ? again_ : saved.blocks[l];
  blocks_[l]->forward(saved.pass, input_of(l, saved), kept, work_, nullptr, nullptr, saved.lengths);
  if (recompute_) std::swap(again_.output, saved.blocks[l].output);
}

template <typename T>
void Bert<T>::backward_block(std::size_t l, Activations& saved, T* d) {
  if (recompute_) {
    PassContext again = saved.pass;
    if (again.why == Pass::train) again.why = Pass::recompute;
    blocks_[l]->forward(again, input_of(l, saved), again_, work_, nullptr, nullptr, saved.lengths);
  }
  blocks_[l]->backward(saved.pass, input_of(l, saved), recompute_ ? again_ : saved.blocks[l], work_, d, nullptr, saved.lengths);
}

template <typename T>
void Bert<T>::forward_head(double gradient_scale, Activations& saved) {
  const PassContext& pass = saved.pass;
  const T* x = input_of(blocks_.size(), saved);
  if (norm_) {
    T* normed = shaped<T>(saved.normed, boundary(pass));
    runtime_.clock->run("final norm", -1, pass.micro, [&] { norm_->forward(boundary(pass).rows(), x, normed, saved.norm); });
    x = normed;
  }
  double loss = 0;
  if (masked_) {
    masked_->forward(pass, x, *token_, gradient_scale, saved.masked);
    loss += saved.masked.loss;
  }
  if (sequence_) {
    sequence_->forward(pass, x, gradient_scale, saved.sequence);
    loss += saved.sequence.loss;
  }
  data_of<double>(saved.loss)[0] = loss;
  double* measured = data_of<double>(saved.measured);
  if (masked_) *measured++ = saved.masked.right, *measured++ = static_cast<double>(saved.masked.rows.size());
  if (sequence_) *measured++ = saved.sequence.right, *measured++ = saved.sequence.labelled;
}

template <typename T>
void Bert<T>::backward_head(Activations& saved, T* d) {
  const PassContext& pass = saved.pass;
  const T* input = input_of(blocks_.size(), saved);
  T* seen = norm_ ? shaped<T>(normed_gradient_, boundary(pass)) : d;
  if (masked_)
    masked_->backward(pass, norm_ ? data_of<T>(saved.normed) : input, *token_, saved.masked, seen);
  else
    fill_zero_bytes(seen, static_cast<std::size_t>(boundary(pass).elements()) * sizeof(T));
  if (sequence_) sequence_->backward(pass, saved.sequence, seen);
  if (norm_)
    runtime_.clock->run("final norm backward", -1, pass.micro, [&] { norm_->backward(boundary(pass).rows(), input, seen, saved.norm, d); });
}

template class Bert<float>;
template class Bert<double>;

}  // namespace thinwire
