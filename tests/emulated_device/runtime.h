// The part of CUDA's runtime that .cu files call, over the memory and streams of the emulated devices; for callers inside an EntryScope. Errors as CUDA
// keeps them: a call that fails leaves its error with the thread until cudaGetLastError is asked, which a launch does; one that has spoiled the
// context stays, and fails whatever follows. Devices as CUDA keeps them: a thread works on device 0 until it chooses another, and a device that is
// chosen or worked on gets a context.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/emulated_device/streams.h"

using cudaStream_t = void*;
using cudaEvent_t = void*;
using cudaMemPool_t = void*;
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaDeviceAttr { cudaDevAttrMemoryPoolsSupported };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
constexpr unsigned cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0;

cudaError_t cudaGetLastError();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);

cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
/// Usable at once, which a device does not promise; what it promises, that earlier work keeps what is released, is what counts here.
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

namespace thinwire::emulated {
/// Leaves the error, if it is one, for cudaGetLastError.
cudaError_t noted(cudaError_t error);
}  // namespace thinwire::emulated
