#include "models/optimizer/optimizer.h"

#include "models/optimizer/diverged.h"

#include <cmath>

#include "kernels/nn/sums.h"
#include "models/optimizer/gradient_sums.h"

namespace thinwire {
namespace {

template <typename T>
const T* gradient_of(const OptimizerPart<T>& part) {
  return static_cast<const T*>(part.gradient.data());
}

template <typename T>
std::vector<OptimizerPart<T>> whole(const ParameterList<T>& parameters) {
  std::vector<OptimizerPart<T>> parts;
  for (Parameter<T>* p : parameters) parts.push_back({p, p->value.view(), p->gradient.view(), p->layout.counts_in_norm()});
  return parts;
}

}  // namespace

template <typename T>
Optimizer<T>::Optimizer(std::vector<OptimizerPart<T>> parts, const nn::AdamW& options) : parts_(std::move(parts)), options_(options) {
  for (const OptimizerPart<T>& part : parts_) {
    for (auto* moments : {&first_, &second_}) {
      moments->emplace_back(part.weights.shape(), dtype_of<T>);
      moments->back().fill_zero();
    }
  }
}

template <typename T>
Optimizer<T>::Optimizer(const ParameterList<T>& parameters, const nn::AdamW& options) : Optimizer(whole(parameters), options) {}

template <typename T>
void Optimizer<T>::add_sum_of_squares(double* sum) const {
  add_gradient_squares(parts_, sum);
}

template <typename T>
double Optimizer<T>::sum_of_squares() const {
  Tensor total({1}, DType::f64);
  total.fill_zero();
  add_sum_of_squares(data_of<double>(total));
  return read_number(total);
}

template <typename T>
double Optimizer<T>::gradient_norm() const {
  return std::sqrt(sum_of_squares());
}

template <typename T>
void Optimizer<T>::check_finite() const {
  check_gradients_finite(parts_, steps_);
}

template <typename T>
void Optimizer<T>::apply(double learning_rate, double scale) {
  ++steps_;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const OptimizerPart<T>& part = parts_[i];
    nn::adamw_step<T>(options_, part.parameter->decays ? options_.weight_decay : 0.0, learning_rate, steps_ - moments_begin_, scale, first_[i].elements(),
                      gradient_of(part), static_cast<T*>(part.weights.data()), data_of<T>(first_[i]), data_of<T>(second_[i]));
  }
}

template <typename T>
double Optimizer<T>::step(double learning_rate, double max_norm) {
  const double norm = gradient_norm();
  if (!std::isfinite(norm)) {
    check_finite();
    throw Diverged("The global gradient norm overflowed after " + std::to_string(steps_) +
                         " optimizer steps. Lower the learning rate.");
  }
  apply(learning_rate, nn::clip_factor(norm, max_norm));
  return norm;
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace thinwire
