#include "kernels/codec/wrappers/residuals.h"

#include "kernels/codec/state.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/values.h"

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
  add_values(x, found->second.view(), beta);
}

void Residuals::store(ConstTensorView x, ConstTensorView seen, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  TW_ASSERT(seen.elements() == x.elements(), "a residual needs the decoded message");
  Tensor& residual = residuals_[key.state_key()];
  if (residual.elements() == 0)
    residual.reshape(x.shape());
  else
    check_shape(residual, x.shape(), key);
  subtract_values(residual.view(), x, seen.reshaped(x.shape()));
}

TensorView Residuals::lend(ConstTensorView x, const MessageKey& key) {
  if (key.pass != Pass::train) return {};
  Tensor& residual = residuals_[key.state_key()];
  if (residual.elements() == 0) {
    residual.reshape(x.shape());
    copy_values(residual.view(), x);
  } else {
    check_shape(residual, x.shape(), key);
    add_values(residual.view(), x);
  }
  return residual.view();
}

// Through the host, wherever the residuals lie: checkpoints move between devices.
void Residuals::save(StateWriter& to) const {
  for (const auto& [key, residual] : residuals_) to.put("residual", key, residual.shape(), on_host(residual.view()).as<float>());
}

void Residuals::load(StateReader& from) {
  residuals_.clear();
  for (const StateEntry* entry : from.take("residual", DType::f32)) {
    Tensor& residual = residuals_[entry->key];
    residual.reshape(entry->shape);
    copy_and_wait(residual.view().data(), entry->bytes.data(), entry->bytes.size());
  }
}

}  // namespace thinwire
