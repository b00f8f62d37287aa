#include "models/own_stream.h"

#include "collectives/machine.h"
#include "core/device_module.h"

namespace thinwire {

Device device_of_rank(DeviceKind kind) {
  if (kind == DeviceKind::host) return {};
  return {kind, Machine::rank_here() % device_module().devices()};
}

}  // namespace thinwire
