// Launching kernels from entry points. Without nvcc tests/emulated_device/cuda_emulation.h defines what stands here.
#pragma once

#ifdef __CUDACC__

#include <cstdint>

#include "core/device/cuda_scope.cuh"

namespace thinwire::cuda {

/// Launches `kernel` on `blocks` x `block` threads unless there is nothing to do; reports a failed launch.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, dim3 block, void* stream, Arguments... arguments) {
  if (blocks == 0) return cudaSuccess;
  if (blocks < 0 || blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  kernel<<<static_cast<unsigned>(blocks), block, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return cudaGetLastError();
}

}  // namespace thinwire::cuda

#endif  // __CUDACC__
