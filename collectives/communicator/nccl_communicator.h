// The NCCL implementation of Communicator, for tensors on devices. Each one (hence each channel) has an NCCL communicator and a stream of its
// own, on which its operations run in the order of their calls; all ranks must call in one order. An operation starts after what the stream of
// the caller's placement holds by then; a request is done when its event is finished, so whatever is queued afterwards sees the result.
//
// Differences from MPI that callers meet:
//  - no bitwise or: `supports` says no, and bits are reduced as bytes of 0 and 1 with max; no u16;
//  - a message has no tag and no size of its own: between two ranks messages match in the order of issue, and both ends give its size;
//  - sends and receives are gathered until one of their requests is tested (or a collective follows) and started as one group, so that two ranks
//    that send to each other do not wait for each other;
//  - an error that arrives later (a lost rank, the network) is found by whoever tests a request: the communicator is given up at once and the
//    call throws. A call that is not under way after `limit_seconds` gives it up too. Memory must then not be used again: this job is over;
//  - collectives of all communicators of a process must start in one order on all ranks (issue_order.h): channels see to it.
#pragma once

#include <vector>

#include "collectives/communicator/communicator.h"
#include "collectives/communicator/device_nccl.h"
#include "collectives/communicator/issue_order.h"
#include "core/device/device.h"

namespace thinwire {

/// The module's functions; tests put others in their place.
struct NcclEntries {
  thinwire_nccl_version_fn* version = nullptr;
  thinwire_nccl_unique_id_fn* unique_id = nullptr;
  thinwire_nccl_create_fn* create = nullptr;
  thinwire_nccl_state_fn* state = nullptr;
  thinwire_nccl_destroy_fn* destroy = nullptr;
  thinwire_nccl_abort_fn* abort = nullptr;
  thinwire_nccl_group_fn* group = nullptr;
  thinwire_nccl_all_reduce_fn* all_reduce = nullptr;
  thinwire_nccl_reduce_scatter_fn* reduce_scatter = nullptr;
  thinwire_nccl_reduce_fn* reduce = nullptr;
  thinwire_nccl_all_gather_fn* all_gather = nullptr;
  thinwire_nccl_broadcast_fn* broadcast = nullptr;
  thinwire_nccl_send_fn* send = nullptr;
  thinwire_nccl_receive_fn* receive = nullptr;
  thinwire_cuda_error_text_fn* error_text = nullptr;
  /// EnvironmentError with the reason where there is no module, device or NCCL.
  static NcclEntries of_module();
};

class NcclCommunicator final : public Communicator, public OneIssueOrder {
 public:
  /// THINWIRE_NCCL_LIMIT, or 120: where ranks are many, or first connect over a network, meeting takes NCCL much longer than any call after it.
  static double default_limit_seconds();
  /// Over the ranks of `bootstrap`, which tells them NCCL's id and serves barriers; collective. `device`: this rank's own; two ranks on one
  /// device are refused (NCCL does not allow it).
  NcclCommunicator(std::unique_ptr<Communicator> bootstrap, const NcclEntries& entries, Device device, double limit_seconds = default_limit_seconds());
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Empty, or why no NCCL communicator can be had.
  static std::string why_unavailable();

  int rank() const override { return bootstrap_->rank(); }
  int size() const override { return bootstrap_->size(); }
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> duplicate_for_messages() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  bool supports(DType dtype, ReduceOp op) const override;
  bool serves(Device device) const override { return device == device_; }
  Communicator& host_side() override { return *bootstrap_; }
  std::string transport() const override { return "NCCL"; }
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
  RequestPtr signal(int to, int tag) override;
  RequestPtr await_signal(int from, int tag) override;
  void barrier() override;

 private:
  /// Operations that were started together; done when the event behind them is.
  struct Batch {
    Event event;
    bool issued = false, done = false;
  };
  class BatchRequest;
  struct Message {
    bool sends = false;
    const void* send = nullptr;
    void* receive = nullptr;
    std::size_t bytes = 0;
    int peer = 0;
  };

  template <typename Call>
  RequestPtr start(const char* what, const Call& call);
  template <typename Body>
  RequestPtr start_group(const char* what, const Body& body);
  /// What follows on our stream starts after what the caller's stream holds by now.
  void follow_caller();
  RequestPtr enqueue(Message message);
  void flush();
  void check(int code, const char* what);
  /// Waits until the library has taken the last call in; gives up after the limit.
  void settle(const char* what);
  /// Throws when an error has arrived since.
  void watch(const char* what);
  [[noreturn]] void give_up(const std::string& why);
  bool finished(Batch& batch);
  int operator_of(DType dtype, ReduceOp op) const;

  std::unique_ptr<Communicator> bootstrap_;
  NcclEntries nccl_;
  Device device_;
  DeviceBackend& backend_;
  double limit_seconds_;
  Stream stream_;
  Event called_;  ///< on the caller's stream
  Buffer token_;  ///< what signals carry
  void* communicator_ = nullptr;
  std::vector<Message> waiting_;
  std::shared_ptr<Batch> gathered_;  ///< of the messages that wait
};

}  // namespace thinwire
