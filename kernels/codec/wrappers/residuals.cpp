#include "kernels/codec/wrappers/residuals.h"

#include "kernels/values.h"

namespace thinwire {

void Residuals::add_to(TensorView x, float beta, const MessageKey& key) const {
  if (key.pass != Pass::train) return;
  if (const Tensor* residual = memory_.find(key, x.shape())) add_values(x, residual->view(), beta);
}

void Residuals::store(ConstTensorView x, ConstTensorView seen, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  TW_ASSERT(seen.elements() == x.elements(), "a residual needs the decoded message");
  subtract_values(memory_.at(key, x.shape()).tensor.view(), x, seen.reshaped(x.shape()));
}

void Residuals::blend(ConstTensorView x, ConstTensorView seen, float beta, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  TW_ASSERT(seen.elements() == x.elements(), "a residual needs the decoded message");
  const auto [residual, is_new] = memory_.at(key, x.shape());
  if (is_new) residual.fill_zero();
  scale_values(residual.view(), residual.view(), beta);
  add_values(residual.view(), x, 1 - beta);
  add_values(residual.view(), seen.reshaped(x.shape()), beta - 1);
}

TensorView Residuals::lend(ConstTensorView x, const MessageKey& key) {
  if (key.pass != Pass::train) return {};
  const auto [residual, is_new] = memory_.at(key, x.shape());
  if (is_new)
    copy_values(residual.view(), x);
  else
    add_values(residual.view(), x);
  return residual.view();
}

}  // namespace thinwire
