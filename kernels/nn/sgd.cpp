#include "kernels/nn/sgd.h"

#include "core/error.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/threads.h"

namespace thinwire::nn {
namespace {

template <typename Body>
void for_all(std::int64_t count, const Body& body) {
  TW_ASSERT(!device::on_device(), "gradient descent with momentum exists on the host");
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace

template <typename T>
void add_momentum(double momentum, double scale, std::int64_t count, const T* gradient, T* u) {
  const T keep = static_cast<T>(momentum), take = static_cast<T>(scale);
  for_all(count, [=](std::int64_t i) { u[i] = keep * u[i] + take * gradient[i]; });
}
template void add_momentum<float>(double, double, std::int64_t, const float*, float*);
template void add_momentum<double>(double, double, std::int64_t, const double*, double*);

template <typename T>
void look_ahead(double momentum, double scale, std::int64_t count, const T* gradient, const T* u, T* to) {
  const T ahead = static_cast<T>(momentum), take = static_cast<T>(scale);
  for_all(count, [=](std::int64_t i) { to[i] = take * gradient[i] + ahead * u[i]; });
}
template void look_ahead<float>(double, double, std::int64_t, const float*, const float*, float*);
template void look_ahead<double>(double, double, std::int64_t, const double*, const double*, double*);

template <typename T>
void signs_of(std::int64_t count, const T* direction, T* to) {
  for_all(count, [=](std::int64_t i) { to[i] = static_cast<T>((direction[i] > 0) - (direction[i] < 0)); });
}
template void signs_of<float>(std::int64_t, const float*, float*);
template void signs_of<double>(std::int64_t, const double*, double*);

template <typename T>
void descend(double learning_rate, double decay, std::int64_t count, const T* direction, T* w) {
  const T step = static_cast<T>(learning_rate), keep = static_cast<T>(1.0 - learning_rate * decay);
  for_all(count, [=](std::int64_t i) { w[i] = keep * w[i] - step * direction[i]; });
}
template void descend<float>(double, double, std::int64_t, const float*, float*);
template void descend<double>(double, double, std::int64_t, const double*, double*);

}  // namespace thinwire::nn
