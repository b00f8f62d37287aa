// What devices there are, what they are, and what errors mean: core/device/device_abi.h. On emulated devices tests/emulated_device/entries.cpp stands in.
#include <cstdio>

#include "core/device/cuda_scope.cuh"
#include "core/device/device_abi.h"

THINWIRE_CUDA_ENTRY(thinwire_cuda_device_count, thinwire_cuda_device_count_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_device_name, thinwire_cuda_device_name_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_device_identity, thinwire_cuda_device_identity_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_error_text, thinwire_cuda_error_text_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_error_is_fatal, thinwire_cuda_error_is_fatal_fn);

extern "C" __attribute__((visibility("default"))) void* thinwire_cuda_find(const char* name, const char** type) { return thinwire::cuda::find_entry(name, type); }

int thinwire_cuda_device_count(int* count, const char** reason) {
  static char text[256];
  *count = 0;
  *reason = nullptr;
  int found = 0;
  const cudaError_t error = cudaGetDeviceCount(&found);
  int driver = 0;
  cudaDriverGetVersion(&driver);
  // Without any driver the runtime reports InsufficientDriver, not NoDevice: the driver's version tells.
  if (driver == 0)
    std::snprintf(text, sizeof text, "this machine has no NVIDIA driver (libcuda.so.1 does not load)");
  else if (error == cudaErrorInsufficientDriver)
    std::snprintf(text, sizeof text, "the NVIDIA driver supports CUDA %d.%d and the module needs %d.%d: update the driver", driver / 1000,
                  driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  else if (error == cudaErrorNoDevice || (error == cudaSuccess && found == 0))
    std::snprintf(text, sizeof text, "the driver sees no CUDA device (CUDA_VISIBLE_DEVICES can hide one)");
  else if (error != cudaSuccess)
    std::snprintf(text, sizeof text, "the driver fails: %s", cudaGetErrorString(error));
  else {
    int major = 0;
    const cudaError_t asked = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (asked == cudaSuccess && major >= 8) {
      *count = found;
      return thinwire::cuda::leave(0);
    }
    std::snprintf(text, sizeof text, "device 0 has compute capability %d.x, and the kernels need 8.0 or later", major);
  }
  *reason = text;
  return thinwire::cuda::leave(error != cudaSuccess ? static_cast<int>(error) : static_cast<int>(cudaErrorNoDevice));
}

int thinwire_cuda_device_name(int ordinal, char* text, std::size_t size) {
  cudaDeviceProp device;
  const cudaError_t error = cudaGetDeviceProperties(&device, ordinal);
  if (error == cudaSuccess)
    std::snprintf(text, size, "%s, sm_%d%d, %zu GiB", device.name, device.major, device.minor, device.totalGlobalMem >> 30);
  return thinwire::cuda::leave(static_cast<int>(error));
}

int thinwire_cuda_device_identity(int ordinal, char* text, std::size_t size) {
  cudaDeviceProp device;
  const cudaError_t error = cudaGetDeviceProperties(&device, ordinal);
  std::size_t at = 0;
  for (std::size_t i = 0; error == cudaSuccess && i < sizeof device.uuid.bytes && at + 3 <= size; ++i)
    at += static_cast<std::size_t>(std::snprintf(text + at, size - at, "%02x", static_cast<unsigned char>(device.uuid.bytes[i])));
  return thinwire::cuda::leave(static_cast<int>(error));
}

const char* thinwire_cuda_error_text(int code) {
  static thread_local char text[96];
  switch (code) {
    case THINWIRE_CUDA_NO_BLAS: return "neither libcublasLt.so.13 nor libcublasLt.so.12 opens: products need the CUDA toolkit's libraries on the loader's path";
    case THINWIRE_CUDA_NO_NCCL: return "libnccl.so.2 does not open: collectives on devices need NCCL on the loader's path";
    default: break;
  }
  if (code < THINWIRE_CUDA_BLAS_ERROR) return cudaGetErrorString(static_cast<cudaError_t>(code));
  const bool blas = code < THINWIRE_CUDA_NCCL_ERROR;
  std::snprintf(text, sizeof text, "%s returned %d", blas ? "cuBLASLt" : "NCCL", code - (blas ? THINWIRE_CUDA_BLAS_ERROR : THINWIRE_CUDA_NCCL_ERROR));
  return text;
}

int thinwire_cuda_error_is_fatal(int code) {
  switch (static_cast<cudaError_t>(code)) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed: return 1;
    default: return 0;
  }
}
