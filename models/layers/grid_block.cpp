#include "models/layers/grid_block.h"

#include "kernels/nn/attention/attention.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"

namespace thinwire {
namespace {

template <typename T>
GridLinear<T> linear(TensorGrid<T>& grid, int layer, const BlockConfig& c, const char* name, std::int64_t in, std::int64_t out, bool second,
                     const ProductSections& sections) {
  return GridLinear<T>(grid, {layer_name(layer) + name, layer, in, out, second, false, sections, c.compute}, c.seed,
                       second ? residual_deviation(c) : weight_deviation);
}

}  // namespace

template <typename T>
GridMlp<T>::GridMlp(TensorGrid<T>& grid, int layer, const BlockConfig& c)
    : expand(linear<T>(grid, layer, c, ".mlp.expand", c.hidden, 4 * c.hidden, false, {"expand", "expand backward", "expand weight"})),
      project(linear<T>(grid, layer, c, ".mlp.projection", 4 * c.hidden, c.hidden, true,
                        {"mlp projection", "mlp projection backward", "mlp projection weight"})),
      grid_(grid),
      layer_(layer),
      hidden_(c.hidden) {}

template <typename T>
std::int64_t GridMlp<T>::wide(const PassContext& pass) const {
  return grid_.samples(pass.batch, true).count * pass.seq * grid_.columns(4 * hidden_, true).count;
}

template <typename T>
void GridMlp<T>::forward(const PassContext& pass, const T* x, T* y, Saved& s) {
  const std::int64_t n = wide(pass);
  T* expanded = shaped<T>(s.expanded, {n});
  expand.forward(pass, x, expanded, &s.kept_expand);
  auto activated = grid_.scratch().template borrow<T>(n);
  grid_.clock().run("gelu", layer_, pass.micro, [&] { nn::gelu_forward<T>(n, expanded, activated.data()); });
  project.forward(pass, activated.data(), y, &s.kept_project);
}

template <typename T>
void GridMlp<T>::backward(const PassContext& pass, const T* x, const T* dy, T* dx, Saved& s) {
  const std::int64_t n = wide(pass);
  auto activated = grid_.scratch().template borrow<T>(n), gradient = grid_.scratch().template borrow<T>(n);
  grid_.clock().run("gelu", layer_, pass.micro, [&] { nn::gelu_forward<T>(n, data_of<T>(s.expanded), activated.data()); });
  project.backward(pass, activated.data(), dy, gradient.data(), &s.kept_project);
  activated.release();
  grid_.clock().run("gelu backward", layer_, pass.micro,
                    [&] { nn::gelu_backward<T>(n, data_of<T>(s.expanded), gradient.data(), gradient.data()); });
  expand.backward(pass, x, gradient.data(), dx, &s.kept_expand);
}

template <typename T>
void GridMlp<T>::collect(ParameterList<T>& list) {
  expand.collect(list);
  project.collect(list);
}

template <typename T>
GridAttention<T>::GridAttention(TensorGrid<T>& grid, int layer, const BlockConfig& c)
    : qkv(linear<T>(grid, layer, c, ".attention.qkv", c.hidden, 3 * c.hidden, false, {"qkv", "qkv backward", "qkv weight"})),
      project(linear<T>(grid, layer, c, ".attention.projection", c.hidden, c.hidden, true,
                        {"attention projection", "attention projection backward", "attention projection weight"})),
      grid_(grid),
      layer_(layer),
      hidden_(c.hidden),
      // Columns of the QKV weight are head-major, so a rank's columns are whole heads.
      heads_(split_axis("attention heads", c.heads, grid_activation(grid.shape(), grid.rank(), true).hidden).count),
      compute_(c.compute) {}

template <typename T>
void GridAttention<T>::forward(const PassContext& pass, const T* x, T* y, Saved& s) {
  const std::int64_t batch = grid_.samples(pass.batch, true).count, rows = batch * pass.seq, columns = grid_.columns(hidden_, true).count;
  T *qkv_out = shaped<T>(s.qkv, {rows, 3 * columns}), *context = shaped<T>(s.context, {rows, columns}),
    *lse = shaped<T>(s.log_sum_exp, {batch, heads_, pass.seq});
  qkv.forward(pass, x, qkv_out, &s.kept_qkv);
  grid_.clock().run("attention", layer_, pass.micro,
                    [&] { nn::attention_forward<T>({batch, pass.seq, heads_, columns / heads_}, qkv_out, context, lse, compute_); });
  project.forward(pass, context, y, &s.kept_project);
}

template <typename T>
void GridAttention<T>::backward(const PassContext& pass, const T* x, const T* dy, T* dx, Saved& s) {
  const std::int64_t batch = grid_.samples(pass.batch, true).count, rows = batch * pass.seq, columns = grid_.columns(hidden_, true).count;
  auto context = grid_.scratch().template borrow<T>(rows * columns), wide = grid_.scratch().template borrow<T>(rows * 3 * columns);
  project.backward(pass, data_of<T>(s.context), dy, context.data(), &s.kept_project);
  grid_.clock().run("attention backward", layer_, pass.micro, [&] {
    nn::attention_backward<T>({batch, pass.seq, heads_, columns / heads_}, data_of<T>(s.qkv), data_of<T>(s.context),
                              data_of<T>(s.log_sum_exp), context.data(), wide.data(), compute_);
  });
  context.release();
  qkv.backward(pass, x, wide.data(), dx, &s.kept_qkv);
}

template <typename T>
void GridAttention<T>::collect(ParameterList<T>& list) {
  qkv.collect(list);
  project.collect(list);
}

// Dropout is keyed by the element's place in the step's global batch; a shard's rows are consecutive, its columns a part of each row.
template <typename T>
void grid_dropout(TensorGrid<T>& grid, const PassContext& pass, std::int64_t hidden, double rate, std::uint64_t seed, const std::string& name,
                  const T* x, T* y) {
  const AxisRange samples = grid.samples(pass.batch), columns = grid.columns(hidden);
  const std::int64_t first = (pass.first_sample + samples.begin) * pass.seq, rows = samples.count * pass.seq;
  nn::dropout_rows<T>(rows, columns.count, hidden, pass.train ? rate : 0.0, {seed, name, pass.step}, first * hidden + columns.begin, x, y);
}

template <typename T>
GridBlock<T>::GridBlock(TensorGrid<T>& grid, int index, const BlockConfig& c)
    : norm1(grid, layer_name(index) + ".attention.norm", index, c.hidden),
      norm2(grid, layer_name(index) + ".mlp.norm", index, c.hidden),
      attention(grid, index, c),
      mlp(grid, index, c),
      grid_(grid),
      index_(index),
      name_(layer_name(index)),
      config_(c) {}

template <typename T>
void GridBlock<T>::forward(const PassContext& pass, const T* x, Saved& s) {
  const std::int64_t rows = grid_.samples(pass.batch).count * pass.seq, columns = grid_.columns(config_.hidden).count;
  T *normed1 = shaped<T>(s.normed1, {rows, columns}), *middle = shaped<T>(s.middle, {rows, columns}),
    *normed2 = shaped<T>(s.normed2, {rows, columns}), *output = shaped<T>(s.output, {rows, columns});
  norm1.forward(pass, x, normed1, s.norm1);
  attention.forward(pass, normed1, middle, s.attention);
  const auto join = [&](const char* name, const T* residual, T* branch) {
    grid_.clock().run("residual", index_, pass.micro, [&] {
      if (pass.train && config_.dropout > 0) grid_dropout<T>(grid_, pass, config_.hidden, config_.dropout, config_.seed, name_ + name, branch, branch);
      nn::add_into<T>(rows * columns, residual, branch);
    });
  };
  join(".attention.dropout", x, middle);
  norm2.forward(pass, middle, normed2, s.norm2);
  mlp.forward(pass, normed2, output, s.mlp);
  join(".mlp.dropout", middle, output);
}

template <typename T>
void GridBlock<T>::backward(const PassContext& pass, const T* x, Saved& s, T* d) {
  const std::int64_t elements = grid_.samples(pass.batch).count * pass.seq * grid_.columns(config_.hidden).count;
  const bool dropping = pass.train && config_.dropout > 0;
  // The residual stream passes its gradient on unchanged; a branch sees it through its dropout mask.
  auto branch = dropping ? grid_.scratch().template borrow<T>(elements) : GridScratch::Lease<T>();
  auto gradient = grid_.scratch().template borrow<T>(elements);
  const auto into_branch = [&](const char* name) -> const T* {
    if (!dropping) return d;
    grid_.clock().run("residual backward", index_, pass.micro, [&] {
      grid_dropout<T>(grid_, pass, config_.hidden, config_.dropout, config_.seed, name_ + name, d, branch.data());
    });
    return branch.data();
  };
  mlp.backward(pass, data_of<T>(s.normed2), into_branch(".mlp.dropout"), gradient.data(), s.mlp);
  norm2.backward_add(pass, data_of<T>(s.middle), gradient.data(), s.norm2, d);
  attention.backward(pass, data_of<T>(s.normed1), into_branch(".attention.dropout"), gradient.data(), s.attention);
  norm1.backward_add(pass, x, gradient.data(), s.norm1, d);
}

template <typename T>
void GridBlock<T>::collect(ParameterList<T>& list) {
  norm1.collect(list);
  attention.collect(list);
  norm2.collect(list);
  mlp.collect(list);
}

#define TW_INSTANTIATE(T)            \
  template class GridMlp<T>;         \
  template class GridAttention<T>;   \
  template class GridBlock<T>;       \
  template void grid_dropout<T>(TensorGrid<T>&, const PassContext&, std::int64_t, double, std::uint64_t, const std::string&, const T*, T*)
TW_INSTANTIATE(float);
TW_INSTANTIATE(double);
#undef TW_INSTANTIATE

}  // namespace thinwire
