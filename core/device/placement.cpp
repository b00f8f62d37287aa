#include "core/device/placement.h"

#include <cstring>

namespace thinwire {
namespace {

Placement& of_thread() {
  thread_local Placement current;
  return current;
}

}  // namespace

const Placement& placement() { return of_thread(); }
Device current_device() { return of_thread().device; }

PlacementScope::PlacementScope(const Placement& where) : before_(of_thread()) {
  // The module is opened here, where its absence is one clear error, and not on the first allocation.
  (void)device_backend(where.device.kind);
  of_thread() = where;
}

PlacementScope::~PlacementScope() { of_thread() = before_; }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Placement& here = placement();
  if (here.on_host())
    std::memcpy(to, from, bytes);
  else
    device_backend(here.device.kind).copy(to, from, bytes, here.stream);
}

void fill_zero_bytes(void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const Placement& here = placement();
  if (here.on_host())
    std::memset(to, 0, bytes);
  else
    device_backend(here.device.kind).fill_zero(to, bytes, here.stream);
}

void synchronize_placement() {
  const Placement& here = placement();
  if (!here.on_host()) device_backend(here.device.kind).synchronize(here.stream);
}

void copy_and_wait(void* to, const void* from, std::size_t bytes) {
  copy_bytes(to, from, bytes);
  synchronize_placement();
}

}  // namespace thinwire
