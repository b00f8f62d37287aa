#include "models/update/policies/low_rank_momentum.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "kernels/matrix/gram_schmidt.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/sgd.h"
#include "models/layout/parameter.h"

namespace thinwire {

using nn::Transpose;

std::int64_t rank_of_fraction(const Shape& global, double fraction) {
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(fraction * static_cast<double>(std::min(global.rows(), global.columns())))));
}

bool pays_as_factors(const Shape& global, std::int64_t rank) {
  return rank < std::min(global.rows(), global.columns()) &&
         (global.rows() + global.columns()) * rank < global.elements();
}

template <typename T>
LowRankMomentum<T>::LowRankMomentum(const ParameterLayout& layout, std::int64_t rank, double mu,
                                    std::uint64_t seed, bool released)
    : transposed_(layout.global().rows() < layout.global().columns()),
      released_(released),
      rank_(rank),
      long_side_(std::max(layout.global().rows(), layout.global().columns())),
      short_side_(std::min(layout.global().rows(), layout.global().columns())),
      mu_(mu),
      factor_(ParameterLayout::whole(layout.name(), {short_side_, rank})),
      along_(transposed_ ? layout.columns() : layout.rows()),
      across_(transposed_ ? layout.rows() : layout.columns()),
      momentum_(layout.local(), dtype_of<T>),
      q_({short_side_, rank}, dtype_of<T>) {
  momentum_.fill_zero();
  const Random random(seed, "right factor of " + layout.name());
  T* const q = data_of<T>(q_);
  for (std::int64_t i = 0; i < q_.elements(); ++i)
    q[i] = static_cast<T>(random.normal(static_cast<std::uint64_t>(i)));
}

template <typename T>
void LowRankMomentum<T>::add(const T* g) {
  T* const m = data_of<T>(momentum_);
  for (std::int64_t i = 0; i < momentum_.elements(); ++i) m[i] += g[i];
  if (released_)
    nothing_here_ = std::all_of(m, m + momentum_.elements(), [](T value) { return value == T{0}; });
}

template <typename T>
void LowRankMomentum<T>::project(T* y) const {
  const std::int64_t columns = momentum_.shape().columns();
  const T* const q = data_of<T>(q_) + across_.begin * rank_;
  nn::gemm<T>(transposed_ ? Transpose::yes : Transpose::no, Transpose::no, along_.count, rank_, across_.count,
              T{1}, data_of<T>(momentum_), columns, q, rank_, T{0}, y, rank_);
}

template <typename T>
void LowRankMomentum<T>::orthonormalise(T* p) {
  orthonormal_columns<T>(long_side_, rank_, p, work_);
}

template <typename T>
void LowRankMomentum<T>::back(const T* p, T* s) const {
  const std::int64_t columns = momentum_.shape().columns();
  nn::gemm<T>(transposed_ ? Transpose::no : Transpose::yes, Transpose::no, across_.count, rank_, along_.count,
              T{1}, data_of<T>(momentum_), columns, p + along_.begin * rank_, rank_, T{0}, s, rank_);
}

template <typename T>
void LowRankMomentum<T>::finish(const T* p, const T* s, double learning_rate, double factor, double decay,
                                T* w) {
  const std::int64_t columns = momentum_.shape().columns();
  const T *const left = p + along_.begin * rank_, *const right = s + across_.begin * rank_;
  // a [local rows, local columns] = scale * (left right^T, or transposed) + keep * a.
  const auto add_product = [&](double scale, const T* of_right, double keep, T* a) {
    const T *const up = transposed_ ? of_right : left, *const across = transposed_ ? left : of_right;
    nn::gemm<T>(Transpose::no, Transpose::yes, momentum_.shape().rows(), columns, rank_,
                static_cast<T>(scale), up, rank_, across, rank_, static_cast<T>(keep), a, columns);
  };
  const double keep = 1 - learning_rate * decay;
  T* const q = data_of<T>(q_);
  if (released_ && nothing_here_) {  // their guard: P counts as zeros and Q stays, though other ranks move
    for (std::int64_t i = 0; i < momentum_.elements(); ++i) w[i] *= static_cast<T>(keep);
    return;
  }
  add_product(-(1 - mu_), right, 1, data_of<T>(momentum_));
  for (std::int64_t k = 0; k < rank_; ++k) {
    double squares = 0;
    for (std::int64_t i = 0; i < short_side_; ++i)
      squares += static_cast<double>(s[i * rank_ + k]) * static_cast<double>(s[i * rank_ + k]);
    if (squares == 0)
      continue;  // nobody has anything along it; without a direction it would stay so for ever
    const double length = std::sqrt(squares) + 1e-8;
    for (std::int64_t i = 0; i < short_side_; ++i)
      q[i * rank_ + k] = static_cast<T>(static_cast<double>(s[i * rank_ + k]) / length);
  }
  add_product(-learning_rate * factor, q + across_.begin * rank_, keep, w);
}

template class LowRankMomentum<float>;
template class LowRankMomentum<double>;

}  // namespace thinwire
