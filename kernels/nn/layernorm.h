// Layer normalisation (Ba, Kiros and Hinton 2016) over the last axis, in two halves so that a layout that
// splits the hidden axis can reduce the row sums over its group in between:
//   forward   row_moments -> (all-reduce of the pair) -> normalise
//   backward  gradient_moments -> (all-reduce of the pair) -> normalise_backward
// Where rows lie here as a whole the second half takes the sums itself (`sums` null): the same bits, and one kernel on a device.
#pragma once

#include <cstdint>

namespace thinwire::nn {

inline constexpr double layernorm_epsilon = 1e-5;

/// sums[2r] = sum of row r of x [rows, columns], sums[2r+1] = sum of its squares.
template <typename T>
void row_moments(std::int64_t rows, std::int64_t columns, const T* x, T* sums);
/// From sums over `hidden` elements: mean = S1/h, rstd = 1/sqrt(S2/h - mean^2 + epsilon).
/// y = gamma * (x - mean) * rstd + beta. mean, rstd: [rows], kept for the backward pass. sums null: columns = hidden. UsageError under a device
/// placement for another epsilon than layernorm_epsilon: its kernel knows no other.
template <typename T>
void normalise(std::int64_t rows, std::int64_t columns, std::int64_t hidden, const T* x, const T* sums,
               const T* gamma, const T* beta, T* y, T* mean, T* rstd, double epsilon = layernorm_epsilon);

/// With g = dy * gamma and xhat = (x - mean) * rstd: sums[2r] = sum g, sums[2r+1] = sum g * xhat.
template <typename T>
void gradient_moments(std::int64_t rows, std::int64_t columns, const T* x, const T* dy, const T* gamma,
                      const T* mean, const T* rstd, T* sums);
/// dx = rstd * (g - S1/h - xhat * S2/h), added to dx when `accumulate`; dgamma += column sums of dy * xhat,
/// dbeta += column sums of dy. sums null: columns = hidden.
template <typename T>
void normalise_backward(std::int64_t rows, std::int64_t columns, std::int64_t hidden, const T* x, const T* dy,
                        const T* gamma, const T* mean, const T* rstd, const T* sums, bool accumulate, T* dx,
                        T* dgamma, T* dbeta);

}  // namespace thinwire::nn
