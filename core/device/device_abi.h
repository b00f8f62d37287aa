// The seam between the programs and libthinwire_cuda.so: plain C functions over plain pointers. The module exports one of them,
// thinwire_cuda_find, which finds the others by name and says what type they have (core/device/module_entry.h). Whoever calls one compares that
// type with its own, so a module of another build is refused instead of misunderstood.
//
// Every function that can fail returns 0, or a cudaError_t or another code for thinwire_cuda_error_text. Streams and events
// are cudaStream_t and cudaEvent_t as void*; a null stream is the device's default stream.
#pragma once

#include <cstddef>

/// Errors that are no cudaError_t: cuBLASLt's status, NCCL's result on top of these, and libraries that do not open.
#define THINWIRE_CUDA_BLAS_ERROR 10000
#define THINWIRE_CUDA_NO_BLAS 19999
#define THINWIRE_CUDA_NCCL_ERROR 20000
#define THINWIRE_CUDA_NO_NCCL 29999

extern "C" {
/// Entry point `name`, or null; `*type` becomes the mangled name of its function type (std::type_info::name).
using thinwire_cuda_find_fn = void*(const char* name, const char** type);
/// Number of devices; on an error, or when there is none, `*reason` points to a static sentence.
using thinwire_cuda_device_count_fn = int(int* count, const char** reason);
/// What the device is, for records: "NVIDIA H200, sm_90, 139 GiB", or that it is emulated.
using thinwire_cuda_device_name_fn = int(int ordinal, char* text, std::size_t size);
/// What tells the devices of one machine apart, whichever of them this process sees.
using thinwire_cuda_device_identity_fn = int(int ordinal, char* text, std::size_t size);
using thinwire_cuda_error_text_fn = const char*(int code);
/// 1 when the error has spoiled the context: nothing on the device works any more in this process.
using thinwire_cuda_error_is_fatal_fn = int(int code);

using thinwire_cuda_allocate_fn = int(void** pointer, std::size_t bytes, int ordinal);
using thinwire_cuda_release_fn = int(void* pointer, int ordinal);
/// Memory that the work of one stream may use, between these two calls in its order. Nothing waits where the device has memory pools; the
/// pool keeps what was released. Refused while the stream is recorded: the memory would be the graph's.
using thinwire_cuda_allocate_in_order_fn = int(void** pointer, std::size_t bytes, int ordinal, void* stream);
using thinwire_cuda_release_in_order_fn = int(void* pointer, int ordinal, void* stream);
using thinwire_cuda_copy_fn = int(void* to, const void* from, std::size_t bytes, int ordinal, void* stream);
/// Zeros.
using thinwire_cuda_fill_zero_fn = int(void* to, std::size_t bytes, int ordinal, void* stream);
/// Page-locked memory of the host.
using thinwire_cuda_allocate_staging_fn = int(void** pointer, std::size_t bytes, int ordinal);
using thinwire_cuda_release_staging_fn = int(void* pointer, int ordinal);
using thinwire_cuda_stream_create_fn = int(void** stream, int ordinal);
using thinwire_cuda_stream_destroy_fn = int(void* stream, int ordinal);
using thinwire_cuda_stream_synchronize_fn = int(void* stream, int ordinal);
using thinwire_cuda_event_create_fn = int(void** event, int ordinal);
using thinwire_cuda_event_destroy_fn = int(void* event, int ordinal);
using thinwire_cuda_event_record_fn = int(void* event, void* stream, int ordinal);
using thinwire_cuda_event_wait_fn = int(void* stream, void* event, int ordinal);
using thinwire_cuda_event_finished_fn = int(void* event, int* finished, int ordinal);
using thinwire_cuda_event_elapsed_fn = int(void* from, void* to, float* milliseconds, int ordinal);
}
