#include "models/update/policies/momentum_correction.h"

#include "kernels/nn/elementwise.h"
#include "kernels/nn/sgd.h"
#include "kernels/threads.h"

namespace thinwire {

template <typename T>
MomentumCorrection<T>::MomentumCorrection(const std::vector<Shape>& shapes, double momentum, bool nesterov, bool masking) : factor_(momentum), nesterov_(nesterov), masking_(masking) {
  for (auto* list : {&momentum_, &late_})
    for (const Shape& shape : shapes) list->emplace_back(shape, dtype_of<T>).fill_zero();
}

template <typename T>
void MomentumCorrection<T>::add(std::size_t i, const T* gradient, double scale) {
  const std::int64_t n = late_[i].elements();
  T *const u = momentum_[i].as<T>().data(), *const v = late_[i].as<T>().data();
  nn::add_momentum<T>(factor_, scale, n, gradient, u);
  if (!nesterov_) return nn::add_into<T>(n, u, v);
  nn::add_momentum<T>(1.0, scale, n, gradient, v);
  nn::add_momentum<T>(1.0, factor_, n, u, v);
}

template <typename T>
void MomentumCorrection<T>::sent(std::size_t i, ConstTensorView arrived) {
  TW_ASSERT(arrived.elements() == late_[i].elements());
  T *const u = momentum_[i].as<T>().data(), *const v = late_[i].as<T>().data();
  const float* const gone = arrived.as<float>().data();
  parallel_for(arrived.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      v[e] -= static_cast<T>(gone[e]);
      if (masking_ && gone[e] != 0) u[e] = 0;
    }
  });
}

template class MomentumCorrection<float>;
template class MomentumCorrection<double>;

}  // namespace thinwire
