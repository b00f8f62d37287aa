#include "models/layers/grid_embedding.h"

#include <algorithm>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/sums.h"
#include "kernels/nn/softmax.h"

namespace thinwire {
namespace {

/// Along this axis the vocabulary of the table is split, and with it the batch innermost: row, or input.
constexpr int vocabulary_axis = 1;

template <typename T>
bool cuts_table(const TensorGrid<T>& grid) {
  return grid.shape().kind == GridKind::three_d && grid.size(weight_axis) > 1;
}
template <typename T>
int depth_of(const TensorGrid<T>& grid) {
  return grid.shape().kind == GridKind::two_and_half_d ? grid.size(2) : 1;
}

/// The sequences of this rank's line along the vocabulary axis: what its look-ups work on.
template <typename T>
AxisRange line_samples(const TensorGrid<T>& grid, std::int64_t batch) {
  SplitGroups groups = grid_activation(grid.shape(), grid.rank()).batch;
  groups.pop_back();
  return split_axis("micro-batch", batch, groups);
}

}  // namespace

template <typename T>
Parameter<T> grid_token_table(TensorGrid<T>& grid, std::int64_t vocab, std::int64_t hidden, std::uint64_t seed, const SplitGroups& copies) {
  const std::int64_t rows = grid_vocabulary(grid.shape(), vocab);
  const ParameterLayout where = grid_linear(grid.shape(), "embedding.token", rows, hidden, grid.rank(), true).weight;
  SplitGroups replicas = where.replicas();
  replicas.insert(replicas.end(), copies.begin(), copies.end());
  return {ParameterLayout("embedding.token", {rows, hidden}, where.row_groups(), where.column_groups(), replicas).padded_after(vocab), true, token_rows(seed)};
}

template <typename T>
GridEmbedding<T>::GridEmbedding(TensorGrid<T>& grid, std::int64_t vocab, std::int64_t max_seq, std::int64_t hidden, std::uint64_t seed)
    : position(ParameterLayout("embedding.position", {max_seq, hidden}, {}, grid_activation(grid.shape(), grid.rank()).hidden,
                               grid_activation(grid.shape(), grid.rank()).batch),
               true),
      grid_(grid),
      vocab_(vocab),
      hidden_(hidden),
      max_seq_(max_seq) {
  initialise_normal(position.layout, seed, 0.002, position.value.view());
}

template <typename T>
void GridEmbedding<T>::forward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, T* y) {
  const AxisRange line = line_samples(grid_, pass.batch);
  const std::int64_t columns = grid_.columns(hidden_).count, rows = line.count * pass.seq, own = grid_.samples(pass.batch).count * pass.seq;
  const std::int64_t block = table.layout.global().rows() / grid_.size(vocabulary_axis);
  const T* whole = table.w();
  GridScratch::Lease<T> gathered;
  if (cuts_table(grid_)) {
    gathered = grid_.scratch().template borrow<T>(block * columns);
    grid_.wait(grid_.all_gather({GridUse::weight, weight_axis, "all_gather table", table.name(), -1, pass}, block, columns, table.w(), gathered.data()));
    whole = gathered.data();
  }
  const bool scatters = grid_.size(vocabulary_axis) > 1;
  auto partial = scatters ? grid_.scratch().template borrow<T>(rows * columns) : GridScratch::Lease<T>();
  grid_.clock().run("embedding", -1, pass.micro, [&] {
    nn::embed_part<T>(rows, columns, vocab_, grid_.index(vocabulary_axis) * block, block, tokens + line.begin * pass.seq, whole,
                      scatters ? partial.data() : y);
  });
  if (scatters)
    grid_.wait(grid_.reduce_scatter({GridUse::look_up, vocabulary_axis, "reduce_scatter look-up", table.name(), -1, pass}, rows, columns,
                                    partial.data(), y));
  grid_.clock().run("positions", -1, pass.micro, [&] {
    nn::add_rows<T>(own, columns, pass.seq, 0, position.w(), y);
  });
}

