// Which communicator carries tensors on devices.
#pragma once

#include <memory>
#include <string>

#include "collectives/communicator/communicator.h"

namespace thinwire {

/// Over the ranks of `bootstrap` (MPI, or an emulated network), for tensors on `device`, which is this rank's; collective. NCCL where every rank
/// has a device of its own and `bootstrap` is MPI itself; else host memory of `bootstrap` (StagingCommunicator): several ranks may share a
/// device there, and an emulated network stays one. THINWIRE_DEVICE_TRANSPORT = nccl or staged overrules; EnvironmentError with the reason
/// where NCCL is asked for and cannot be had. One rank alone keeps its bytes on the device. The host: a duplicate of `bootstrap`. Channels on a device do this by themselves.
enum class DeviceUse {
  collectives,
  messages,    ///< from rank to rank (TwoWayCommunicator)
  host_memory  ///< something on the host has a part in it: never NCCL
};
std::unique_ptr<Communicator> make_device_communicator(Communicator& bootstrap, Device device, DeviceUse use = DeviceUse::collectives);

/// Why make_device_communicator would not take NCCL for these ranks; empty where it would. Collective; equal on all ranks.
std::string why_not_nccl(Communicator& bootstrap, Device device);

/// Whether no two ranks of `ranks` use one device; collective.
bool devices_of_their_own(Communicator& ranks, Device device);

}  // namespace thinwire
