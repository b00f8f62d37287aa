#include "models/optimizer.h"

#include <cmath>

namespace thinwire {

template <typename T>
Optimizer<T>::Optimizer(const ParameterList<T>& parameters, const nn::AdamW& options)
    : parameters_(parameters), options_(options) {
  for (Parameter<T>* p : parameters_)
    for (auto* moments : {&first_, &second_}) {
      moments->emplace_back(p->value.shape(), dtype_of<T>);
      moments->back().fill_zero();
    }
}

template <typename T>
double Optimizer<T>::gradient_norm(const GroupSum<double>& sum_over_ranks) const {
  double total = 0;
  for (Parameter<T>* p : parameters_)
    if (p->layout.counts_in_norm()) total += nn::sum_of_squares<T>(p->elements(), p->g());
  if (sum_over_ranks) sum_over_ranks({&total, 1});
  return std::sqrt(total);
}

template <typename T>
double Optimizer<T>::step(double learning_rate, double max_norm) {
  const double norm = gradient_norm();
  if (!std::isfinite(norm)) {
    for (Parameter<T>* p : parameters_)
      if (!std::isfinite(nn::sum_of_squares<T>(p->elements(), p->g())))
        throw RuntimeFailure("The gradient of '" + p->name() + "' is not finite after " +
                             std::to_string(steps_) +
                             " optimizer steps. Lower the learning rate or lengthen its warm-up.");
    throw RuntimeFailure("The global gradient norm overflowed after " + std::to_string(steps_) +
                         " optimizer steps. Lower the learning rate.");
  }
  ++steps_;
  const double scale = nn::clip_factor(norm, max_norm);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter<T>& p = *parameters_[i];
    nn::adamw_step<T>(options_, p.decays ? options_.weight_decay : 0.0, learning_rate, steps_, scale,
                      p.elements(), p.g(), p.w(), first_[i].as<T>().data(), second_[i].as<T>().data());
  }
  return norm;
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace thinwire