template <typename T>
void GridEmbedding<T>::backward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, const T* dy, T* token_gradient) {
  const AxisRange line = line_samples(grid_, pass.batch);
  const std::int64_t columns = grid_.columns(hidden_).count, rows = line.count * pass.seq, own = grid_.samples(pass.batch).count * pass.seq;
  const std::int64_t block = table.layout.global().rows() / grid_.size(vocabulary_axis);
  const T* all = dy;
  GridScratch::Lease<T> gathered;
  if (grid_.size(vocabulary_axis) > 1) {
    gathered = grid_.scratch().template borrow<T>(rows * columns);
    grid_.wait(grid_.all_gather({GridUse::look_up, vocabulary_axis, "all_gather look-up gradient", table.name(), -1, pass}, rows, columns, dy,
                                gathered.data()));
    all = gathered.data();
  }
  auto sums = grid_.scratch().template borrow<T>(block * columns);
  grid_.clock().run("embedding backward", -1, pass.micro, [&] {
    fill_zero_bytes(sums.data(), static_cast<std::size_t>(block * columns) * sizeof(T));
    nn::embed_part_backward<T>(rows, columns, grid_.index(vocabulary_axis) * block, block, tokens + line.begin * pass.seq, all, sums.data());
  });
  const T* mine = sums.data();
  GridScratch::Lease<T> shard;
  if (cuts_table(grid_)) {
    shard = grid_.scratch().template borrow<T>(table.elements());
    grid_.wait(grid_.reduce_scatter({GridUse::weight_gradient, weight_axis, "reduce_scatter table gradient", table.name(), -1, pass}, block, columns,
                                    sums.data(), shard.data()));
    mine = shard.data();
  }
  if (depth_of(grid_) > 1)
    grid_.wait(grid_.all_reduce({GridUse::weight_gradient, 2, "all_reduce table gradient over depth", table.name(), -1, pass}, block, columns, sums.data()));
  // Every rank of the plane that shares these columns has seen other sequences.
  const std::int64_t used = std::min(pass.seq, max_seq_);
  auto positions = grid_.scratch().template borrow<T>(used * columns);
  grid_.clock().run("positions backward", -1, pass.micro, [&] {
    nn::add_into<T>(table.elements(), mine, token_gradient);
    fill_zero_bytes(positions.data(), static_cast<std::size_t>(used * columns) * sizeof(T));
    nn::add_rows_gradient<T>(own, columns, pass.seq, 0, dy, positions.data());
  });
  const int outer = grid_.shape().kind == GridKind::three_d ? weight_axis : 2;
  for (const int axis : {vocabulary_axis, outer})
    if (grid_.size(axis) > 1)
      grid_.wait(grid_.all_reduce({GridUse::exact, axis, "all_reduce position gradient", position.name(), -1, pass}, used, columns, positions.data()));
  grid_.clock().run("add position gradient", -1, pass.micro, [&] { nn::add_into<T>(used * columns, positions.data(), position.g()); });
}

template <typename T>
GridTiedHead<T>::GridTiedHead(TensorGrid<T>& grid, std::int64_t vocab, std::int64_t hidden, int layers, nn::ComputeType compute)
    : norm(grid, "head.norm", layers - 1, hidden),
      grid_(grid),
      vocab_(vocab),
      padded_(grid_vocabulary(grid.shape(), vocab)),
      hidden_(hidden),
      layer_(layers - 1) {
  product_ = make_product<T>(grid, {"head", layer_, hidden, padded_, false, true, {"logits", "head backward", "table gradient"}, compute,
                                    "embedding.token"});
}

