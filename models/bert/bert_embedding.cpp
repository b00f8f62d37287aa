#include "models/bert/bert_embedding.h"

#include "kernels/nn/elementwise.h"
#include "models/layers/token_dropout.h"

namespace thinwire {
namespace {

constexpr double deviation = 0.02;  // of all three tables (BERT, initializer_range)

template <typename T>
SplitGroups replicas_of(const TensorParallel<T>& tensor) {
  return tensor.splits() ? SplitGroups{tensor.group()} : SplitGroups{};
}

}  // namespace

template <typename T>
BertEmbedding<T>::BertEmbedding(const BertConfig& c, const LayerRuntime<T>& runtime)
    : words(c.vocab, c.max_seq, c.hidden, c.seed, runtime, deviation), config_(c), tensor_(*runtime.tensor), clock_(*runtime.clock) {
  if (c.types > 0) types.emplace(ParameterLayout("embedding.type", {c.types, c.hidden}, {}, {}, replicas_of(tensor_)), true, normal_rows(c.seed, deviation));
  if (c.post_norm) norm.emplace("embedding.norm", c.hidden, Layout::replicated(), replicas_of(tensor_), c.epsilon);
}

template <typename T>
void BertEmbedding<T>::collect(ParameterList<T>& list) {
  list.push_back(&words.position);
  if (types) list.push_back(&*types);
  if (norm) norm->collect(list);
}

template <typename T>
void BertEmbedding<T>::drop(const PassContext& pass, T* x) const {
  drop_tokens<T>(pass, tensor_.own_rows(pass.rows()), config_.hidden, pass.train ? config_.dropout : 0.0, {config_.seed, "embedding.dropout", pass.step}, x, x);
}

template <typename T>
void BertEmbedding<T>::forward(const PassContext& pass, const std::int32_t* tokens, const std::int32_t* kinds, const Parameter<T>& table, Saved& s, T* y) {
  const RowBlock own = tensor_.own_rows(pass.rows());
  const std::int64_t h = config_.hidden;
  T* sum = norm ? shaped<T>(s.sum, {own.count, h}) : y;
  words.forward(pass, tokens, table, sum);
  clock_.run("embedding norm", -1, pass.micro, [&] {
    if (types) {
      T* of_type = shaped<T>(looked_up_, {own.count, h});
      nn::embed_part<T>(own.count, h, config_.types, 0, config_.types, kinds + own.first, types->w(), of_type);
      nn::add_into<T>(own.count * h, of_type, sum);
    }
    if (norm) norm->forward(own.count, sum, y, s.norm);
    drop(pass, y);
  });
}

template <typename T>
void BertEmbedding<T>::backward(const PassContext& pass, const std::int32_t* tokens, const std::int32_t* kinds, Parameter<T>& table, const Saved& s, T* d) {
  const RowBlock own = tensor_.own_rows(pass.rows());
  const std::int64_t h = config_.hidden;
  T* gradient = norm ? shaped<T>(gradient_, {own.count, h}) : d;
  clock_.run("embedding norm backward", -1, pass.micro, [&] {
    drop(pass, d);
    if (norm) norm->backward(own.count, data_of<T>(s.sum), d, s.norm, gradient);
    if (types) nn::embed_part_backward<T>(own.count, h, 0, config_.types, kinds + own.first, gradient, types->g());
  });
  words.backward(pass, tokens, table, gradient, table.g());
}

template class BertEmbedding<float>;
template class BertEmbedding<double>;

}  // namespace thinwire
