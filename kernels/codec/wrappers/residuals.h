// What messages lost, per tensor: the memory behind error feedback and lazy error propagation.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/codec/codec.h"

namespace thinwire {

class StateReader;
class StateWriter;

/// One residual per key.state_key(): a tensor's, over steps and micro-batches. Only messages of Pass::train leave a trace: an
/// evaluation sees the codec alone.
class Residuals {
 public:
  /// `owner` names the wrapper in messages.
  explicit Residuals(std::string owner) : owner_(std::move(owner)) {}

  /// x += beta * residual. Nothing for a tensor without one. Throws UsageError when the tensor has changed its shape.
  void add_to(TensorView x, float beta, const MessageKey& key) const;
  /// residual = x - seen. Shapes as above.
  void store(ConstTensorView x, ConstTensorView seen, const MessageKey& key);
  /// The residual itself, after x was added to it (to zero, for a tensor without one): whoever takes it leaves the new residual there.
  /// Empty for messages that leave no trace. Shapes as above.
  TensorView lend(ConstTensorView x, const MessageKey& key);
  void forget(const MessageKey& key) { residuals_.erase(key.state_key()); }
  void forget_all() { residuals_.clear(); }

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  void check_shape(const Tensor& residual, const Shape& shape, const MessageKey& key) const;

  std::string owner_;
  std::map<std::uint64_t, Tensor> residuals_;  // by key.state_key()
};

}  // namespace thinwire
