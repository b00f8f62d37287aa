#include "tests/emulated_device/runtime.h"

#include <string>
#include <utility>

#include "core/device/module_entry.h"
#include "tests/emulated_device/arena.h"
#include "tests/emulated_device/state.h"

namespace thinwire::emulated {
namespace {

thread_local int chosen = 0;
thread_local cudaError_t last = cudaSuccess;

/// One call on the thread's device.
template <typename Body>
cudaError_t call(const Body& body) {
  State& s = state();
  if (s.lost != cudaSuccess) return s.lost;
  s.contexts |= std::uint64_t{1} << s.device;
  return noted(body());
}

}  // namespace

int device_of_thread() { return chosen; }

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  if (error == cudaErrorIllegalAddress) state().lost = error;
  return error;
}

}  // namespace thinwire::emulated

using namespace thinwire::emulated;

cudaError_t cudaGetLastError() {
  if (state().lost != cudaSuccess) return state().lost;
  return std::exchange(last, cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) { return *device = state().device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  State& s = state();
  if (device < 0 || device >= Arena::instance().devices()) return noted(complain(cudaErrorInvalidDevice, "there is no device " + std::to_string(device)));
  s.device = chosen = device;
  return call([] { return cudaSuccess; });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 1, cudaSuccess; }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = nullptr, cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call([&] {
    if (const auto e = not_while_recording("allocates memory"); e != cudaSuccess) return e;
    *pointer = Arena::instance().allocate(bytes, state().device);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFree(void* pointer) {
  return call([&] { return release(pointer); });
}
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call([&] { return release_in_order(pointer, stream); });
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return call([&] {
    if (const auto e = not_while_recording("allocates page-locked memory"); e != cudaSuccess) return e;
    *pointer = allocate_staging(bytes);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFreeHost(void* pointer) {
  return call([&] { return release_staging(pointer); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return call([&] { return queue_copy(to, from, bytes, stream); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&] { return queue_fill(to, value, bytes, stream); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call([&] { return *stream = create_stream(), cudaSuccess; });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] { return destroy_stream(stream); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] { return synchronize(stream); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([&] {
    const Stream* found = find_stream(stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    *status = found->recorded != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event) {
  return call([&] { return wait(stream, event); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call([&] { return *event = create_event(), cudaSuccess; });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] { return destroy_event(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] { return record(event, stream); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] { return query(event); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call([&] { return elapsed(from, to, milliseconds); });
}

/// For tests: the devices that have a context, as bits 1 << device. No entry point itself.
THINWIRE_CUDA_ENTRY(emulated_contexts, std::uint64_t());
std::uint64_t emulated_contexts() { return state().contexts; }
