#include "models/gpt/grid_gpt.h"

#include "kernels/nn/elementwise.h"

namespace thinwire {

template <typename T>
GridGpt<T>::GridGpt(const GptConfig& config, const ModelPart& part, TensorGrid<T>& grid, bool recompute)
    : config_(config), part_(part), grid_(grid), recompute_(recompute) {
  config_.check();
  check_grid(grid.shape(), {0, config.hidden, config.heads});
  const auto layers = static_cast<int>(config.layers);
  if (part_.layers < 0) part_.layers = layers - part_.first_layer;
  TW_ASSERT(part_.first_layer >= 0 && part_.first_layer + part_.layers <= layers);
  const BlockConfig block{config.hidden, config.heads, config.layers, config.dropout, config.seed, config.compute};
  if (part_.embedding || part_.head) {
    const SplitGroups copies = part_.whole() ? SplitGroups{} : SplitGroups{{"embedding", 2, part_.embedding ? 0 : 1}};
    token_.emplace(grid_token_table<T>(grid, config.vocab, config.hidden, config.seed, copies));
    parameters_.push_back(&*token_);
  }
  if (part_.embedding) {
    embedding_.emplace(grid, config.vocab, config.max_seq, config.hidden, config.seed);
    parameters_.push_back(&embedding_->position);
    units_.push_back({"embedding", -1, {&*token_, &embedding_->position}});
  }
  for (int l = 0; l < part_.layers; ++l) {
    blocks_.push_back(std::make_unique<GridBlock<T>>(grid, part_.first_layer + l, block));
    blocks_.back()->collect(parameters_);
    units_.push_back({layer_name(part_.first_layer + l), part_.first_layer + l, {}});
    blocks_.back()->collect(units_.back().parameters);
  }
  if (part_.head) {
    head_.emplace(grid, config.vocab, config.hidden, layers, config.compute);
    head_->collect(parameters_);
    units_.push_back({"head", layers, {&*token_}});
    head_->collect(units_.back().parameters);
  }
}

template <typename T>
const T* GridGpt<T>::input_of(std::size_t block, const Activations& saved) const {
  return data_of<T>(block == 0 ? saved.input : saved.blocks[block - 1].output);
}

template <typename T>
Shape GridGpt<T>::boundary(const PassContext& pass) const {
  return {grid_.samples(pass.batch).count * pass.seq, grid_.columns(config_.hidden).count};
}

template <typename T>
void GridGpt<T>::drop_embedded(const PassContext& pass, T* x) {
  if (!pass.train || config_.dropout == 0) return;
  grid_.clock().run("embedding dropout", -1, pass.micro,
                    [&] { grid_dropout<T>(grid_, pass, config_.hidden, config_.dropout, config_.seed, "embedding.dropout", x, x); });
}

template <typename T>
Tensor& GridGpt<T>::output(Saved& s) const {
  auto& saved = static_cast<Activations&>(s);
  return blocks_.empty() ? saved.input : saved.blocks.back().output;
}

template <typename T>
void GridGpt<T>::place(const PassContext& pass, const Batch& batch, Saved& s) const {
  if (pass.seq > config_.max_seq)
    throw UsageError("Sequence of " + std::to_string(pass.seq) + " tokens exceeds the model's maximum of " + std::to_string(config_.max_seq) + ".");
  check_grid(grid_.shape(), {pass.batch, 0, 0});
  auto& saved = static_cast<Activations&>(s);
  saved.pass = pass;
  saved.blocks.resize(blocks_.size());
  if (part_.embedding) saved.tokens.set(numbers_of(batch, "tokens", pass));
  if (part_.head) saved.targets.set(numbers_of(batch, "targets", pass));
}

template <typename T>
void GridGpt<T>::forward_unit(std::size_t unit, double gradient_scale, Saved& s) {
  auto& saved = static_cast<Activations&>(s);
  const PassContext& pass = saved.pass;
  const int block = block_of(unit);
  if (block < 0) {
    T* x = shaped<T>(saved.input, boundary(pass));
    embedding_->forward(pass, saved.tokens.data(), *token_, x);
    drop_embedded(pass, x);
    return;
  }
  const auto l = static_cast<std::size_t>(block);
  if (l == blocks_.size()) {
    head_->forward(pass, input_of(l, saved), *token_, saved.targets.data(), gradient_scale, saved.head);
  } else if (!recompute_) {
    blocks_[l]->forward(pass, input_of(l, saved), saved.blocks[l]);
  } else {
    blocks_[l]->forward(pass, input_of(l, saved), again_);
    std::swap(again_.output, saved.blocks[l].output);
  }
}

template <typename T>
void GridGpt<T>::backward_unit(std::size_t unit, Saved& s, Tensor& gradient) {
  auto& saved = static_cast<Activations&>(s);
  const int block = block_of(unit);
  if (block == part_.layers) return backward_head(saved, gradient);
  T* d = data_of<T>(gradient);
  if (block >= 0) return backward_block(static_cast<std::size_t>(block), saved, d);
  drop_embedded(saved.pass, d);
  embedding_->backward(saved.pass, saved.tokens.data(), *token_, d, token_->g());
}

template <typename T>
void GridGpt<T>::backward_head(Activations& saved, Tensor& gradient) {
  T* d = shaped<T>(gradient, boundary(saved.pass));
  head_->backward(saved.pass, input_of(blocks_.size(), saved), *token_, saved.head, d);
  grid_.clock().run("add table gradient", -1, saved.pass.micro,
                    [&] { nn::add_into<T>(token_->elements(), data_of<T>(head_->table_gradient), token_->g()); });
}

template <typename T>
void GridGpt<T>::backward_block(std::size_t l, Activations& saved, T* d) {
  const PassContext& pass = saved.pass;
  typename GridBlock<T>::Saved* kept = &saved.blocks[l];
  if (recompute_) {
    PassContext again = pass;
    if (again.why == Pass::train) again.why = Pass::recompute;
    blocks_[l]->forward(again, input_of(l, saved), again_);
    kept = &again_;
  }
  blocks_[l]->backward(pass, input_of(l, saved), *kept, d);
}

template <typename T>
double GridGpt<T>::forward(const PassContext& pass, const Batch& batch, double gradient_scale, Activations& saved) {
  place(pass, batch, saved);
  for (std::size_t u = 0; u < units_.size(); ++u) forward_unit(u, gradient_scale, saved);
  return part_.head ? read_number(saved.head.loss) : 0;
}

template <typename T>
void GridGpt<T>::backward(const Batch& batch, Activations& saved, Tensor& gradient) {
  if (part_.embedding && placement().on_host()) saved.tokens.set(numbers_of(batch, "tokens", saved.pass));
  for (std::size_t u = units_.size(); u-- > 0;) backward_unit(u, saved, gradient);
}

template class GridGpt<float>;
template class GridGpt<double>;

}  // namespace thinwire
