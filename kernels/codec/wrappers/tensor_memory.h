// One f32 tensor for each tensor that is sent: what wrappers remember over steps and micro-batches, where the thread computes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/codec/codec.h"

namespace thinwire {

class TensorMemory {
 public:
  /// `owner` names the wrapper in messages, `what` the tensors, there and in checkpoints.
  TensorMemory(std::string owner, std::string what) : owner_(std::move(owner)), what_(std::move(what)) {}

  /// That of key.state_key(), or null. UsageError when the tensor has changed its shape.
  const Tensor* find(const MessageKey& key, const Shape& shape) const;
  /// The same, made where there was none: then is_new, and its contents are undefined.
  struct Place {
    Tensor& tensor;
    bool is_new;
  };
  Place at(const MessageKey& key, const Shape& shape);
  void forget(const MessageKey& key) { tensors_.erase(key.state_key()); }
  void forget_all() { tensors_.clear(); }

  void save(StateWriter& to) const;
  void load(StateReader& from);

 private:
  void check_shape(const Tensor& tensor, const Shape& shape, const MessageKey& key) const;

  std::string owner_, what_;
  std::map<std::uint64_t, Tensor> tensors_;  // by key.state_key()
};

}  // namespace thinwire
