// The element types of kernels/nn on a device, and when rows move in 16-byte accesses.
#pragma once

#include <initializer_list>

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/nn/device/device_nn.h"

namespace thinwire::cuda {

/// Calls body with a value of the type that `type` names; cudaErrorInvalidValue for any other.
template <typename Body>
int for_type(int type, int ordinal, const Body& body) {
  if (type != device_f32 && type != device_bf16) return cudaErrorInvalidValue;
  return on_device(ordinal, [&] { return type == device_f32 ? body(float{}) : body(BFloat16{}); });
}

/// Whether every row of these tensors begins on 16 bytes and holds whole packs. Null pointers count as aligned.
template <typename T>
bool packs_rows(std::int64_t columns, std::initializer_list<const void*> tensors) {
  bool all = columns % pack_size<T> == 0;
  for (const void* p : tensors) all = all && aligned(p, 16);
  return all;
}

}  // namespace thinwire::cuda
