// GELU in its tanh form (Hendrycks and Gimpel 2016, section 2; the form of GPT-2):
//   gelu(x) = x/2 (1 + tanh u),  u = sqrt(2/pi) (x + 0.044715 x^3)
// computed as x * sigmoid(2u), which needs one exponential.
#pragma once

#include <cstdint>

namespace thinwire::nn {

/// y[i] = gelu(x[i]); y may be x.
template <typename T>
void gelu_forward(std::int64_t count, const T* x, T* y);
/// dx[i] = dy[i] * gelu'(x[i]); dx may be dy.
template <typename T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx);

}  // namespace thinwire::nn
