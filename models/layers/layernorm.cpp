#include "models/layers/layernorm.h"

namespace thinwire {

template <typename T>
LayerNorm<T>::LayerNorm(const std::string& name, std::int64_t hidden, const Layout& layout, const SplitGroups& replicas, double epsilon)
    : gamma(ParameterLayout(name + ".gamma", {hidden}, {}, layout.hidden, replicas), false),
      beta(ParameterLayout(name + ".beta", {hidden}, {}, layout.hidden, replicas), false),
      hidden_(hidden),
      layout_(layout),
      epsilon_(epsilon) {
  gamma.fill(T{1});
}

template <typename T>
void LayerNorm<T>::reduce(Tensor& sums) {
  TW_ASSERT(sum_over_hidden,
            "the layout of " + gamma.name() + " splits the hidden axis but no group sum was set");
  sum_over_hidden(sums.as<T>());
}

template <typename T>
void LayerNorm<T>::forward(std::int64_t rows, const T* x, T* y, Saved& saved) {
  const std::int64_t columns = gamma.elements();
  T* sums = nullptr;
  if (!layout_.hidden_is_whole()) {
    nn::row_moments<T>(rows, columns, x, sums = shaped<T>(sums_, {rows, 2}));
    reduce(sums_);
  }
  nn::normalise<T>(rows, columns, hidden_, x, sums, gamma.w(), beta.w(), y, shaped<T>(saved.mean, {rows}),
                   shaped<T>(saved.rstd, {rows}), epsilon_);
}

template <typename T>
void LayerNorm<T>::run_backward(std::int64_t rows, const T* x, const T* dy, const Saved& saved, bool accumulate, T* dx) {
  const std::int64_t columns = gamma.elements();
  const T *mean = data_of<T>(saved.mean), *rstd = data_of<T>(saved.rstd);
  T* sums = nullptr;
  if (!layout_.hidden_is_whole()) {
    nn::gradient_moments<T>(rows, columns, x, dy, gamma.w(), mean, rstd, sums = shaped<T>(sums_, {rows, 2}));
    reduce(sums_);
  }
  nn::normalise_backward<T>(rows, columns, hidden_, x, dy, gamma.w(), mean, rstd, sums, accumulate, dx, gamma.g(),
                            beta.g());
}

template class LayerNorm<float>;
template class LayerNorm<double>;

}  // namespace thinwire
