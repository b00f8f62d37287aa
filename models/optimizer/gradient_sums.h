// What every optimizer asks of the gradients that it updates with: their share of the norm, and whether they are finite.
#pragma once

#include "models/optimizer/optimizer.h"

namespace thinwire {

/// *sum (f64, where the thread computes) += squares of the parts that count.
template <typename T>
void add_gradient_squares(const std::vector<OptimizerPart<T>>& parts, double* sum);
/// RuntimeFailure naming the first part whose gradient is not finite after so many updates; returns when all are.
template <typename T>
void check_gradients_finite(const std::vector<OptimizerPart<T>>& parts, std::int64_t steps_taken);

}  // namespace thinwire
