#include "models/layers/grid_linear.h"

#include <algorithm>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/layernorm.h"

namespace thinwire {

template <typename T>
GridVector<T>::GridVector(TensorGrid<T>& grid, const std::string& name, int layer, std::int64_t extent, bool swapped)
    : parameter(vector_layout(grid.shape(), name, extent, grid.rank(), swapped), false),
      grid_(grid),
      layer_(layer),
      axes_(vector_axes(grid.shape(), swapped)),
      root_(axes_.root(grid.shape(), grid.rank())),
      mine_(grid.index(axes_.across) == root_),
      columns_(extent / grid.size(axes_.columns)),
      piece_(axes_.sub < 0 ? columns_ : columns_ / grid.size(axes_.sub)) {}

template <typename T>
typename TensorGrid<T>::Message GridVector<T>::message(const PassContext& pass, int axis, const char* label) const {
  return {GridUse::exact, axis, label, parameter.name(), layer_, pass};
}

template <typename T>
void GridVector<T>::gather(const PassContext& pass, T* whole) {
  const bool cut = axes_.sub >= 0 && grid_.size(axes_.sub) > 1;
  auto buffer = cut ? grid_.scratch().template borrow<T>(piece_) : GridScratch::Lease<T>();
  T* piece = cut ? buffer.data() : whole;
  if (mine_) copy_elements(piece, parameter.w(), static_cast<std::size_t>(piece_));
  if (grid_.size(axes_.across) > 1) grid_.wait(grid_.broadcast(message(pass, axes_.across, "broadcast vector"), piece_, 1, piece, root_));
  if (cut) grid_.wait(grid_.all_gather(message(pass, axes_.sub, "all_gather vector"), columns_, 1, piece, whole));
}

template <typename T>
void GridVector<T>::scatter_gradient(const PassContext& pass, T* sums) {
  const bool cut = axes_.sub >= 0 && grid_.size(axes_.sub) > 1;
  auto buffer = cut ? grid_.scratch().template borrow<T>(piece_) : GridScratch::Lease<T>();
  T* piece = sums;
  if (cut) {
    piece = buffer.data();
    grid_.wait(grid_.reduce_scatter(message(pass, axes_.sub, "reduce_scatter vector gradient"), columns_, 1, sums, piece));
  }
  auto reduced = grid_.scratch().template borrow<T>(piece_);
  const T* sum = piece;
  if (grid_.size(axes_.across) > 1) {
    grid_.wait(grid_.reduce(message(pass, axes_.across, "reduce vector gradient"), piece_, 1, piece, mine_ ? reduced.data() : nullptr, root_));
    sum = reduced.data();
  }
  if (!mine_) return;
  if (axes_.depth >= 0 && grid_.size(axes_.depth) > 1) {
    if (sum != reduced.data()) copy_elements(reduced.data(), sum, static_cast<std::size_t>(piece_));
    sum = reduced.data();
    grid_.wait(grid_.all_reduce(message(pass, axes_.depth, "all_reduce vector gradient over depth"), piece_, 1, reduced.data()));
  }
  nn::add_into<T>(piece_, sum, parameter.g());
}

template <typename T>
GridLinear<T>::GridLinear(TensorGrid<T>& grid, const ProductSpec& spec, std::uint64_t seed, double deviation)
    : weight(grid_linear(grid.shape(), spec.tensor, spec.in, spec.out, grid.rank(), spec.swapped, grid.options().cut).weight, true),
      bias(grid, spec.tensor + ".bias", spec.layer, spec.out, spec.swapped),
      grid_(grid),
      spec_(spec),
      product_(make_product<T>(grid, spec)) {
  TW_ASSERT(!spec.transposed, spec.tensor);
  initialise_normal(weight.layout, seed, deviation, weight.value.view());
}

template <typename T>
void GridLinear<T>::forward(const PassContext& pass, const T* x, T* y, Kept* kept) {
  T* block = shaped<T>(vector_, {bias.columns()});
  bias.gather(pass, block);
  product_->forward(pass, x, weight.w(), y, kept);
  const std::int64_t rows = grid_.samples(pass.batch, !spec_.swapped).count * pass.seq;
  grid_.clock().run("add bias", spec_.layer, pass.micro, [&] {
    nn::add_rows<T>(rows, bias.columns(), 1, 0, block, y);
  });
}

template <typename T>
void GridLinear<T>::backward(const PassContext& pass, const T* x, const T* dy, T* dx, Kept* kept) {
  const std::int64_t rows = grid_.samples(pass.batch, !spec_.swapped).count * pass.seq;
  T* sums = shaped<T>(vector_, {bias.columns()});
  grid_.clock().run("bias gradient", spec_.layer, pass.micro, [&] {
    fill_zero_bytes(sums, static_cast<std::size_t>(bias.columns()) * sizeof(T));
    nn::add_column_sums<T>(rows, bias.columns(), dy, sums);
  });
  bias.scatter_gradient(pass, sums);
  product_->backward(pass, x, weight.w(), dy, dx, weight.g(), kept);
}

template <typename T>
GridLayerNorm<T>::GridLayerNorm(TensorGrid<T>& grid, const std::string& name, int layer, std::int64_t hidden)
    // It acts on what the layers pass on: the output of a swapped linear.
    : gamma(grid, name + ".gamma", layer, hidden, true),
      beta(grid, name + ".beta", layer, hidden, true),
      grid_(grid),
      name_(name),
      layer_(layer),
      hidden_(hidden) {
  gamma.parameter.fill(T{1});
}

template <typename T>
void GridLayerNorm<T>::add_rows(const PassContext& pass, const char* label, std::int64_t rows, T* sums) {
  const int axis = vector_axes(grid_.shape(), true).columns;
  if (grid_.size(axis) > 1) grid_.wait(grid_.all_reduce({GridUse::exact, axis, label, name_, layer_, pass}, rows, 2, sums));
}

template <typename T>
void GridLayerNorm<T>::forward(const PassContext& pass, const T* x, T* y, Saved& saved) {
  const std::int64_t n = rows(pass), columns = gamma.columns();
  T *scale = shaped<T>(scale_, {columns}), *shift = shaped<T>(shift_, {columns});
  gamma.gather(pass, scale);
  beta.gather(pass, shift);
  auto sums = grid_.scratch().template borrow<T>(n * 2);
  grid_.clock().run("norm moments", layer_, pass.micro, [&] { nn::row_moments<T>(n, columns, x, sums.data()); });
  add_rows(pass, "all_reduce layernorm", n, sums.data());
  T *mean = shaped<T>(saved.mean, {n}), *rstd = shaped<T>(saved.rstd, {n});
  grid_.clock().run("norm", layer_, pass.micro,
                    [&] { nn::normalise<T>(n, columns, hidden_, x, sums.data(), scale, shift, y, mean, rstd); });
}

template <typename T>
void GridLayerNorm<T>::backward_add(const PassContext& pass, const T* x, const T* dy, const Saved& saved, T* dx) {
  const std::int64_t n = rows(pass), columns = gamma.columns();
  const T *mean = data_of<T>(saved.mean), *rstd = data_of<T>(saved.rstd), *scale = data_of<T>(scale_);
  auto sums = grid_.scratch().template borrow<T>(n * 2);
  grid_.clock().run("norm gradient moments", layer_, pass.micro,
                    [&] { nn::gradient_moments<T>(n, columns, x, dy, scale, mean, rstd, sums.data()); });
  add_rows(pass, "all_reduce layernorm gradient", n, sums.data());
  auto dgamma = grid_.scratch().template borrow<T>(columns), dbeta = grid_.scratch().template borrow<T>(columns);
  grid_.clock().run("norm backward", layer_, pass.micro, [&] {
    fill_zero_bytes(dgamma.data(), static_cast<std::size_t>(columns) * sizeof(T));
    fill_zero_bytes(dbeta.data(), static_cast<std::size_t>(columns) * sizeof(T));
    nn::normalise_backward<T>(n, columns, hidden_, x, dy, scale, mean, rstd, sums.data(), true, dx, dgamma.data(), dbeta.data());
  });
  gamma.scatter_gradient(pass, dgamma.data());
  beta.scatter_gradient(pass, dbeta.data());
}

template class GridVector<float>;
template class GridVector<double>;
template class GridLinear<float>;
template class GridLinear<double>;
template class GridLayerNorm<float>;
template class GridLayerNorm<double>;

}  // namespace thinwire
