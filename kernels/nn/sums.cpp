#include "kernels/nn/sums.h"

#include "kernels/nn/device/device_dispatch.h"

namespace thinwire::nn {

template <typename T, typename S>
void add_total(std::int64_t count, const T* values, double factor, double divisor, S* sum) {
  // Losses are f64 on devices, too, where they are few.
  if (device::on_device())
    return device::queue<float>(device::entries().add_total, sizeof(T) == 8 ? 1 : 0, sizeof(S) == 8 ? 1 : 0, count, values, factor, divisor, sum);
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += static_cast<double>(values[i]);
  *sum = static_cast<S>(static_cast<double>(*sum) + factor * (total / divisor));
}

template void add_total<float, float>(std::int64_t, const float*, double, double, float*);
template void add_total<float, double>(std::int64_t, const float*, double, double, double*);
template void add_total<double, double>(std::int64_t, const double*, double, double, double*);

}  // namespace thinwire::nn
