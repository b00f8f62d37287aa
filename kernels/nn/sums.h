// Sums of losses and other numbers that stay where they were made: a step of training reads them once, at its end.
#pragma once

#include <cstdint>

namespace thinwire::nn {

/// *sum += factor * (total / divisor), total = the sum over values [count] in f64, in order on the host, in a fixed order on a device. With
/// divisor = count: factor times the mean. (T, S): (float, float), (float, double), (double, double).
template <typename T, typename S>
void add_total(std::int64_t count, const T* values, double factor, double divisor, S* sum);

}  // namespace thinwire::nn
