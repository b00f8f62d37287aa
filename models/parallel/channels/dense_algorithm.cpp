#include "models/parallel/channels/dense_algorithm.h"

#include "collectives/communicator/device_communicator.h"

namespace thinwire {

DenseAlgorithm dense_algorithm(Communicator& group) {
  const Device here = current_device();
  if (here.kind == DeviceKind::host || group.size() == 1) return DenseAlgorithm::ring;
  return why_not_nccl(group, here).empty() ? DenseAlgorithm::library : DenseAlgorithm::ring;
}

}  // namespace thinwire
