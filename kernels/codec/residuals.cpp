#include "kernels/codec/residuals.h"

#include <cstring>

#include "kernels/codec/state.h"
#include "kernels/codec/wire_values.h"
#include "kernels/convert.h"
#include "kernels/threads.h"

namespace thinwire {

void Residuals::check_shape(const Tensor& residual, const Shape& shape, const MessageKey& key) const {
  if (residual.shape() == shape) return;
  throw UsageError(owner_ + ": " + text_of(key) + " has shape " + shape.to_string() + ", its residual has " + residual.shape().to_string() +
                   "; give tensors of different shape different names (message keys), and drop a smaller last batch");
}

void Residuals::add_to(TensorView x, float beta, const MessageKey& key) const {
  if (key.pass != Pass::train) return;
  const auto found = residuals_.find(key.state_key());
  if (found == residuals_.end()) return;
  check_shape(found->second, x.shape(), key);
  const auto to = x.as<float>();
  const auto e = found->second.as<float>();
  if (beta == 1.0f) {
    accumulate(to, e);
    return;
  }
  parallel_for(x.elements(), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) to[static_cast<std::size_t>(i)] += beta * e[static_cast<std::size_t>(i)];
  });
}

void Residuals::store(ConstTensorView x, ConstTensorView seen, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  TW_ASSERT(seen.elements() == x.elements(), "a residual needs the decoded message");
  Tensor& residual = residuals_[key.state_key()];
  if (residual.elements() == 0)
    residual.reshape(x.shape());
  else
    check_shape(residual, x.shape(), key);
  const auto e = residual.as<float>();
  const auto a = x.as<float>(), b = seen.as<float>();
  parallel_for(x.elements(), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
      e[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)];
  });
}

TensorView Residuals::lend(ConstTensorView x, const MessageKey& key) {
  if (key.pass != Pass::train) return {};
  Tensor& residual = residuals_[key.state_key()];
  if (residual.elements() == 0) {
    residual.reshape(x.shape());
    if (x.bytes() > 0) std::memcpy(residual.view().data(), x.data(), x.bytes());
  } else {
    check_shape(residual, x.shape(), key);
    accumulate(residual.as<float>(), x.as<float>());
  }
  return residual.view();
}

void Residuals::save(StateWriter& to) const {
  for (const auto& [key, residual] : residuals_) to.put("residual", key, residual.shape(), residual.as<float>());
}

void Residuals::load(StateReader& from) {
  residuals_.clear();
  for (const StateEntry* entry : from.take("residual", DType::f32)) {
    Tensor& residual = residuals_[entry->key];
    residual.reshape(entry->shape);
    if (!entry->bytes.empty()) std::memcpy(residual.view().data(), entry->bytes.data(), entry->bytes.size());
  }
}

}  // namespace thinwire
