// The host's stand-in for core/device/device_cuda.cu.
#include <cstdio>

#include "core/device/module_entry.h"
#include "tests/emulated_device/arena.h"
#include "tests/emulated_device/cuda_emulation.h"

using namespace thinwire::emulated;
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

int thinwire_cuda_allocate(void** pointer, std::size_t bytes, int ordinal) {
  return on_device(ordinal, [&] {
    if (const auto e = not_while_recording("allocates memory"); e != cudaSuccess) return e;
    *pointer = Arena::instance().allocate(bytes, ordinal);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
int thinwire_cuda_release(void* pointer, int ordinal) {
  return on_device(ordinal, [&] { return release(pointer); });
}
// Usable at once, which a device does not promise; what it promises, that earlier work keeps what is released, is what counts here.
int thinwire_cuda_allocate_in_order(void** pointer, std::size_t bytes, int ordinal, void*) { return thinwire_cuda_allocate(pointer, bytes, ordinal); }
int thinwire_cuda_release_in_order(void* pointer, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return release_in_order(pointer, stream); });
}
int thinwire_cuda_copy(void* to, const void* from, std::size_t bytes, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return queue_copy(to, from, bytes, stream); });
}
int thinwire_cuda_fill_zero(void* to, std::size_t bytes, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return queue_fill(to, 0, bytes, stream); });
}
int thinwire_cuda_allocate_staging(void** pointer, std::size_t bytes, int ordinal) {
  return on_device(ordinal, [&] {
    if (const auto e = not_while_recording("allocates page-locked memory"); e != cudaSuccess) return e;
    *pointer = allocate_staging(bytes);
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
int thinwire_cuda_release_staging(void* pointer, int ordinal) {
  return on_device(ordinal, [&] { return release_staging(pointer); });
}
int thinwire_cuda_stream_create(void** stream, int ordinal) {
  return on_device(ordinal, [&] { return *stream = create_stream(), cudaSuccess; });
}
int thinwire_cuda_stream_destroy(void* stream, int ordinal) {
  return on_device(ordinal, [&] { return destroy_stream(stream); });
}
int thinwire_cuda_stream_synchronize(void* stream, int ordinal) {
  return on_device(ordinal, [&] { return synchronize(stream); });
}
int thinwire_cuda_event_create(void** event, int ordinal) {
  return on_device(ordinal, [&] { return *event = create_event(), cudaSuccess; });
}
int thinwire_cuda_event_destroy(void* event, int ordinal) {
  return on_device(ordinal, [&] { return destroy_event(event); });
}
int thinwire_cuda_event_record(void* event, void* stream, int ordinal) {
  return on_device(ordinal, [&] { return record(event, stream); });
}
int thinwire_cuda_event_wait(void* stream, void* event, int ordinal) {
  return on_device(ordinal, [&] { return wait(stream, event); });
}
int thinwire_cuda_event_finished(void* event, int* finished) {
  return on_device(0, [&] {
    const cudaError_t asked = query(event);
    *finished = asked == cudaSuccess ? 1 : 0;
    return asked == cudaErrorNotReady ? cudaSuccess : asked;
  });
}
int thinwire_cuda_event_elapsed(void* from, void* to, float* milliseconds) {
  return on_device(0, [&] { return elapsed(from, to, milliseconds); });
}
