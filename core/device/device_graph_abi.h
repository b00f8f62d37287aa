// Entry points of core/device/device_graph.cu: a stream's work recorded as a graph. Rules: core/device/device_abi.h.
#pragma once

#include "core/device/device_abi.h"

extern "C" {
/// From now on what this thread queues on `stream` is recorded instead of run. Allocating, waiting and events fail until the end.
using thinwire_cuda_graph_begin_fn = int(int ordinal, void* stream);
/// `*graph` is what was queued; null where that failed. The stream runs again what it is given.
using thinwire_cuda_graph_end_fn = int(void** graph, int ordinal, void* stream);
using thinwire_cuda_graph_launch_fn = int(void* graph, int ordinal, void* stream);
using thinwire_cuda_graph_release_fn = int(void* graph, int ordinal);
}
