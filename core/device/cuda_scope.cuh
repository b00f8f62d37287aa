// For `.cu` files: what surrounds each call of an entry point.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif  // emulated devices: tests/emulated_device/runtime.h

#include "core/device/module_entry.h"

namespace thinwire::cuda {

/// Makes `ordinal` the calling thread's device and leaves it so. Giving back what was current before would be cudaSetDevice(0) on a thread that has
/// chosen nothing yet, and since CUDA 12 that creates a context on device 0: half a GB of it for every rank of the machine.
inline cudaError_t use_device(int ordinal) {
  int current = 0;
  const cudaError_t error = cudaGetDevice(&current);
  return error != cudaSuccess || current == ordinal ? error : cudaSetDevice(ordinal);
}

/// What an entry point returns. A call that fails, or answers "not ready", also leaves its error behind for whoever asks for it next: that would be a
/// launch that went well. What has spoiled the context is not forgotten by this.
inline int leave(int code) {
  (void)cudaGetLastError();
  return code;
}

#ifdef __CUDACC__
/// Runs `call` on device `ordinal`; the first error as the entry points return it.
template <typename Call>
int on_device(int ordinal, const Call& call) {
  const cudaError_t chosen = use_device(ordinal);
  return leave(chosen != cudaSuccess ? static_cast<int>(chosen) : static_cast<int>(call()));
}
#endif  // emulated devices lock and name the call too: tests/emulated_device/cuda_emulation.h

}  // namespace thinwire::cuda
