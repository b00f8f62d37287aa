// Entry points of the CUDA module's door to NCCL (core/device/device_abi.h has the rules). libnccl.so.2 is opened on the first call, so the module
// loads without it. Communicators are made non-blocking: a call that is still at work returns 0 and `state` says so, which is what lets a rank
// give up a communicator whose partners are gone. A communicator serves one stream; all ranks issue its operations in one order.
#pragma once

#include <cstddef>

#include "core/device/device_abi.h"

namespace thinwire {

inline constexpr int nccl_unique_id_bytes = 128;
inline constexpr int nccl_sum = 0, nccl_max = 1;
/// What thinwire_nccl_state reports beside error codes.
inline constexpr int nccl_ready = 0, nccl_at_work = -1;

}  // namespace thinwire

extern "C" {
/// 10000 major + 100 minor + patch of the library as loaded.
using thinwire_nccl_version_fn = int(int* version);
/// For one rank to make and all others to be told: nccl_unique_id_bytes.
using thinwire_nccl_unique_id_fn = int(void* id);
using thinwire_nccl_create_fn = int(void** communicator, int ranks, const void* id, int rank, int ordinal);
/// nccl_ready, nccl_at_work, or an error (also one that came later, from another rank or the network).
using thinwire_nccl_state_fn = int(void* communicator, int* state);
using thinwire_nccl_destroy_fn = int(void* communicator);
/// Ends what is in flight on this rank, wherever its partners are, and frees the communicator.
using thinwire_nccl_abort_fn = int(void* communicator);
/// Between begin = 1 and begin = 0 operations are collected and started together: sends and receives cannot wait for each other.
using thinwire_nccl_group_fn = int(int begin, int ordinal);
/// dtype as DType; u16 has no counterpart there. Counts are elements.
using thinwire_nccl_all_reduce_fn = int(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, void* stream);
using thinwire_nccl_reduce_scatter_fn = int(void* communicator, const void* send, void* receive, std::size_t count_per_rank, int dtype, int op, void* stream);
using thinwire_nccl_reduce_fn = int(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, int root, void* stream);
using thinwire_nccl_all_gather_fn = int(void* communicator, const void* send, void* receive, std::size_t bytes, void* stream);
using thinwire_nccl_broadcast_fn = int(void* communicator, const void* send, void* receive, std::size_t bytes, int root, void* stream);
using thinwire_nccl_send_fn = int(void* communicator, const void* data, std::size_t bytes, int to, void* stream);
using thinwire_nccl_receive_fn = int(void* communicator, void* data, std::size_t bytes, int from, void* stream);
}
