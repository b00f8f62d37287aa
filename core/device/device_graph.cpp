#include "core/device/device_graph.h"

#include "core/device/device_entry.h"
#include "core/device/device_graph_abi.h"
#include "core/error.h"

namespace thinwire {
namespace {

void* finish() {
  static auto* const end = device_function<thinwire_cuda_graph_end_fn>("thinwire_cuda_graph_end");
  void* graph = nullptr;
  check_device_call(end(&graph, placement().device.ordinal, placement().stream.handle), "thinwire_cuda_graph_end");
  return graph;
}
void release(void* graph, int ordinal) {
  static auto* const call = device_function<thinwire_cuda_graph_release_fn>("thinwire_cuda_graph_release");
  if (graph != nullptr) call(graph, ordinal);
}

}  // namespace

void DeviceGraph::begin() {
  TW_ASSERT(!placement().on_host(), "a graph is recorded on a device");
  static const DeviceEntry<thinwire_cuda_graph_begin_fn> begin("thinwire_cuda_graph_begin");
  begin();
}

void DeviceGraph::end() { graph_ = finish(); }

void DeviceGraph::abandon() noexcept {
  try {
    release(finish(), device_.ordinal);
  } catch (const std::exception&) {  // the body's error is the one to tell
  }
}

void DeviceGraph::launch() const {
  static const DeviceEntry<thinwire_cuda_graph_launch_fn> launch("thinwire_cuda_graph_launch");
  launch(graph_);
}

DeviceGraph::~DeviceGraph() { release(graph_, device_.ordinal); }

}  // namespace thinwire
