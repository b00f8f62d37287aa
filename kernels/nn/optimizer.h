// AdamW (Loshchilov and Hutter 2019, algorithm 2), global-norm clipping, and the cosine schedule with
// warm-up.
#pragma once

#include <cstdint>

namespace thinwire::nn {

struct AdamW {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
};

/// One step for `count` elements: g = gradient * gradient_scale; m, v moments; step counts from 1.
/// w -= lr * ( m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + epsilon) + decay * w ).
template <typename T>
void adamw_step(const AdamW& options, double decay, double learning_rate, std::int64_t step,
                double gradient_scale, std::int64_t count, const T* gradient, T* weight, T* m, T* v);
/// The same with gradient_scale = clip_factor(sqrt(*squares), max_norm). *squares lies where the tensors lie, so that no host needs to see the
/// norm before the step.
template <typename T>
void clipped_adamw_step(const AdamW& options, double decay, double learning_rate, std::int64_t step, double max_norm,
                        const double* squares, std::int64_t count, const T* gradient, T* weight, T* m, T* v);

/// m = beta1 m + (1 - beta1) gradient_scale gradient. On the host.
template <typename T>
void momentum_step(double beta1, double gradient_scale, std::int64_t count, const T* gradient, T* m);
/// The rest of step `step`, with a second moment that was last changed in step `v_step`: both count from 1.
/// w -= lr * ( m/(1-beta1^step) / (sqrt(v/(1-beta2^v_step)) + epsilon) + decay * w ). On the host.
template <typename T>
void apply_moments(const AdamW& options, double decay, double learning_rate, std::int64_t step, std::int64_t v_step, std::int64_t count, const T* m, const T* v, T* w);

namespace detail {
/// What is constant over a tensor in one step of AdamW.
template <typename T>
struct AdamWFactors {
  T beta1, beta2, m_correction, v_correction, epsilon, learning_rate, keep, gradient_scale;
};
}  // namespace detail

/// Sum of squares in f64, by fixed blocks: the same bits for any number of threads. Under a device placement it waits for the result: for
/// checks, not for a steady state.
template <typename T>
double sum_of_squares(std::int64_t count, const T* x);
/// *sum += it, where *sum lies with x.
template <typename T>
void add_sum_of_squares(std::int64_t count, const T* x, double* sum);

/// Factor that brings a gradient of global norm `norm` down to max_norm: min(1, max_norm / norm).
double clip_factor(double norm, double max_norm);

/// Linear warm-up to `peak` over `warmup` steps, then half a cosine down to `min_lr` at step `total`
/// (Loshchilov and Hutter 2017, without restarts). Steps count from 0; beyond `total` it stays at `min_lr`.
struct CosineSchedule {
  double peak = 1e-3, min_lr = 1e-4;
  std::int64_t warmup = 20, total = 1000;
  double at(std::int64_t step) const;
};

}  // namespace thinwire::nn
