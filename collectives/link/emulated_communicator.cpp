#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "collectives/link/emulated_network.h"
#include "collectives/communicator/local_reduce.h"
#include "collectives/communicator/mpi_requests.h"
#include "collectives/communicator/ring.h"
#include "collectives/process/rank_clock.h"
#include "core/clock.h"
#include "core/error.h"

namespace thinwire {
namespace {

constexpr int stamp_tag = emulated_stamp_tag;
constexpr int chain_tag = 31020, direct_tag = 31021;

bool has_come(std::int64_t when_ns) {
  if (now_ns() < when_ns) {
    Waiter::due(when_ns);
    return false;
  }
  RankClock::happened(when_ns);
  return true;
}

/// Done when the bytes may be reused: the inner request is done and the message has left its card.
class Departure final : public Request {
 public:
  Departure(RequestPtr payload, RequestPtr stamp, std::unique_ptr<std::int64_t> arrival, std::int64_t left_ns)
      : arrival_(std::move(arrival)), payload_(std::move(payload)), stamp_(std::move(stamp)), left_ns_(left_ns) {}
  bool test() override {
    if (payload_ && payload_->test()) payload_.reset();
    if (stamp_ && stamp_->test()) stamp_.reset();
    if (payload_ || stamp_) return false;
    return has_come(left_ns_);
  }

 private:
  std::unique_ptr<std::int64_t> arrival_;  // before the requests that read it
  RequestPtr payload_, stamp_;
  std::int64_t left_ns_;
};

/// Done when the bytes are there and their time has come.
class Arrival final : public Request {
 public:
  Arrival(Communicator& inner, EmulatedNetwork& network, void* data, std::int64_t bytes, int from, int sender, int tag, std::int64_t* received)
      : network_(network),
        sender_(sender),
        received_(received),
        payload_(inner.receive(data, bytes, from, tag, &told_->bytes)),
        stamp_(inner.receive(&told_->stamp_ns, sizeof told_->stamp_ns, from, tag + stamp_tag)) {}
  bool test() override {
    if (payload_ || stamp_) {
      if (payload_ && payload_->test()) payload_.reset();
      if (stamp_ && stamp_->test()) stamp_.reset();
      if (payload_ || stamp_) return false;
      network_.wake(sender_);  // it may wait for its memory: long messages are fetched from there
      if (received_ != nullptr) *received_ = told_->bytes;
      // A meter's stamp says when the message was sent. It is billed once, as soon as the program finds it: a program that takes one message after another bills in its own order.
      arrival_ns_ = network_.link().meter == LinkMeter::inbound ? network_.billed_ns(told_->bytes, told_->stamp_ns) : told_->stamp_ns;
    }
    return has_come(arrival_ns_);
  }

 private:
  struct Told {
    std::int64_t stamp_ns = 0, bytes = 0;
  };
  EmulatedNetwork& network_;
  std::unique_ptr<Told> told_ = std::make_unique<Told>();  // before the requests that write it
  int sender_;  ///< of the world
  std::int64_t* received_;
  std::int64_t arrival_ns_ = 0;
  RequestPtr payload_, stamp_;
};

/// A chain of ranks: waits for what comes from the one side, works on it, hands it on to the other.
class Chain final : public Request {
 public:
  Chain(RequestPtr incoming, std::function<RequestPtr()> hand_on) : incoming_(std::move(incoming)), hand_on_(std::move(hand_on)) {}
  bool test() override {
    if (incoming_) {
      if (!incoming_->test()) return false;
      incoming_.reset();
    }
    if (hand_on_) outgoing_ = std::exchange(hand_on_, nullptr)();
    return !outgoing_ || outgoing_->test();
  }

