// The host's stand-in for core/device/device_graph.cu: the work of a recorded stream is kept, and queued again with every launch. A graph some of whose
// memory was released since is not launched, even where other memory has come to lie there: on a device it would compute nonsense.
#include "core/device/device_graph_abi.h"
#include "tests/emulated_device/cuda_emulation.h"
#include "tests/emulated_device/state.h"

using namespace thinwire::emulated;
using thinwire::cuda::on_device;

THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_begin, thinwire_cuda_graph_begin_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_end, thinwire_cuda_graph_end_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_launch, thinwire_cuda_graph_launch_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_release, thinwire_cuda_graph_release_fn);

namespace thinwire::emulated {

Stream* recording() {
  for (Stream* stream : state().streams)
    if (stream->recorded != nullptr && stream->recorder == std::this_thread::get_id()) return stream;
  return nullptr;
}

cudaError_t lose(Stream& stream, const std::string& what) {
  stream.lost = true;
  return complain(cudaErrorStreamCaptureUnsupported, what);
}

cudaError_t not_while_recording(const char* what) {
  Stream* stream = recording();
  return stream == nullptr ? cudaSuccess : lose(*stream, std::string(what) + " while a stream is recorded");
}

void note_memory(const void* allocation) {
  if (recording() != nullptr) state().given.insert(allocation);
}
void forget_memory(const void* allocation) {
  for (Graph* graph : state().graphs) graph->stale = graph->stale || graph->memory.count(allocation) != 0;
}

}  // namespace thinwire::emulated

int thinwire_cuda_graph_begin(int ordinal, void* handle) {
  return on_device(ordinal, [&] {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (handle == nullptr || stream->recorded != nullptr)
      return complain(cudaErrorStreamCaptureUnsupported, handle == nullptr ? "records the default stream" : "records a stream that is recorded already");
    if (const auto e = not_while_recording("records another one"); e != cudaSuccess) return e;
    stream->recorded = std::make_unique<Graph>();
    stream->recorded->device = stream->device;
    stream->recorder = std::this_thread::get_id();
    stream->lost = false;
    return cudaSuccess;
  });
}

int thinwire_cuda_graph_end(void** graph, int ordinal, void* handle) {
  *graph = nullptr;
  return on_device(ordinal, [&] {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->recorded == nullptr) return complain(cudaErrorInvalidValue, "ends the recording of a stream that is not recorded");
    if (stream->recorder != std::this_thread::get_id()) return lose(*stream, "ends the recording of another thread");
    std::unique_ptr<Graph> made = std::move(stream->recorded);
    if (stream->lost) return complain(cudaErrorStreamCaptureInvalidated, "the recording was lost before it ended");
    state().graphs.insert(made.get());
    *graph = made.release();
    return cudaSuccess;
  });
}

int thinwire_cuda_graph_launch(void* handle, int ordinal, void* of) {
  return on_device(ordinal, [&] {
    auto* graph = static_cast<Graph*>(handle);
    if (state().graphs.count(graph) == 0 || graph->device != state().device)
      return complain(cudaErrorInvalidResourceHandle, "launches what is no graph of this device");
    if (graph->stale) return complain(cudaErrorIllegalAddress, "launches a graph that holds memory which was released since it was recorded");
    Stream* stream = find_stream(of);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->recorded != nullptr) return lose(*stream, "launches a graph on a stream that is recorded");
    stream->queue.insert(stream->queue.end(), graph->works.begin(), graph->works.end());
    return cudaSuccess;
  });
}

// Queued launches hold copies of the work, as a device holds the graph until they are done.
int thinwire_cuda_graph_release(void* handle, int ordinal) {
  return on_device(ordinal, [&] {
    auto* graph = static_cast<Graph*>(handle);
    if (state().graphs.erase(graph) == 0) return complain(cudaErrorInvalidResourceHandle, "releases what is no graph");
    delete graph;
    return cudaSuccess;
  });
}

/// For tests: calls of entry points by this process so far. No entry point itself.
THINWIRE_CUDA_ENTRY(emulated_entry_calls, std::int64_t());
std::int64_t emulated_entry_calls() { return state().entries; }
