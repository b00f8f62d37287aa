// Streams and events of the emulated devices. Work is queued and runs when the entry point that queued it returns; with
// THINWIRE_EMULATED_LAZY=1 as late as a device may: when the host waits for its stream, asks for an event (each question runs one piece
// of work), or work of another stream waits for an event behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// Those of CUDA's that entry points return.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};

namespace thinwire::emulated {

/// Around all that an entry point does, on the calling thread's device (runtime.h). One thread at a time; the outermost scope runs what was queued,
/// unless that is to be lazy.
class EntryScope {
 public:
  explicit EntryScope(const char* entry);
  ~EntryScope();
  EntryScope(const EntryScope&) = delete;
  EntryScope& operator=(const EntryScope&) = delete;
  /// Of the call's result: what the entry point returns.
  int leave(int result);
};

/// Entry point whose work runs now; null while none does.
const char* running_entry();

// For the thread's device. A null stream is its default stream. Memory that is named must be allocated there (a copy's other side
// may be the host's), else an error and a message.
cudaError_t queue_work(void* stream, std::function<void()> work);
/// Work with other processes: after `start` it is done when `done` says so. The device's memory is open in both.
cudaError_t queue_exchange(void* stream, std::function<void()> start, std::function<bool()> done);
cudaError_t queue_fill(void* to, int value, std::size_t bytes, void* stream);
cudaError_t queue_copy(void* to, const void* from, std::size_t bytes, void* stream);
/// Kernel arguments: null, or memory that the device can reach. Words: those of a struct, of which any may be an address; what is no
/// address of memory that exists is passed over.
cudaError_t check_address(const void* p);
cudaError_t check_words(const void* words, std::size_t bytes);
cudaError_t check_range(const void* p, std::size_t bytes, const char* what);

// Behind runtime.h.
void* allocate_staging(std::size_t bytes);
cudaError_t release_staging(void* pointer);
cudaError_t release(void* pointer);
/// When the stream has come there.
cudaError_t release_in_order(void* pointer, void* stream);
void* create_stream();
cudaError_t destroy_stream(void* stream);
cudaError_t synchronize(void* stream);
void* create_event();
cudaError_t destroy_event(void* event);
cudaError_t record(void* event, void* stream);
cudaError_t wait(void* stream, void* event);
cudaError_t query(void* event);
cudaError_t elapsed(void* from, void* to, float* milliseconds);

// While a stream is recorded (graphs.cpp), waiting, allocating, releasing and events fail, and the recording is lost, as on a device.
/// An error with a message while the calling thread records a stream.
cudaError_t not_while_recording(const char* what);

}  // namespace thinwire::emulated
