// Device memory over a communicator of host memory: bytes are copied into page-locked memory, travel from there, and are copied up.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "core/device/device_stream.h"

namespace thinwire {

/// Several ranks may share a device. An operation belongs to the stream of the calling thread's placement, which must be on `device`: what was
/// queued there before is sent, and when a request is done, what it delivers is there for everything that is queued on that stream
/// afterwards (the host must synchronise the stream before it looks). Nothing blocks the host: requests that were not tested are at a standstill.
///
/// Where the inner communicator takes device memory itself (a CUDA-aware MPI), it is handed the device's addresses as soon as the stream has
/// come there; but reductions whose operator is ours (f16, bf16) run on the host and are staged all the same.
///
/// signal, await_signal and barrier are the inner communicator's; host_side() is where host memory travels.
class StagingCommunicator final : public Communicator {
 public:
  StagingCommunicator(std::unique_ptr<Communicator> inner, Device device);
  ~StagingCommunicator() override;
  StagingCommunicator(const StagingCommunicator&) = delete;
  StagingCommunicator& operator=(const StagingCommunicator&) = delete;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  bool supports(DType dtype, ReduceOp op) const override { return inner_->supports(dtype, op); }
  bool serves(Device device) const override { return device == device_; }
  Communicator& host_side() override { return *inner_; }
  std::string transport() const override;

  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) override;
  RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype, ReduceOp op) override;
  RequestPtr reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) override;
  RequestPtr reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op, int root) override;
  RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) override;
  RequestPtr all_gather_v(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> offsets) override;
  RequestPtr all_to_all_v(const void* send, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* receive,
                          std::span<const std::int64_t> receive_counts, std::span<const std::int64_t> receive_offsets) override;
  RequestPtr broadcast(void* data, std::int64_t bytes, int root) override;
  RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) override;
  RequestPtr receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received) override;
  RequestPtr signal(int to, int tag) override { return inner_->signal(to, tag); }
  RequestPtr await_signal(int from, int tag) override { return inner_->await_signal(from, tag); }
  void barrier() override { inner_->barrier(); }

  /// The same with something else than the inner communicator's operation between the copies: `start` gets host memory, laid out as the
  /// device's is (the channel's own ring).
  using Start = std::function<RequestPtr(const void* send, void* receive)>;
  RequestPtr all_reduce_by(const void* send, void* receive, std::int64_t bytes, Start start);
  RequestPtr reduce_scatter_by(const void* send, std::int64_t send_bytes, void* receive, std::int64_t receive_bytes, Start start);
  RequestPtr all_gather_by(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t> counts,
                           std::span<const std::int64_t> offsets, Start start);

 private:
  class Staged;
  /// Bytes on the device and their place in page-locked memory.
  struct Part {
    std::byte* device = nullptr;
    std::int64_t bytes = 0, place = 0;
  };
  /// What goes down, what comes up, and what happens between. Sent bytes lie in front of the received ones.
  struct Call {
    std::vector<Part> down, up;
    std::int64_t down_bytes = 0, up_bytes = 0;  ///< of page-locked memory
    Start start;
    std::shared_ptr<std::int64_t> arrived = nullptr;  ///< of a message: how much of `up` came,
    std::int64_t* received = nullptr;                 ///< and who wants to know it (or null)
  };
  RequestPtr staged(Call call);
  /// Of one rank: nothing needs to leave the device.
  RequestPtr alone(const void* send, void* receive, std::int64_t bytes);
  /// Device addresses straight to the inner communicator, once the stream has come to the call.
  RequestPtr direct(std::function<RequestPtr()> start);
  struct Memory {
    explicit Memory(Device on) : device(on), reached(on) {}
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    void reserve(std::int64_t bytes);
    Device device;
    std::byte* data = nullptr;
    std::int64_t capacity = 0;
    OwnedEvent reached;  ///< the stream has done the latest copies to or from here
  };
  std::unique_ptr<Memory> borrow(std::int64_t bytes);
  /// Starts operations whose bytes have come down, in the order of their calls.
  void progress();
  bool reduces_directly(DType dtype) const { return direct_ && dtype != DType::f16 && dtype != DType::bf16; }

  std::unique_ptr<Communicator> inner_;
  Device device_;
  bool direct_;
  std::vector<std::unique_ptr<Memory>> free_;
  std::deque<Staged*> waiting_;
};

}  // namespace thinwire
