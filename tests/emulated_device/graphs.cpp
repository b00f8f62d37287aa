// The host's stand-in for core/device_graph.cu: the work of a recorded stream is kept, and queued again with every launch.
#include "core/device_graph_abi.h"
#include "tests/emulated_device/cuda_emulation.h"
#include "tests/emulated_device/state.h"

using namespace thinwire::emulated;
using thinwire::cuda::on_device;

THINWIRE_CUDA_ENTRY thinwire_cuda_graph_begin_fn thinwire_cuda_graph_begin;
THINWIRE_CUDA_ENTRY thinwire_cuda_graph_end_fn thinwire_cuda_graph_end;
THINWIRE_CUDA_ENTRY thinwire_cuda_graph_launch_fn thinwire_cuda_graph_launch;
THINWIRE_CUDA_ENTRY thinwire_cuda_graph_release_fn thinwire_cuda_graph_release;

namespace thinwire::emulated {

cudaError_t not_while_recording(const char* what) {
  for (const Stream* stream : state().streams)
    if (stream->recorded != nullptr) return complain(cudaErrorStreamCaptureUnsupported, std::string(what) + " while a stream is recorded");
  return cudaSuccess;
}

}  // namespace thinwire::emulated

int thinwire_cuda_graph_begin(int ordinal, void* handle) {
  return on_device(ordinal, [&] {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (handle == nullptr || stream->recorded != nullptr)
      return complain(cudaErrorStreamCaptureUnsupported, handle == nullptr ? "records the default stream" : "records a stream that is recorded already");
    stream->recorded = std::make_unique<std::vector<Work>>();
    return cudaSuccess;
  });
}

int thinwire_cuda_graph_end(void** graph, int ordinal, void* handle) {
  *graph = nullptr;
  return on_device(ordinal, [&] {
    Stream* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->recorded == nullptr) return complain(cudaErrorInvalidValue, "ends the recording of a stream that is not recorded");
    auto* made = new Graph{stream->device, std::move(*stream->recorded)};
    stream->recorded = nullptr;
    state().graphs.insert(made);
    *graph = made;
    return cudaSuccess;
  });
}

int thinwire_cuda_graph_launch(void* handle, int ordinal, void* of) {
  return on_device(ordinal, [&] {
    auto* graph = static_cast<Graph*>(handle);
    if (state().graphs.count(graph) == 0 || graph->device != state().device)
      return complain(cudaErrorInvalidResourceHandle, "launches what is no graph of this device");
    Stream* stream = find_stream(of);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->recorded != nullptr) return complain(cudaErrorStreamCaptureUnsupported, "launches a graph on a stream that is recorded");
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
