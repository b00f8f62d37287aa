// Memory, streams and events of CUDA devices behind the C functions of core/device/device_abi.h.
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>

#include "core/device/cuda_scope.cuh"
#include "core/device/device_abi.h"

using thinwire::cuda::on_device;

THINWIRE_CUDA_ENTRY(thinwire_cuda_device_count, thinwire_cuda_device_count_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_device_name, thinwire_cuda_device_name_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_device_identity, thinwire_cuda_device_identity_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_error_text, thinwire_cuda_error_text_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_error_is_fatal, thinwire_cuda_error_is_fatal_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_allocate, thinwire_cuda_allocate_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_release, thinwire_cuda_release_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_allocate_in_order, thinwire_cuda_allocate_in_order_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_release_in_order, thinwire_cuda_release_in_order_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_copy, thinwire_cuda_copy_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_fill_zero, thinwire_cuda_fill_zero_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_allocate_staging, thinwire_cuda_allocate_staging_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_release_staging, thinwire_cuda_release_staging_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_stream_create, thinwire_cuda_stream_create_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_stream_destroy, thinwire_cuda_stream_destroy_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_stream_synchronize, thinwire_cuda_stream_synchronize_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_event_create, thinwire_cuda_event_create_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_event_destroy, thinwire_cuda_event_destroy_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_event_record, thinwire_cuda_event_record_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_event_wait, thinwire_cuda_event_wait_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_event_finished, thinwire_cuda_event_finished_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_event_elapsed, thinwire_cuda_event_elapsed_fn);

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
      return 0;
    }
    std::snprintf(text, sizeof text, "device 0 has compute capability %d.x, and the kernels need 8.0 or later", major);
  }
  *reason = text;
  return error != cudaSuccess ? static_cast<int>(error) : static_cast<int>(cudaErrorNoDevice);
}

int thinwire_cuda_device_name(int ordinal, char* text, std::size_t size) {
  cudaDeviceProp device;
  const cudaError_t error = cudaGetDeviceProperties(&device, ordinal);
  if (error == cudaSuccess)
    std::snprintf(text, size, "%s, sm_%d%d, %zu GiB", device.name, device.major, device.minor, device.totalGlobalMem >> 30);
  return static_cast<int>(error);
}

int thinwire_cuda_device_identity(int ordinal, char* text, std::size_t size) {
  cudaDeviceProp device;
  const cudaError_t error = cudaGetDeviceProperties(&device, ordinal);
  std::size_t at = 0;
  for (std::size_t i = 0; error == cudaSuccess && i < sizeof device.uuid.bytes && at + 3 <= size; ++i)
    at += static_cast<std::size_t>(std::snprintf(text + at, size - at, "%02x", static_cast<unsigned char>(device.uuid.bytes[i])));
  return static_cast<int>(error);
}

const char* thinwire_cuda_error_text(int code) {
  static thread_local char text[96];
  switch (code) {
    case THINWIRE_CUDA_NO_BLAS: return "libcublasLt of this CUDA version does not open: products need the CUDA toolkit's libraries on the loader's path";
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

int thinwire_cuda_allocate(void** pointer, std::size_t bytes, int ordinal) {
  return on_device(ordinal, [&] { return cudaMalloc(pointer, bytes); });
}
int thinwire_cuda_release(void* pointer, int ordinal) {
  return on_device(ordinal, [&] { return cudaFree(pointer); });
}
namespace {

// Whether the device allocates in the order of streams. Its pool keeps what was released: by default it would give memory back to the driver
// at every synchronisation and ask for it again.
bool has_pool(int ordinal) {
  static std::mutex lock;
  static std::map<int, bool> known;
  const std::lock_guard hold(lock);
  if (const auto found = known.find(ordinal); found != known.end()) return found->second;
  int supported = 0;
  cudaMemPool_t pool{};
  std::uint64_t keep = UINT64_MAX;
  const bool has = cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, ordinal) == cudaSuccess && supported != 0 &&
                   cudaDeviceGetDefaultMemPool(&pool, ordinal) == cudaSuccess &&
                   cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep) == cudaSuccess;
  return known[ordinal] = has;
}

cudaError_t not_while_recorded(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (const auto e = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status); e != cudaSuccess) return e;
  return status == cudaStreamCaptureStatusNone ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

}  // namespace

int thinwire_cuda_allocate_in_order(void** pointer, std::size_t bytes, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    if (const auto e = not_while_recorded(stream); e != cudaSuccess) return e;
    return has_pool(ordinal) ? cudaMallocAsync(pointer, bytes, static_cast<cudaStream_t>(stream)) : cudaMalloc(pointer, bytes);
  });
}
int thinwire_cuda_release_in_order(void* pointer, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    if (const auto e = not_while_recorded(stream); e != cudaSuccess) return e;
    if (has_pool(ordinal)) return cudaFreeAsync(pointer, static_cast<cudaStream_t>(stream));
    const cudaError_t e = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    return e != cudaSuccess ? e : cudaFree(pointer);
  });
}
int thinwire_cuda_copy(void* to, const void* from, std::size_t bytes, int ordinal, void* stream) {
  // Default: the addresses say which side is the host, which unified addressing makes unambiguous.
  return on_device(ordinal, [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)); });
}
int thinwire_cuda_fill_zero(void* to, std::size_t bytes, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return cudaMemsetAsync(to, 0, bytes, static_cast<cudaStream_t>(stream)); });
}
int thinwire_cuda_allocate_staging(void** pointer, std::size_t bytes, int ordinal) {
  return on_device(ordinal, [&] { return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault); });
}
int thinwire_cuda_release_staging(void* pointer, int ordinal) {
  return on_device(ordinal, [&] { return cudaFreeHost(pointer); });
}

int thinwire_cuda_stream_create(void** stream, int ordinal) {
  return on_device(ordinal, [&] { return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking); });
}
int thinwire_cuda_stream_destroy(void* stream, int ordinal) {
  return on_device(ordinal, [&] { return cudaStreamDestroy(static_cast<cudaStream_t>(stream)); });
}
int thinwire_cuda_stream_synchronize(void* stream, int ordinal) {
  return on_device(ordinal, [&] { return cudaStreamSynchronize(static_cast<cudaStream_t>(stream)); });
}

int thinwire_cuda_event_create(void** event, int ordinal) {
  return on_device(ordinal, [&] { return cudaEventCreate(reinterpret_cast<cudaEvent_t*>(event)); });
}
int thinwire_cuda_event_destroy(void* event, int ordinal) {
  return on_device(ordinal, [&] { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); });
}
int thinwire_cuda_event_record(void* event, void* stream, int ordinal) {
  return on_device(ordinal, [&] { return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)); });
}
int thinwire_cuda_event_wait(void* stream, void* event, int ordinal) {
  return on_device(ordinal, [&] { return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event)); });
}
int thinwire_cuda_event_finished(void* event, int* finished) {
  const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
  *finished = state == cudaSuccess ? 1 : 0;
  return state == cudaErrorNotReady ? 0 : static_cast<int>(state);
}
int thinwire_cuda_event_elapsed(void* from, void* to, float* milliseconds) {
  return static_cast<int>(cudaEventElapsedTime(milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)));
}
