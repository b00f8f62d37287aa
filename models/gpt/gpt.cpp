#include "models/gpt/gpt.h"

#include <algorithm>

#include "core/joined.h"
#include "kernels/nn/elementwise.h"
#include "models/layers/token_dropout.h"

namespace thinwire {
namespace {

GptConfig checked(const GptConfig& config) {
  config.check();
  return config;
}

}  // namespace

template <typename T>
Gpt<T>::Gpt(const GptConfig& config, const ModelPart& part, const GptRuntime<T>& runtime)
    : config_(checked(config)),
      part_(part),
      runtime_{runtime.tensor ? runtime.tensor : &alone_, runtime.clock ? runtime.clock : &own_clock_},
      recompute_(runtime.recompute) {
  const auto layers = static_cast<int>(config.layers);
  if (part_.layers < 0) part_.layers = layers - part_.first_layer;
  TW_ASSERT(part_.first_layer >= 0 && part_.first_layer + part_.layers <= layers);
  const BlockConfig block{config.hidden, config.heads, config.layers, config.dropout, config.seed, config.compute};
  if (part_.embedding || (part_.head && !config.own_head)) {
    // In a pipeline the first and the last stage hold a tied table; the first stage's copy is the one that counts.
    const SplitGroups copies = part_.whole() || config.own_head ? SplitGroups{} : SplitGroups{{"embedding", 2, part_.embedding ? 0 : 1}};
    token_.emplace(token_table<T>(config.vocab, config.hidden, config.seed, tensor(), copies));
    parameters_.push_back(&*token_);
  }
  if (part_.embedding) {
    embedding_.emplace(config.vocab, config.max_seq, config.hidden, config.seed, runtime_);
    parameters_.push_back(&embedding_->position);
    units_.push_back({"embedding", -1, {&*token_, &embedding_->position}});
  }
  for (int l = 0; l < part_.layers; ++l) {
    blocks_.push_back(std::make_unique<Block<T>>(part_.first_layer + l, block, runtime_));
    blocks_.back()->collect(parameters_);
    units_.push_back({layer_name(part_.first_layer + l), part_.first_layer + l, {}, blocks_.back()->summed()});
    blocks_.back()->collect(units_.back().parameters);
  }
  if (part_.head) {
    head_.emplace(config.vocab, config.hidden, layers, runtime_, config.compute);
    if (config.own_head) {
      head_token_.emplace(token_table<T>(config.vocab, config.hidden, config.seed, tensor(), {}, "head.token"));
      parameters_.push_back(&*head_token_);
    }
    head_->collect(parameters_);
    units_.push_back({"head", layers, {&head_table()}});
    head_->collect(units_.back().parameters);
  }
}

template <typename T>
Shape Gpt<T>::boundary(const PassContext& pass) const {
  return {tensor().own_rows(pass.rows()).count, config_.hidden};
}

template <typename T>
Tensor& Gpt<T>::output(Saved& s) const {
  auto& saved = static_cast<Activations&>(s);
  return blocks_.empty() ? saved.input : saved.blocks.back().output;
}

template <typename T>
const T* Gpt<T>::input_of(std::size_t block, const Activations& saved) const {
  return data_of<T>(block == 0 ? saved.input : saved.blocks[block - 1].output);
}

template <typename T>
void Gpt<T>::drop_embedded(const PassContext& pass, T* x) const {
  drop_tokens<T>(pass, runtime_.tensor->own_rows(pass.rows()), config_.hidden, pass.train ? config_.dropout : 0.0,
                 {config_.seed, "embedding.dropout", pass.step}, x, x);
}

template <typename T>
void Gpt<T>::place(const PassContext& pass, const Batch& batch, Saved& s) const {
  if (std::max(pass.seq, pass.length) > config_.max_seq)
    throw UsageError("Sequence of " + std::to_string(std::max(pass.seq, pass.length)) + " tokens exceeds the model's maximum of " +
                     std::to_string(config_.max_seq) + ".");
  auto& saved = static_cast<Activations&>(s);
  saved.pass = pass;
  saved.blocks.resize(blocks_.size());
  if (pass.sliced()) {
    TW_ASSERT(saved.prefix != nullptr && !tensor().sequence_parallel());
    saved.prefix->resize(blocks_.size());
  }
  if (part_.embedding) saved.tokens.set(numbers_of(batch, "tokens", pass));
  if (part_.head) saved.targets.set(numbers_of(batch, "targets", pass));
}

template <typename T>
void Gpt<T>::forward_unit(std::size_t unit, double gradient_scale, Saved& saved) {
  forward_unit(unit, gradient_scale, static_cast<Activations&>(saved), nullptr);
}

template <typename T>
void Gpt<T>::forward_unit(std::size_t unit, double gradient_scale, Activations& saved, TrafficObserver<T>* observer) {
  const int block = block_of(unit);
  if (block < 0) return embed(saved);
  const auto l = static_cast<std::size_t>(block);
  if (l < blocks_.size()) return forward_block(l, saved, observer);
  head_->forward(saved.pass, input_of(l, saved), head_table(), saved.targets.data(), gradient_scale, saved.head);
}

template <typename T>
void Gpt<T>::embed(Activations& saved) {
  const PassContext& pass = saved.pass;
  T* x = shaped<T>(saved.input, boundary(pass));
  embedding_->forward(pass, saved.tokens.data(), *token_, x);
  if (pass.train && config_.dropout > 0)
    runtime_.clock->run("embedding dropout", -1, pass.micro, [&] { drop_embedded(pass, x); });
}

template <typename T>
void Gpt<T>::forward_block(std::size_t l, Activations& saved, TrafficObserver<T>* observer) {
  const PassContext& pass = saved.pass;
  const int layer = part_.first_layer + static_cast<int>(l);
  Tensor* cache = pass.sliced() ? &(*saved.prefix)[l] : nullptr;
  if (observer && layer > 0) observer->boundary_activation(layer, boundary(pass).rows(), config_.hidden, input_of(l, saved));
  if (!recompute_) {
    blocks_[l]->forward(pass, input_of(l, saved), saved.blocks[l], work_, observer, cache);
    return;
  }
  blocks_[l]->forward(pass, input_of(l, saved), again_, work_, observer, cache);
  std::swap(again_.output, saved.blocks[l].output);
}

template <typename T>
void Gpt<T>::backward_unit(std::size_t unit, Saved& saved, Tensor& gradient) {
  backward_unit(unit, static_cast<Activations&>(saved), gradient, nullptr);
}

template <typename T>
void Gpt<T>::backward_unit(std::size_t unit, Activations& saved, Tensor& gradient, TrafficObserver<T>* observer) {
  const int block = block_of(unit);
  if (block < 0) return backward_embedding(saved, gradient, observer);
  if (block == part_.layers) return backward_head(saved, gradient, observer);
  backward_block(static_cast<std::size_t>(block), saved, gradient, observer);
}

template <typename T>
void Gpt<T>::backward_head(Activations& saved, Tensor& gradient, TrafficObserver<T>* observer) {
  const PassContext& pass = saved.pass;
  T* d = shaped<T>(gradient, boundary(pass));
  Parameter<T>& table = head_table();
  head_->backward(pass, input_of(blocks_.size(), saved), table, saved.head, work_.narrow, d);
  if (observer) observer->embedding_gradient(false, config_.vocab, config_.hidden, data_of<T>(head_->table_gradient));
  runtime_.clock->run("add table gradient", -1, pass.micro,
                      [&] { nn::add_into<T>(table.elements(), data_of<T>(head_->table_gradient), table.g()); });
}

template <typename T>
void Gpt<T>::backward_block(std::size_t l, Activations& saved, Tensor& gradient, TrafficObserver<T>* observer) {
  const PassContext& pass = saved.pass;
  const int layer = part_.first_layer + static_cast<int>(l);
  T* d = data_of<T>(gradient);
  typename Block<T>::Saved* kept = &saved.blocks[l];
  Tensor* cache = pass.sliced() ? &(*saved.prefix)[l] : nullptr;
  if (recompute_) {
    PassContext again = pass;
    if (again.why == Pass::train) again.why = Pass::recompute;
    blocks_[l]->forward(again, input_of(l, saved), again_, work_, nullptr, cache);
    kept = &again_;
  }
  blocks_[l]->backward(pass, input_of(l, saved), *kept, work_, d, cache);
  if (observer && layer > 0) observer->boundary_gradient(layer, boundary(pass).rows(), config_.hidden, d);
  if (boundary_ && layer > 0) {
    boundary_(layer, pass, gradient);
    TW_ASSERT(data_of<T>(gradient) == d, "a boundary hook must leave the tensor where it is");
  }
}

template <typename T>
void Gpt<T>::backward_embedding(Activations& saved, Tensor& gradient, TrafficObserver<T>* observer) {
  const PassContext& pass = saved.pass;
  const std::int64_t table = token_->elements();
  T* d = data_of<T>(gradient);
  if (pass.train && config_.dropout > 0)
    runtime_.clock->run("embedding dropout backward", -1, pass.micro, [&] { drop_embedded(pass, d); });
  // The look-up's share goes through a buffer of its own when somebody wants to see it.
  T* first_use = token_->g();
  if (observer || (boundary_ && !config_.own_head)) {
    const bool fresh = first_use_.elements() != table;
    first_use = shaped<T>(first_use_, token_->shape());
    if (observer || fresh) {
      TW_ASSERT(!(observer && boundary_), "an observer would see sums of several micro-batches");
      first_use_.fill_zero();
    }
  }
  embedding_->backward(pass, saved.tokens.data(), *token_, d, first_use);
  if (observer) {
    observer->embedding_gradient(true, config_.vocab, config_.hidden, first_use);
    nn::add_into<T>(table, first_use, token_->g());
  }
}

template <typename T>
void Gpt<T>::run_forward(const PassContext& pass, const Batch& batch, double gradient_scale, Activations& saved,
                         TrafficObserver<T>* observer) {
  if (observer && !placement().on_host()) throw UsageError("Captured traffic is read on the host; capture with the model on the host (--device host).");
  place(pass, batch, saved);
  for (std::size_t u = 0; u < units_.size(); ++u) forward_unit(u, gradient_scale, saved, observer);
}

template <typename T>
double Gpt<T>::forward(const PassContext& pass, const Batch& batch, double gradient_scale, Activations& saved,
                       TrafficObserver<T>* observer) {
  run_forward(pass, batch, gradient_scale, saved, observer);
  return part_.head ? read_number(saved.head.loss) : 0;
}

template <typename T>
void Gpt<T>::backward(const Batch& batch, Activations& saved, Tensor& gradient, TrafficObserver<T>* observer) {
  // On the host tokens are the batch's own, which may be another copy by now.
  if (part_.embedding && placement().on_host()) saved.tokens.set(numbers_of(batch, "tokens", saved.pass));
  for (std::size_t u = units_.size(); u-- > 0;) backward_unit(u, saved, gradient, observer);
}

template <typename T>
double Gpt<T>::forward(const Batch& batch, std::uint64_t step, bool train, double gradient_scale, Activations& saved,
                       TrafficObserver<T>* observer) {
  TW_ASSERT(part_.whole());
  PassContext pass{batch.batch, batch.seq, train, step, batch.first_sample};
  pass.why = train ? Pass::train : Pass::evaluate;
  pass.samples = batch.sample_ids;
  return forward(pass, batch, gradient_scale, saved, observer);
}

template <typename T>
void Gpt<T>::backward(const Batch& batch, Activations& saved, TrafficObserver<T>* observer) {
  backward(batch, saved, gradient_, observer);
}

template <typename T>
Parameter<T>& Gpt<T>::parameter(const std::string& name) {
  for (Parameter<T>* p : parameters_)
    if (p->name() == name) return *p;
  throw UsageError("The model has no parameter '" + name + "'. It has: " + joined(parameters_, " ", &Parameter<T>::name));
}

template <typename T>
void Gpt<T>::join_table_gradients() {
  if (!boundary_ || !token_ || first_use_.elements() == 0) return;
  nn::add_into<T>(token_->elements(), data_of<T>(first_use_), token_->g());
  first_use_.fill_zero();
}

template <typename T>
void Gpt<T>::zero_gradients() {
  if (boundary_ && first_use_.elements() > 0) first_use_.fill_zero();
  Stage<T>::zero_gradients();
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace thinwire
