// GELU in its tanh form (Hendrycks and Gimpel 2016, section 2; the form of GPT-2):
//   gelu(x) = x/2 (1 + tanh u),  u = sqrt(2/pi) (x + 0.044715 x^3)
// computed as x * sigmoid(2u), which needs one exponential; and in its exact form (ibid.; BERT's "hidden_act": "gelu"):
//   gelu(x) = x Phi(x),  Phi(x) = (1 + erf(x / sqrt(2))) / 2;   gelu'(x) = Phi(x) + x phi(x),  phi the density of N(0, 1)
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace thinwire::nn {

/// y[i] = gelu(x[i]); y may be x.
template <typename T>
void gelu_forward(std::int64_t count, const T* x, T* y);
/// dx[i] = dy[i] * gelu'(x[i]); dx may be dy.
template <typename T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx);

/// Values stored in bf16, whose results are those of f32 rounded; gradients are f32. Host only (TW_ASSERT).
void gelu_forward(std::int64_t count, const BFloat16* x, BFloat16* y);
void gelu_backward(std::int64_t count, const BFloat16* x, const float* dy, float* dx);
void gelu_erf_forward(std::int64_t count, const BFloat16* x, BFloat16* y);
void gelu_erf_backward(std::int64_t count, const BFloat16* x, const float* dy, float* dx);

/// The exact form, likewise. Host only: UsageError under a device placement.
template <typename T>
void gelu_erf_forward(std::int64_t count, const T* x, T* y);
template <typename T>
void gelu_erf_backward(std::int64_t count, const T* x, const T* dy, T* dx);

}  // namespace thinwire::nn
