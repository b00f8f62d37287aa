// CUDA graphs behind the C functions of core/device/device_graph_abi.h.
#include "core/device/cuda_scope.cuh"
#include "core/device/device_graph_abi.h"

using thinwire::cuda::on_device;

THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_begin, thinwire_cuda_graph_begin_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_end, thinwire_cuda_graph_end_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_launch, thinwire_cuda_graph_launch_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_graph_release, thinwire_cuda_graph_release_fn);

int thinwire_cuda_graph_begin(int ordinal, void* stream) {
  // Of this thread alone: another one may allocate meanwhile.
  return on_device(ordinal, [&] { return cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeThreadLocal); });
}

int thinwire_cuda_graph_end(void** graph, int ordinal, void* stream) {
  *graph = nullptr;
  return on_device(ordinal, [&] {
    cudaGraph_t recorded = nullptr;
    cudaError_t error = cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &recorded);
    cudaGraphExec_t executable = nullptr;
    if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&executable, recorded, 0);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    if (error == cudaSuccess) *graph = executable;
    return error;
  });
}

int thinwire_cuda_graph_launch(void* graph, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream)); });
}

int thinwire_cuda_graph_release(void* graph, int ordinal) {
  return on_device(ordinal, [&] { return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); });
}
