// Tensors that are lent again and again in the same sizes: after the first step nothing is allocated.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

class MemoryPool {
 public:
  /// Where the thread computes; contents are undefined.
  Tensor take(const Shape& shape, DType dtype) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    const auto found = std::ranges::find_if(spare_, [&](const Tensor& tensor) { return tensor.bytes() == bytes; });
    if (found == spare_.end()) return Tensor(shape, dtype);
    std::swap(*found, spare_.back());
    Tensor tensor = std::move(spare_.back());
    spare_.pop_back();
    tensor.reshape(shape, dtype);
    return tensor;
  }
  /// Leaves `tensor` empty.
  void give(Tensor& tensor) { spare_.push_back(std::exchange(tensor, Tensor())); }

 private:
  std::vector<Tensor> spare_;
};

}  // namespace thinwire
