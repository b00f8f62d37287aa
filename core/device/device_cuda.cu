// Memory, streams and events of CUDA devices behind the C functions of core/device/device_abi.h. On emulated devices this file is compiled for the
// host, over the runtime of tests/emulated_device/runtime.h.
#include <cstdint>
#include <map>
#include <mutex>

#include "core/device/cuda_scope.cuh"
#include "core/device/device_abi.h"

using thinwire::cuda::on_device;

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
int thinwire_cuda_event_finished(void* event, int* finished, int ordinal) {
  return on_device(ordinal, [&] {
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
    *finished = state == cudaSuccess ? 1 : 0;
    return state == cudaErrorNotReady ? cudaSuccess : state;
  });
}
int thinwire_cuda_event_elapsed(void* from, void* to, float* milliseconds, int ordinal) {
  return on_device(ordinal, [&] { return cudaEventElapsedTime(milliseconds, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)); });
}
