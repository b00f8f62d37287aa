#include "models/optimizer/gradient_sums.h"

#include <cmath>

#include "models/optimizer/diverged.h"

namespace thinwire {

template <typename T>
void add_gradient_squares(const std::vector<OptimizerPart<T>>& parts, double* sum) {
  for (const OptimizerPart<T>& part : parts)
    if (part.counts) nn::add_sum_of_squares<T>(part.weights.elements(), static_cast<const T*>(part.gradient.data()), sum);
}

template <typename T>
void check_gradients_finite(const std::vector<OptimizerPart<T>>& parts, std::int64_t steps_taken) {
  for (const OptimizerPart<T>& part : parts)
    if (!std::isfinite(nn::sum_of_squares<T>(part.weights.elements(), static_cast<const T*>(part.gradient.data()))))
      throw Diverged("The gradient of '" + part.parameter->name() + "' is not finite after " + std::to_string(steps_taken) +
                           " optimizer steps. Lower the learning rate or lengthen its warm-up.");
}

template void add_gradient_squares<float>(const std::vector<OptimizerPart<float>>&, double*);
template void add_gradient_squares<double>(const std::vector<OptimizerPart<double>>&, double*);
template void check_gradients_finite<float>(const std::vector<OptimizerPart<float>>&, std::int64_t);
template void check_gradients_finite<double>(const std::vector<OptimizerPart<double>>&, std::int64_t);

}  // namespace thinwire
