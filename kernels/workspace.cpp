#include "kernels/workspace.h"

#include <vector>

#include "core/device/device_abi.h"
#include "core/device/device_entry.h"
#include "core/device/device_graph.h"

namespace thinwire {
namespace {

constexpr std::size_t grain = 256;  // of allocations

struct Workspace {
  int ordinal;
  void* stream;
  void* memory;
  std::size_t bytes;
};

}  // namespace

// Never given back when a thread ends: queued work may still use it.
std::byte* device_workspace(std::size_t bytes) {
  static const DeviceEntry<thinwire_cuda_allocate_in_order_fn> allocate("thinwire_cuda_allocate_in_order");
  static const DeviceEntry<thinwire_cuda_release_in_order_fn> release("thinwire_cuda_release_in_order");
  thread_local std::vector<Workspace> all;
  const Placement& here = placement();
  Workspace* own = nullptr;
  for (Workspace& w : all)
    if (w.ordinal == here.device.ordinal && w.stream == here.stream.handle) own = &w;
  if (own == nullptr) own = &all.emplace_back(Workspace{here.device.ordinal, here.stream.handle, nullptr, 0});
  if (bytes > own->bytes) {
    const std::size_t size = (bytes + grain - 1) / grain * grain;
    if (own->memory != nullptr) {
      note_device_release();  // graphs may hold its address
      release(own->memory);
    }
    own->memory = nullptr, own->bytes = 0;
    allocate(&own->memory, size);
    own->bytes = size;
  }
  return static_cast<std::byte*>(own->memory);
}

}  // namespace thinwire
