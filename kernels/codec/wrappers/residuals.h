// What messages lost, per tensor: the memory behind error feedback, lazy error propagation and LoCo.
#pragma once

#include "kernels/codec/wrappers/tensor_memory.h"

namespace thinwire {

/// One residual per key.state_key(): a tensor's, over steps and micro-batches. Only messages of Pass::train leave a trace: an
/// evaluation sees the codec alone. Throws UsageError when a tensor has changed its shape.
class Residuals {
 public:
  /// `owner` names the wrapper in messages.
  explicit Residuals(std::string owner) : memory_(std::move(owner), "residual") {}

  static double bytes_per_element() { return sizeof(float); }
  /// x += beta * residual. Nothing for a tensor without one.
  void add_to(TensorView x, float beta, const MessageKey& key) const;
  /// residual = x - seen.
  void store(ConstTensorView x, ConstTensorView seen, const MessageKey& key);
  /// residual = beta * residual + (1 - beta) * (x - seen).
  void blend(ConstTensorView x, ConstTensorView seen, float beta, const MessageKey& key);
  /// The residual itself, after x was added to it (to zero, for a tensor without one): whoever takes it leaves the new residual there.
  /// Empty for messages that leave no trace.
  TensorView lend(ConstTensorView x, const MessageKey& key);
  void forget(const MessageKey& key) { memory_.forget(key); }
  void forget_all() { memory_.forget_all(); }

  void save(StateWriter& to) const { memory_.save(to); }
  void load(StateReader& from) { memory_.load(from); }

 private:
  TensorMemory memory_;
};

}  // namespace thinwire
