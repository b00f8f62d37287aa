#include "kernels/workspace.h"

#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "core/device/device_abi.h"
#include "core/device/device_entry.h"
#include "core/device/device_graph.h"
#include "core/device/stream_end.h"
#include "core/error.h"

namespace thinwire {
namespace {

constexpr std::size_t grain = 256;  // of allocations

struct Workspace {
  void* memory = nullptr;
  std::size_t bytes = 0;
};
// A thread that ends leaves its own to the next of its number: queued work may still use it.
using Owner = std::tuple<int, void*, std::thread::id>;
struct Workspaces {
  std::mutex lock;
  std::map<Owner, Workspace> all;
};
Workspaces& workspaces() {
  static auto* made = new Workspaces;  // leaked: streams of static objects end late
  return *made;
}

/// In the order of the placement's stream.
void release(void* memory) {
  static const DeviceEntry<thinwire_cuda_release_in_order_fn> release_in_order("thinwire_cuda_release_in_order");
  note_device_release();  // graphs may hold its address
  release_in_order(memory);
}

/// Those of a stream end with it: another stream may get its handle, and its queued work keeps what it was given.
void release_all_of(const Stream& stream) noexcept {
  Workspaces& w = workspaces();
  const std::lock_guard hold(w.lock);
  const auto first = w.all.lower_bound(Owner{stream.device.ordinal, stream.handle, std::thread::id()});
  auto last = first;
  for (; last != w.all.end() && std::get<0>(last->first) == stream.device.ordinal && std::get<1>(last->first) == stream.handle; ++last) {
    if (last->second.memory == nullptr) continue;
    try {
      const PlacementScope there(Placement{stream.device, stream});
      release(last->second.memory);
    } catch (const Error&) {  // the device has failed: whoever uses it next says so
    }
  }
  w.all.erase(first, last);
}

Workspace& workspace_here() {
  [[maybe_unused]] static const bool told = [] { return before_stream_ends(release_all_of), true; }();
  Workspaces& w = workspaces();
  const Placement& here = placement();
  const std::lock_guard hold(w.lock);
  return w.all[Owner{here.device.ordinal, here.stream.handle, std::this_thread::get_id()}];  // its address stays
}

}  // namespace

std::byte* device_workspace(std::size_t bytes) {
  static const DeviceEntry<thinwire_cuda_allocate_in_order_fn> allocate("thinwire_cuda_allocate_in_order");
  Workspace& own = workspace_here();
  if (bytes > own.bytes) {
    const std::size_t size = (bytes + grain - 1) / grain * grain;
    if (own.memory != nullptr) release(own.memory);
    own = Workspace{};
    allocate(&own.memory, size);
    own.bytes = size;
  }
  return static_cast<std::byte*>(own.memory);
}

}  // namespace thinwire
