// What channels ask of a communicator by type, as they ask codecs what they can do.
#pragma once

namespace thinwire {

/// A communicator whose collectives must start in one order on all ranks, together with those of all others of its kind in the process. NCCL's are:
/// their kernels wait on the device for those of the other ranks, and where one device runs A before B and another B before A, each may keep the other
/// from being run (NCCL's user guide, "Using multiple NCCL communicators concurrently"; NVIDIA/nccl, issue 195). Channels over them start no transfer of a collective
/// before the collectives that were called earlier, on whichever channel, are done; programs call those in one order already.
class OneIssueOrder {
 public:
  virtual ~OneIssueOrder() = default;
};

}  // namespace thinwire
