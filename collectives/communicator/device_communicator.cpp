#include "collectives/communicator/device_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/communicator/nccl_communicator.h"
#include "collectives/communicator/staging_communicator.h"
#include "collectives/communicator/two_way_communicator.h"
#include "core/device/device_module.h"
#include "core/process/environment.h"
#include "core/device/placement.h"
#include "core/random.h"

namespace thinwire {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

/// The first reason of any rank, or none: ranks decide alike.
std::string reason_of_any(Communicator& ranks, const std::string& own) {
  const std::int64_t none = ranks.size();
  std::int64_t first = none;
  std::vector<std::uint8_t> has(static_cast<std::size_t>(ranks.size()));
  const std::uint8_t mine = own.empty() ? 0 : 1;
  ranks.all_gather(&mine, 1, has.data())->wait();
  for (std::size_t r = 0; r < has.size() && first == none; ++r)
    if (has[r] != 0) first = static_cast<std::int64_t>(r);
  if (first == none) return {};
  std::int64_t length = static_cast<std::int64_t>(own.size());
  ranks.broadcast(&length, sizeof length, static_cast<int>(first))->wait();
  std::string text = own;
  text.resize(static_cast<std::size_t>(length));
  ranks.broadcast(text.data(), length, static_cast<int>(first))->wait();
  return text;
}

std::string wanted_transport() {
  std::string wanted = Environment::get("THINWIRE_DEVICE_TRANSPORT").value_or("automatic");
  if (wanted != "automatic" && wanted != "nccl" && wanted != "staged")
    throw UsageError("THINWIRE_DEVICE_TRANSPORT is '" + wanted + "'; it is automatic, nccl or staged");
  return wanted;
}

}  // namespace

bool devices_of_their_own(Communicator& ranks, Device device) {
  const std::uint64_t own = hash_name(host_name() + " " + device_module().device_identity(device.ordinal));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&own, sizeof own, all.data())->wait();
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

std::string why_not_nccl(Communicator& bootstrap, Device device) {
  Communicator& ranks = bootstrap.host_side();
  const PlacementScope host{Device{}};
  const std::string wanted = wanted_transport();
  if (device.kind == DeviceKind::host) return "the tensors lie on the host";
  std::string reason = ranks.transport() != "MPI" ? "the ranks are joined by: " + ranks.transport() : NcclCommunicator::why_unavailable();
  reason = reason_of_any(ranks, reason);
  if (!devices_of_their_own(ranks, device) && reason.empty()) reason = "several ranks share a device, which NCCL does not allow";
  if (wanted == "nccl" && !reason.empty()) throw EnvironmentError("THINWIRE_DEVICE_TRANSPORT=nccl: " + reason);
  if (wanted == "staged" && reason.empty()) reason = "THINWIRE_DEVICE_TRANSPORT is staged";
  return reason;
}

std::unique_ptr<Communicator> make_device_communicator(Communicator& bootstrap, Device device, DeviceUse use) {
  Communicator& ranks = bootstrap.host_side();
  if (device.kind == DeviceKind::host) return ranks.duplicate();
  const PlacementScope host{Device{}};
  (void)wanted_transport();  // a wrong word is an error everywhere
  if (use == DeviceUse::host_memory || ranks.size() == 1) return std::make_unique<StagingCommunicator>(ranks.duplicate(), device);
  if (!why_not_nccl(ranks, device).empty()) return std::make_unique<StagingCommunicator>(ranks.duplicate(), device);
  const auto nccl = [&] { return std::make_unique<NcclCommunicator>(ranks.duplicate(), NcclEntries::of_module(), device); };
  if (use != DeviceUse::messages) return nccl();
  auto up = nccl();
  return std::make_unique<TwoWayCommunicator>(std::move(up), nccl());
}

}  // namespace thinwire