 private:
  RequestPtr incoming_;
  std::function<RequestPtr()> hand_on_;
  RequestPtr outgoing_;
};

class EmulatedCommunicator final : public Communicator {
 public:
  EmulatedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<EmulatedNetwork> network, std::vector<int> world_ranks)
      : inner_(std::move(inner)), network_(std::move(network)), world_ranks_(std::move(world_ranks)), ring_(*this) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<EmulatedCommunicator>(inner_->duplicate(), network_, world_ranks_);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    auto part = inner_->split(color, key);
    if (!part) return nullptr;
    std::vector<int> ranks(static_cast<std::size_t>(part->size()));
    const int mine = world_rank(rank());
    part->all_gather(&mine, sizeof mine, ranks.data())->wait();
    return std::make_unique<EmulatedCommunicator>(std::move(part), network_, std::move(ranks));
  }
  bool supports(DType dtype, ReduceOp op) const override { return can_reduce(dtype, op); }
  std::string transport() const override { return "emulated network"; }

  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) override {
    return ring_.all_reduce(send, receive, elements, dtype, op);
  }
  RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype, ReduceOp op) override {
    counts_.assign(static_cast<std::size_t>(size()), elements_per_rank);
    return ring_.reduce_scatter(send, receive, counts_, dtype, op);
  }
  RequestPtr reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) override {
    return ring_.reduce_scatter(send, receive, counts, dtype, op);
  }
  // From the farthest rank of the chain towards the root, adding on the way.
  RequestPtr reduce(const void* send_data, void* receive_data, std::int64_t elements, DType dtype, ReduceOp op, int root) override {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
    const int place = (rank() - root + size()) % size(), towards = (rank() - 1 + size()) % size(), behind = (rank() + 1) % size();
    auto sum = std::make_shared<Buffer>(Device{});
    auto arrived = std::make_shared<Buffer>(Device{});
    sum->reserve(static_cast<std::size_t>(bytes));
    arrived->reserve(static_cast<std::size_t>(bytes));
    std::memcpy(sum->data(), send_data, static_cast<std::size_t>(bytes));
    const bool receives = place + 1 < size();
    RequestPtr incoming = receives ? receive(arrived->data(), bytes, behind, chain_tag) : nullptr;
    return std::make_unique<Chain>(std::move(incoming), [=, this]() -> RequestPtr {
      if (receives) reduce_into(sum->data(), arrived->data(), elements, dtype, op);
      if (place == 0) {
        std::memcpy(receive_data, sum->data(), static_cast<std::size_t>(bytes));
        return nullptr;
      }
      return keeping(sum, send(sum->data(), bytes, towards, chain_tag));
    });
  }
  RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) override {
    counts_.assign(static_cast<std::size_t>(size()), bytes);
    return ring_.all_gather(send, receive, counts_);
  }
  RequestPtr all_gather_v(const void* send_data, std::int64_t bytes, void* receive_data, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> offsets) override {
    std::int64_t next = 0;
    bool dense = true;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      dense = dense && offsets[r] == next;
      next += counts[r];
    }
    if (dense) return ring_.all_gather(send_data, receive_data, counts);
    std::vector<std::int64_t> own(counts.size(), bytes), zero(counts.size(), 0);
    return all_to_all_v(send_data, own, zero, receive_data, counts, offsets);
  }
  RequestPtr all_to_all_v(const void* send_data, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets,
                          void* receive_data, std::span<const std::int64_t> receive_counts,
                          std::span<const std::int64_t> receive_offsets) override {
    auto all = std::make_unique<RequestGroup>();
    for (int shift = 0; shift < size(); ++shift) {
      const auto from = static_cast<std::size_t>((rank() - shift + size()) % size()), to = static_cast<std::size_t>((rank() + shift) % size());
      auto* target = static_cast<std::byte*>(receive_data) + receive_offsets[from];
      const auto* source = static_cast<const std::byte*>(send_data) + send_offsets[to];
      if (shift == 0) {
        std::memcpy(target, source, static_cast<std::size_t>(send_counts[to]));
        continue;
      }
      if (receive_counts[from] > 0) all->add(receive(target, receive_counts[from], static_cast<int>(from), direct_tag));
      if (send_counts[to] > 0) all->add(send(source, send_counts[to], static_cast<int>(to), direct_tag));
    }
    return all;
  }
  RequestPtr broadcast(void* data, std::int64_t bytes, int root) override {
    const int place = (rank() - root + size()) % size(), next = (rank() + 1) % size(), before = (rank() - 1 + size()) % size();
    RequestPtr incoming = place > 0 ? receive(data, bytes, before, chain_tag) : nullptr;
    return std::make_unique<Chain>(std::move(incoming), [=, this]() -> RequestPtr {
      return place + 1 < size() ? send(data, bytes, next, chain_tag) : nullptr;
    });
  }
  RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) override {
    TW_ASSERT(tag < stamp_tag, "tag");
    const EmulatedNetwork::Times times = network_->reserve(world_rank(rank()), world_rank(to), bytes, RankClock::now_ns());
    auto arrival = std::make_unique<std::int64_t>(times.arrival_ns);
    RequestPtr stamp = inner_->send(arrival.get(), sizeof *arrival, to, tag + stamp_tag);
    RequestPtr payload = inner_->send(data, bytes, to, tag);
    network_->wake(world_rank(to));
    return std::make_unique<Departure>(std::move(payload), std::move(stamp), std::move(arrival), times.left_ns);
  }
  RequestPtr receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received = nullptr) override {
    return std::make_unique<Arrival>(*inner_, *network_, data, bytes, from, world_rank(from), tag, received);
  }
  RequestPtr signal(int to, int tag) override {
    RequestPtr sent = inner_->signal(to, tag);
    network_->wake(world_rank(to));
    return sent;
  }
  RequestPtr await_signal(int from, int tag) override { return inner_->await_signal(from, tag); }
  void barrier() override { inner_->barrier(); }

 private:
  /// Keeps memory alive as long as a request that reads it.
  static RequestPtr keeping(std::shared_ptr<Buffer> memory, RequestPtr request) {
    struct Kept final : Request {
      std::shared_ptr<Buffer> memory;
      RequestPtr request;
      bool test() override { return request->test(); }
    };
    auto kept = std::make_unique<Kept>();
    kept->memory = std::move(memory);
    kept->request = std::move(request);
    return kept;
  }
  int world_rank(int rank_here) const { return world_ranks_[static_cast<std::size_t>(rank_here)]; }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<EmulatedNetwork> network_;
  std::vector<int> world_ranks_;
  std::vector<std::int64_t> counts_;
  Ring ring_;
};

}  // namespace

std::unique_ptr<Communicator> make_emulated_communicator(std::unique_ptr<Communicator> inner, const EmulatedLink& link) {
  auto network = std::make_shared<EmulatedNetwork>(*inner, link);
  std::vector<int> ranks(static_cast<std::size_t>(inner->size()));
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
  return std::make_unique<EmulatedCommunicator>(std::move(inner), std::move(network), std::move(ranks));
}

}  // namespace thinwire
