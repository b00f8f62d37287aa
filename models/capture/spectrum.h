// Singular values of a matrix: how low-rank the traffic is.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire {

/// Singular values of x [rows, columns], descending, divided by the first; min(rows, columns) of them. With
/// `centred`, the mean of every column is taken away first: raw activations may look low-rank because of
/// their mean alone. At most max_rows rows are used, evenly spaced. Computed in f64 from the Gram matrix of
/// the shorter side, so values below about 1e-7 of the first are noise and returned as they come out (not
/// negative).
std::vector<double> normalised_singular_values(std::int64_t rows, std::int64_t columns, const float* x,
                                               bool centred, std::int64_t max_rows);

}  // namespace thinwire
