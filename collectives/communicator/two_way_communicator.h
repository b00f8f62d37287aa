// Messages between ranks on two communicators that each run their operations one after the other: those to higher ranks on one, those to lower
// ranks on the other. On one alone a ring of ranks that all send before they receive would wait for ever; towards higher ranks there are no rings.
#pragma once

#include "collectives/communicator/communicator.h"

namespace thinwire {

class TwoWayCommunicator final : public Communicator {
 public:
  /// Of equal groups. Collectives are `up`'s.
  TwoWayCommunicator(std::unique_ptr<Communicator> up, std::unique_ptr<Communicator> down) : up_(std::move(up)), down_(std::move(down)) {}

  int rank() const override { return up_->rank(); }
  int size() const override { return up_->size(); }
  std::unique_ptr<Communicator> duplicate() override { return up_->duplicate_for_messages(); }
  std::unique_ptr<Communicator> split(int color, int key) override { return up_->split(color, key); }
  bool supports(DType dtype, ReduceOp op) const override { return up_->supports(dtype, op); }
  bool serves(Device device) const override { return up_->serves(device); }
  Communicator& host_side() override { return up_->host_side(); }
  std::string transport() const override { return up_->transport(); }
  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) override {
    return up_->all_reduce(send, receive, elements, dtype, op);
  }
  RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype, ReduceOp op) override {
    return up_->reduce_scatter(send, receive, elements_per_rank, dtype, op);
  }
  RequestPtr reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) override {
    return up_->reduce_scatter_v(send, receive, counts, dtype, op);
  }
  RequestPtr reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op, int root) override {
    return up_->reduce(send, receive, elements, dtype, op, root);
  }
  RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) override { return up_->all_gather(send, bytes, receive); }
  RequestPtr all_gather_v(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> offsets) override {
    return up_->all_gather_v(send, bytes, receive, counts, offsets);
  }
  RequestPtr all_to_all_v(const void* send, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* receive,
                          std::span<const std::int64_t> receive_counts, std::span<const std::int64_t> receive_offsets) override {
    return up_->all_to_all_v(send, send_counts, send_offsets, receive, receive_counts, receive_offsets);
  }
  RequestPtr broadcast(void* data, std::int64_t bytes, int root) override { return up_->broadcast(data, bytes, root); }
  RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) override { return way(rank(), to).send(data, bytes, to, tag); }
  RequestPtr receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received) override {
    return way(from, rank()).receive(data, bytes, from, tag, received);
  }
  RequestPtr signal(int to, int tag) override { return way(rank(), to).signal(to, tag); }
  RequestPtr await_signal(int from, int tag) override { return way(from, rank()).await_signal(from, tag); }
  void barrier() override {
    up_->barrier();
    down_->barrier();
  }

 private:
  Communicator& way(int from, int to) { return from < to ? *up_ : *down_; }
  std::unique_ptr<Communicator> up_, down_;
};

}  // namespace thinwire
