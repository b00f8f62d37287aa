// The host's stand-in for core/device/device_info.cu.
#include <cstdio>

#include "core/device/module_entry.h"
#include "tests/emulated_device/arena.h"
#include "tests/emulated_device/cuda_emulation.h"

using namespace thinwire::emulated;

THINWIRE_CUDA_ENTRY(thinwire_cuda_device_count, thinwire_cuda_device_count_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_device_name, thinwire_cuda_device_name_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_device_identity, thinwire_cuda_device_identity_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_error_text, thinwire_cuda_error_text_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_error_is_fatal, thinwire_cuda_error_is_fatal_fn);

extern "C" __attribute__((visibility("default"))) void* thinwire_cuda_find(const char* name, const char** type) { return thinwire::cuda::find_entry(name, type); }
int thinwire_cuda_device_count(int* count, const char** reason) {
  *count = Arena::instance().devices();
  *reason = nullptr;
  return 0;
}
int thinwire_cuda_device_name(int, char* text, std::size_t size) {
  std::snprintf(text, size, "emulated on the host (no GPU)");
  return 0;
}
// As one machine's devices: ranks that use one ordinal share a device as far as anybody can tell.
int thinwire_cuda_device_identity(int ordinal, char* text, std::size_t size) {
  std::snprintf(text, size, "emulated %d", ordinal);
  return 0;
}
const char* thinwire_cuda_error_text(int code) {
  switch (code) {
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorNotSupported: return "operation not supported";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case THINWIRE_CUDA_NO_NCCL: return "NCCL of emulated devices is played by MPI, which was not started";
    case THINWIRE_CUDA_NCCL_ERROR + 4: return "NCCL (played by MPI): invalid argument";
    case THINWIRE_CUDA_NCCL_ERROR + 5: return "NCCL (played by MPI): invalid usage";
    default: return "unknown error of the emulated device";
  }
}
int thinwire_cuda_error_is_fatal(int code) { return code == cudaErrorIllegalAddress ? 1 : 0; }
