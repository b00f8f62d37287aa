#include "models/gpt/grid_gpt.h"

#include "kernels/nn/elementwise.h"

namespace thinwire {

template <typename T>
GridGpt<T>::GridGpt(const GptConfig& config, const GptPart& part, TensorGrid<T>& grid, bool recompute)
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
  }
  layers_.resize(parameters_.size(), part_.embedding ? -1 : layers);
  for (int l = 0; l < part_.layers; ++l) {
    blocks_.push_back(std::make_unique<GridBlock<T>>(grid, part_.first_layer + l, block));
    blocks_.back()->collect(parameters_);
    layers_.resize(parameters_.size(), part_.first_layer + l);
  }
  if (part_.head) {
    head_.emplace(grid, config.vocab, config.hidden, layers, config.compute);
    head_->collect(parameters_);
    layers_.resize(parameters_.size(), layers);
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
void GridGpt<T>::run_forward(const PassContext& pass, const TokenBatch& batch, double gradient_scale, Activations& saved) {
  if (pass.seq > config_.max_seq)
    throw UsageError("Sequence of " + std::to_string(pass.seq) + " tokens exceeds the model's maximum of " + std::to_string(config_.max_seq) + ".");
  TW_ASSERT(static_cast<std::int64_t>(batch.tokens.size()) == pass.rows() && batch.targets.size() == batch.tokens.size());
  check_grid(grid_.shape(), {pass.batch, 0, 0});
  saved.pass = pass;
  saved.blocks.resize(blocks_.size());
  if (part_.embedding) {
    T* x = shaped<T>(saved.input, boundary(pass));
    embedding_->forward(pass, saved.tokens.set(batch.tokens), *token_, x);
    drop_embedded(pass, x);
  }
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    if (!recompute_) {
      blocks_[l]->forward(pass, input_of(l, saved), saved.blocks[l]);
      continue;
    }
    blocks_[l]->forward(pass, input_of(l, saved), again_);
    std::swap(again_.output, saved.blocks[l].output);
  }
  if (part_.head) head_->forward(pass, input_of(blocks_.size(), saved), *token_, saved.targets.set(batch.targets), gradient_scale, saved.head);
}

template <typename T>
double GridGpt<T>::forward(const PassContext& pass, const TokenBatch& batch, double gradient_scale, Activations& saved) {
  run_forward(pass, batch, gradient_scale, saved);
  return part_.head ? read_number(saved.head.loss) : 0;
}

template <typename T>
void GridGpt<T>::backward(const TokenBatch& batch, Activations& saved, Tensor& gradient, const LayerDone& layer_done) {
  const PassContext& pass = saved.pass;
  ComputeClock& clock = grid_.clock();
  if (part_.head) shaped<T>(gradient, boundary(pass));
  T* d = data_of<T>(gradient);
  if (part_.head) {
    head_->backward(pass, input_of(blocks_.size(), saved), *token_, saved.head, d);
    clock.run("add table gradient", -1, pass.micro,
              [&] { nn::add_into<T>(token_->elements(), data_of<T>(head_->table_gradient), token_->g()); });
    if (layer_done) layer_done(static_cast<int>(config_.layers));
  }
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    typename GridBlock<T>::Saved* kept = &saved.blocks[l];
    if (recompute_) {
      PassContext again = pass;
      if (again.why == Pass::train) again.why = Pass::recompute;
      blocks_[l]->forward(again, input_of(l, saved), again_);
      kept = &again_;
    }
    blocks_[l]->backward(pass, input_of(l, saved), *kept, d);
    if (layer_done) layer_done(part_.first_layer + static_cast<int>(l));
  }
  if (!part_.embedding) return;
  drop_embedded(pass, d);
  embedding_->backward(pass, placed_tokens(saved.tokens, batch), *token_, d, token_->g());
  if (layer_done) layer_done(-1);
}

template <typename T>
void GridGpt<T>::zero_gradients() {
  for (Parameter<T>* p : parameters_) p->gradient.fill_zero();
}

template class GridGpt<float>;
template class GridGpt<double>;

}  // namespace thinwire
