#include "collectives/link/counting_communicator.h"

#include <utility>

#include "collectives/link/emulated_network.h"

namespace thinwire {
namespace {

/// A receive of a message that may be shorter than its memory: counted when it is there.
class CountedReceive final : public Request {
 public:
  CountedReceive(RequestPtr receive, const std::int64_t* received, std::shared_ptr<LinkBytes> count) : receive_(std::move(receive)), received_(received), count_(std::move(count)) {}
  bool test() override {
    if (receive_ == nullptr) return true;
    if (!receive_->test()) return false;
    receive_.reset();
    count_->received += *received_;
    return true;
  }

 private:
  RequestPtr receive_;
  const std::int64_t* received_;
  std::shared_ptr<LinkBytes> count_;
};

class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<LinkBytes> count) : inner_(std::move(inner)), count_(std::move(count)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Communicator> duplicate() override { return make_counting_communicator(inner_->duplicate(), count_); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    auto part = inner_->split(color, key);
    return part ? make_counting_communicator(std::move(part), count_) : nullptr;
  }
  bool supports(DType dtype, ReduceOp op) const override { return inner_->supports(dtype, op); }
  std::string transport() const override { return inner_->transport(); }
  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) override {
    return inner_->all_reduce(send, receive, elements, dtype, op);
  }
  RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype, ReduceOp op) override {
    return inner_->reduce_scatter(send, receive, elements_per_rank, dtype, op);
  }
  RequestPtr reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) override {
    return inner_->reduce_scatter_v(send, receive, counts, dtype, op);
  }
  RequestPtr reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op, int root) override {
    return inner_->reduce(send, receive, elements, dtype, op, root);
  }
  RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) override { return inner_->all_gather(send, bytes, receive); }
  RequestPtr all_gather_v(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> offsets) override {
    return inner_->all_gather_v(send, bytes, receive, counts, offsets);
  }
  RequestPtr all_to_all_v(const void* send, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* receive,
                          std::span<const std::int64_t> receive_counts, std::span<const std::int64_t> receive_offsets) override {
    return inner_->all_to_all_v(send, send_counts, send_offsets, receive, receive_counts, receive_offsets);
  }
  RequestPtr broadcast(void* data, std::int64_t bytes, int root) override { return inner_->broadcast(data, bytes, root); }
  RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) override {
    if (tag < emulated_stamp_tag) count_->sent += bytes;
    return inner_->send(data, bytes, to, tag);
  }
  RequestPtr receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received) override {
    RequestPtr receive = inner_->receive(data, bytes, from, tag, received);
    if (tag >= emulated_stamp_tag) return receive;
    if (received != nullptr) return std::make_unique<CountedReceive>(std::move(receive), received, count_);
    count_->received += bytes;
    return receive;
  }
  RequestPtr signal(int to, int tag) override { return inner_->signal(to, tag); }
  RequestPtr await_signal(int from, int tag) override { return inner_->await_signal(from, tag); }
  void barrier() override { inner_->barrier(); }

 private:
  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<LinkBytes> count_;
};

}  // namespace

std::unique_ptr<Communicator> make_counting_communicator(std::unique_ptr<Communicator> inner, std::shared_ptr<LinkBytes> count) {
  return std::make_unique<CountingCommunicator>(std::move(inner), std::move(count));
}

}  // namespace thinwire