template <typename T>
void GridTiedHead<T>::forward(const PassContext& pass, const T* x, const Parameter<T>& table, const std::int32_t* targets, double gradient_scale,
                              Saved& s) {
  const std::int64_t own = grid_.samples(pass.batch).count * pass.seq, columns = grid_.columns(hidden_).count;
  T* normed = shaped<T>(s.normed, {own, columns});
  norm.forward(pass, x, normed, s.norm);
  // Logits have the layout behind a linear: in 3-D other sequences lie here than in front of it.
  const AxisRange samples = grid_.samples(pass.batch, true), mine = grid_.columns(padded_, true);
  const std::int64_t rows = samples.count * pass.seq, valid = std::clamp<std::int64_t>(vocab_ - mine.begin, 0, mine.count);
  T* logits = shaped<T>(s.logits, {rows, mine.count});
  product_->forward(pass, normed, table.w(), logits, &s.kept);

  // Exact statistics: the maximum first, then the sums that it scales and the target's logit, together.
  const std::int32_t* own_targets = targets + samples.begin * pass.seq;
  auto statistics = grid_.scratch().template borrow<T>(rows * 3);
  auto maxima = grid_.scratch().template borrow<T>(rows);
  auto sums = grid_.scratch().template borrow<T>(rows * 2);
  const int axis = vector_axes(grid_.shape(), false).columns;
  T *st = statistics.data(), *top = maxima.data(), *sum = sums.data();
  grid_.clock().run("softmax statistics", -1, pass.micro, [&] {
    nn::softmax_statistics<T>(rows, mine.count, valid, mine.begin, vocab_, logits, own_targets, st);
    nn::take_maxima<T>(rows, st, top);
  });
  if (grid_.size(axis) > 1) grid_.wait(grid_.all_reduce({GridUse::maximum, axis, "all_reduce softmax maximum", "head", layer_, pass}, rows, 1, top));
  grid_.clock().run("softmax sums", -1, pass.micro, [&] { nn::rescale_sums<T>(rows, valid, st, top, sum); });
  if (grid_.size(axis) > 1) grid_.wait(grid_.all_reduce({GridUse::exact, axis, "all_reduce softmax sums", "head", layer_, pass}, rows, 2, sum));
  const double share = 1.0 / static_cast<double>(pass.rows());
  T* loss = shaped<T>(loss_, {1});
  grid_.clock().run("loss", -1, pass.micro, [&] {
    nn::join_statistics<T>(rows, top, sum, st);
    nn::split_cross_entropy<T>(rows, mine.count, valid, mine.begin, 1, st, own_targets, static_cast<T>(gradient_scale * share), logits, top);
    loss_.fill_zero();
    nn::add_total<T, T>(rows, top, share, 1.0, loss);
  });
  // The mean over the plane of the rows; ranks along the vocabulary hold equal values.
  for (int a = 0; a < 3; ++a)
    if (a != axis && grid_.size(a) > 1) grid_.wait(grid_.all_reduce({GridUse::exact, a, "all_reduce loss", "head", layer_, pass}, 1, 1, loss));
  double* whole = shaped<double>(s.loss, {1});
  s.loss.fill_zero();
  nn::add_total<T, double>(1, loss, 1.0, 1.0, whole);
}

template <typename T>
void GridTiedHead<T>::backward(const PassContext& pass, const T* x, const Parameter<T>& table, Saved& s, T* dx) {
  const std::int64_t own = grid_.samples(pass.batch).count * pass.seq * grid_.columns(hidden_).count;
  T* dtable = shaped<T>(table_gradient, table.value.shape());
  table_gradient.fill_zero();
  auto dnormed = grid_.scratch().template borrow<T>(own);
  product_->backward(pass, data_of<T>(s.normed), table.w(), data_of<T>(s.logits), dnormed.data(), dtable, &s.kept);
  fill_zero_bytes(dx, static_cast<std::size_t>(own) * sizeof(T));
  norm.backward_add(pass, x, dnormed.data(), s.norm, dx);
}

template Parameter<float> grid_token_table<float>(TensorGrid<float>&, std::int64_t, std::int64_t, std::uint64_t, const SplitGroups&);
template Parameter<double> grid_token_table<double>(TensorGrid<double>&, std::int64_t, std::int64_t, std::uint64_t, const SplitGroups&);
template class GridEmbedding<float>;
template class GridEmbedding<double>;
template class GridTiedHead<float>;
template class GridTiedHead<double>;

}  // namespace thinwire
