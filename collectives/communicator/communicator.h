// A group of ranks that can exchange bytes. MPI today; NCCL behind the same interface.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "kernels/codec/codec.h"

namespace thinwire {

/// A pending non-blocking operation. Destroying an unfinished request waits for it (but not while an
/// exception unwinds the stack: its partner may never come, and the job is about to end).
class Request {
 public:
  virtual ~Request() = default;
  /// True when done; makes progress. Never blocks.
  virtual bool test() = 0;
  /// Blocks politely (spins a little, then sleeps in short naps: waiting ranks leave the core to others).
  void wait();
};
using RequestPtr = std::unique_ptr<Request>;

/// All calls are collective over the group in the same order on every rank, except send and receive.
/// Memory must stay valid until the request is done. Counts are in bytes unless said otherwise; they may
/// exceed 2^31. `send` may equal `receive` in all_reduce (in place), nowhere else. Failures throw
/// RuntimeFailure naming the library call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// A communicator of its own over the same ranks: one per channel.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// The same for messages from rank to rank, where operations that cross must not wait for each other's turn on one stream.
  virtual std::unique_ptr<Communicator> duplicate_for_messages() { return duplicate(); }
  /// Ranks with equal colour, ordered by key. Collective. Null for colour < 0.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Whether operations take memory of this device, in the order of the placement's stream (core/device/placement.h): what was queued there before
  /// the call is sent, and what a done request delivered is there for what is queued afterwards. The default: host memory only.
  virtual bool serves(Device device) const { return device.kind == DeviceKind::host; }
  /// Whether, like a CUDA-aware MPI, it can at least be handed device addresses whose contents are there when it is called.
  virtual bool takes_device_addresses() const { return false; }
  /// The communicator of the same ranks for host memory (sizes, control messages): itself where it serves the host.
  virtual Communicator& host_side() { return *this; }
  /// How bytes travel, for records and messages: "MPI", "NCCL", "MPI, staged through page-locked memory".
  virtual std::string transport() const = 0;

  /// Whether reductions of this type and operator are supported.
  virtual bool supports(DType dtype, ReduceOp op) const = 0;

  virtual RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype,
                                ReduceOp op) = 0;
  /// Equal shards: receive = elements_per_rank elements of the reduction, shard = my rank.
  virtual RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank,
                                    DType dtype, ReduceOp op) = 0;
  /// Shards of different sizes: counts[r] elements for rank r, in rank order. The default takes the equal
  /// form where it fits and throws UsageError elsewhere.
  virtual RequestPtr reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts,
                                      DType dtype, ReduceOp op);
  virtual RequestPtr reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op,
                            int root) = 0;
  virtual RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) = 0;
  /// Variable sizes; `counts` and `offsets` in bytes, known on all ranks.
  virtual RequestPtr all_gather_v(const void* send, std::int64_t bytes, void* receive,
                                  std::span<const std::int64_t> counts,
                                  std::span<const std::int64_t> offsets) = 0;
  virtual RequestPtr all_to_all_v(const void* send, std::span<const std::int64_t> send_counts,
                                  std::span<const std::int64_t> send_offsets, void* receive,
                                  std::span<const std::int64_t> receive_counts,
                                  std::span<const std::int64_t> receive_offsets) = 0;
  virtual RequestPtr broadcast(void* data, std::int64_t bytes, int root) = 0;
  virtual RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) = 0;
  /// Messages longer than `bytes` throw RuntimeFailure. `received` (optional) gets the actual size. Beyond 1
  /// GiB a receive advances only when it is tested: test it in turn with what its sender waits for.
  virtual RequestPtr receive(void* data, std::int64_t bytes, int from, int tag,
                             std::int64_t* received = nullptr) = 0;
  /// An empty message that only says "so far": who waits for it waits for its sender. Over an emulated network it takes no time.
  virtual RequestPtr signal(int to, int tag) { return send(nullptr, 0, to, tag); }
  virtual RequestPtr await_signal(int from, int tag) { return receive(nullptr, 0, from, tag); }
  virtual void barrier() = 0;
};

/// Environment of the process: initialises MPI once (thread level multiple) and finalises it; registers the
/// abort hook so that any failure ends the whole job with one MPI_Abort; starts the watchdog; counts the
/// ranks of this machine and, unless OMP_NUM_THREADS is set, gives each its share of the cores. Where MPI is
/// initialised already (test programs), it neither initialises nor finalises.
class MpiEnvironment {
 public:
  MpiEnvironment(int* argc, char*** argv);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;
  /// MPI_COMM_WORLD.
  std::unique_ptr<Communicator> world();
  /// "Open MPI v4.1.4" as loaded.
  static std::string library_version();

 private:
  int exceptions_;  ///< in flight at construction; more at destruction means that the stack unwinds
};

}  // namespace thinwire
