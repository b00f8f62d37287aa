#include "models/update/outer/outer_step.h"

#include "core/error.h"
#include "kernels/nn/sgd.h"
#include "kernels/threads.h"

namespace thinwire {

template <typename T>
void pseudo_gradient(std::int64_t count, const T* global, const T* local, T* d) {
  parallel_for(count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) d[i] = global[i] - local[i];
  });
}
template void pseudo_gradient<float>(std::int64_t, const float*, const float*, float*);
template void pseudo_gradient<double>(std::int64_t, const double*, const double*, double*);

template <typename T>
void outer_step(const OuterStep& step, std::int64_t count, T* d, T* u, T* global) {
  if (count == 0) return;  // a rank whose share of a matrix has no rows
  TW_ASSERT(u != nullptr || step.momentum == 0);
  if (u) nn::add_momentum<T>(step.momentum, 1.0, count, d, u);
  if (u && step.nesterov) nn::look_ahead<T>(step.momentum, 1.0, count, d, u, d);
  nn::descend<T>(step.rate, 0.0, count, u && !step.nesterov ? u : d, global);
}
template void outer_step<float>(const OuterStep&, std::int64_t, float*, float*, float*);
template void outer_step<double>(const OuterStep&, std::int64_t, double*, double*, double*);

template <typename T>
void take_over(double mixing, std::int64_t count, const T* global, T* local) {
  const T own = static_cast<T>(mixing), shared = static_cast<T>(1 - mixing);
  parallel_for(count, [=](std::int64_t begin, std::int64_t end) {
    if (mixing == 0)  // equal bits on all replicas, also where a weight has overflowed
      for (std::int64_t i = begin; i < end; ++i) local[i] = global[i];
    else
      for (std::int64_t i = begin; i < end; ++i) local[i] = shared * global[i] + own * local[i];
  });
}
template void take_over<float>(double, std::int64_t, const float*, float*);
template void take_over<double>(double, std::int64_t, const double*, double*);

}  // namespace thinwire
