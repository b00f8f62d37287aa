#include "kernels/codec/wrappers/tensor_memory.h"

#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/state.h"
#include "kernels/values.h"

namespace thinwire {

void TensorMemory::check_shape(const Tensor& tensor, const Shape& shape, const MessageKey& key) const {
  if (tensor.shape() == shape) return;
  throw UsageError(owner_ + ": " + text_of(key) + " has shape " + shape.to_string() + ", its " + what_ + " has " + tensor.shape().to_string() +
                   "; give tensors of different shape different names (message keys), and drop a smaller last batch");
}

const Tensor* TensorMemory::find(const MessageKey& key, const Shape& shape) const {
  const auto found = tensors_.find(key.state_key());
  if (found == tensors_.end()) return nullptr;
  check_shape(found->second, shape, key);
  return &found->second;
}

TensorMemory::Place TensorMemory::at(const MessageKey& key, const Shape& shape) {
  const auto [found, is_new] = tensors_.try_emplace(key.state_key());
  if (is_new)
    found->second.reshape(shape);
  else
    check_shape(found->second, shape, key);
  return {found->second, is_new};
}

// Through the host, wherever the tensors lie: checkpoints move between devices.
void TensorMemory::save(StateWriter& to) const {
  for (const auto& [key, tensor] : tensors_) to.put(what_, key, tensor.shape(), on_host(tensor.view()).as<float>());
}

void TensorMemory::load(StateReader& from) {
  tensors_.clear();
  for (const StateEntry* entry : from.take(what_, DType::f32)) {
    Tensor& tensor = tensors_[entry->key];
    tensor.reshape(entry->shape);
    copy_and_wait(tensor.view().data(), entry->bytes.data(), entry->bytes.size());
  }
}

}  // namespace thinwire
