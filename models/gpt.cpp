#include "models/gpt.h"

#include <algorithm>

#include "kernels/nn/elementwise.h"

namespace thinwire {
namespace {

GptConfig checked(const GptConfig& config) {
  config.check();
  return config;
}

}  // namespace

void GptConfig::check() const {
  for (const auto& [name, value] : {std::pair{"vocab", vocab},
                                    {"hidden", hidden},
                                    {"layers", layers},
                                    {"heads", heads},
                                    {"sequence", max_seq}})
    if (value < 1)
      throw UsageError(std::string("Model size '") + name + "' is " + std::to_string(value) +
                       "; it must be at least 1.");
  if (hidden % heads != 0)
    throw UsageError("Hidden size " + std::to_string(hidden) + " is not a multiple of the " +
                     std::to_string(heads) + " attention heads. Choose --hidden as a multiple of --heads.");
  if (!(dropout >= 0 && dropout < 1))
    throw UsageError("Dropout rate " + std::to_string(dropout) + " is not in [0, 1).");
}

std::int64_t GptConfig::parameters() const {
  return (vocab + max_seq) * hidden + layers * (12 * hidden * hidden + 13 * hidden) + 2 * hidden;
}

template <typename T>
Gpt<T>::Gpt(const GptConfig& config, const Layout& layout)
    : config_(checked(config)),
      embedding_(config.vocab, config.max_seq, config.hidden, config.seed),
      head_(config.vocab, config.hidden, layout) {
  const BlockConfig block{config.hidden,  config.heads, config.layers,
                          config.dropout, config.seed,  config.compute};
  embedding_.collect(parameters_);
  for (int l = 0; l < config.layers; ++l) {
    blocks_.push_back(std::make_unique<Block<T>>(l, block, layout));
    blocks_.back()->collect(parameters_);
  }
  head_.collect(parameters_);
}

template <typename T>
const T* Gpt<T>::input_of(std::size_t block, const Activations& saved) const {
  return data_of<T>(block == 0 ? saved.embedded : saved.blocks[block - 1].output);
}

template <typename T>
double Gpt<T>::forward(const TokenBatch& batch, std::uint64_t step, bool train, double gradient_scale,
                       Activations& saved, TrafficObserver<T>* observer) {
  if (batch.seq > config_.max_seq)
    throw UsageError("Sequence of " + std::to_string(batch.seq) + " tokens exceeds the model's maximum of " +
                     std::to_string(config_.max_seq) + ".");
  const PassContext& pass = saved.pass = {batch.batch, batch.seq, train, step, batch.first_sample};
  TW_ASSERT(static_cast<std::int64_t>(batch.tokens.size()) == pass.rows() &&
            batch.targets.size() == batch.tokens.size());
  saved.blocks.resize(blocks_.size());
  T* x = shaped<T>(saved.embedded, {pass.rows(), config_.hidden});
  embedding_.forward(pass.rows(), pass.seq, batch.tokens.data(), x);
  nn::dropout<T>(pass.rows() * config_.hidden, train ? config_.dropout : 0.0,
                 {config_.seed, "embedding.dropout", step}, pass.first_sample * pass.seq * config_.hidden, x,
                 x);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    if (observer && l > 0)
      observer->boundary_activation(static_cast<int>(l), pass.rows(), config_.hidden, input_of(l, saved));
    blocks_[l]->forward(pass, input_of(l, saved), saved.blocks[l], work_, observer);
  }
  return head_.forward(pass.rows(), input_of(blocks_.size(), saved), embedding_.token.w(),
                       batch.targets.data(), gradient_scale, saved.head);
}

template <typename T>
void Gpt<T>::backward(const TokenBatch& batch, Activations& saved, TrafficObserver<T>* observer) {
  const PassContext& pass = saved.pass;
  const std::int64_t rows = pass.rows(), table = embedding_.token.elements();
  T* d = shaped<T>(gradient_, {rows, config_.hidden});
  head_.backward(rows, input_of(blocks_.size(), saved), embedding_.token.w(), saved.head, work_.narrow, d);
  if (observer)
    observer->embedding_gradient(false, config_.vocab, config_.hidden, data_of<T>(head_.table_gradient));
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    blocks_[l]->backward(pass, input_of(l, saved), saved.blocks[l], work_, d);
    if (observer && l > 0) observer->boundary_gradient(static_cast<int>(l), rows, config_.hidden, d);
  }
  nn::dropout<T>(rows * config_.hidden, pass.train ? config_.dropout : 0.0,
                 {config_.seed, "embedding.dropout", pass.step},
                 pass.first_sample * pass.seq * config_.hidden, d, d);
  // The look-up's share goes through a buffer of its own when somebody wants to see it.
  T* first_use = embedding_.token.g();
  if (observer) {
    first_use = shaped<T>(first_use_, embedding_.token.value.shape());
    std::fill(first_use, first_use + table, T{0});
  }
  embedding_.backward(rows, pass.seq, batch.tokens.data(), d, first_use);
  if (observer) {
    observer->embedding_gradient(true, config_.vocab, config_.hidden, first_use);
    nn::add_into<T>(table, first_use, embedding_.token.g());
  }
  nn::add_into<T>(table, data_of<T>(head_.table_gradient), embedding_.token.g());
}

template <typename T>
Parameter<T>& Gpt<T>::parameter(const std::string& name) {
  std::string known;
  for (Parameter<T>* p : parameters_) {
    if (p->name() == name) return *p;
    known += " " + p->name();
  }
  throw UsageError("The model has no parameter '" + name + "'. It has:" + known);
}

template <typename T>
void Gpt<T>::zero_gradients() {
  for (Parameter<T>* p : parameters_) p->gradient.fill_zero();
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace thinwire
