// A rank that is played: a communicator that knows no other, writes down which collectives begin, in their order, and has transfers end sooner or later as the
// test says.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator/issue_order.h"
#include "tests/collectives/world.h"

namespace thinwire::testing {

inline constexpr int played_ranks = 2;

struct Play {
  std::vector<std::string> begun;  ///< "2 all_reduce": the communicator's number, and what it began
  std::uint64_t slowness = 0;
  int communicators = 0;
};
inline Play play;

/// A transfer that ends at so many questions.
class Slow final : public Request {
 public:
  explicit Slow(std::uint64_t questions) : questions_(questions) {}
  bool test() override { return questions_ == 0 || --questions_ == 0; }

 private:
  std::uint64_t questions_;
};

/// Rank 0 of two, which hold equal tensors.
class Played : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return played_ranks; }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Played>(); }
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  std::string transport() const override { return "played"; }
  bool supports(DType, ReduceOp) const override { return true; }
  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp) override {
    return begin("all_reduce", receive, send, elements * static_cast<std::int64_t>(size_of(dtype)));
  }
  RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp) override {
    return begin("reduce_scatter", receive, send, elements * static_cast<std::int64_t>(size_of(dtype)));
  }
  RequestPtr reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp, int) override {
    return begin("reduce", receive, send, elements * static_cast<std::int64_t>(size_of(dtype)));
  }
  RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) override {
    std::memcpy(static_cast<std::byte*>(receive) + bytes, send, static_cast<std::size_t>(bytes));
    return begin("all_gather", receive, send, bytes);
  }
  RequestPtr all_gather_v(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t>,
                          std::span<const std::int64_t> offsets) override {
    std::memcpy(static_cast<std::byte*>(receive) + offsets[1], send, static_cast<std::size_t>(bytes));
    return begin("all_gather_v", static_cast<std::byte*>(receive) + offsets[0], send, bytes);
  }
  RequestPtr all_to_all_v(const void* send, std::span<const std::int64_t>, std::span<const std::int64_t> from, void* receive, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> to) override {
    return begin("all_to_all_v", static_cast<std::byte*>(receive) + to[1], static_cast<const std::byte*>(send) + from[0], counts[1]);
  }
  RequestPtr broadcast(void* data, std::int64_t, int) override { return begin("broadcast", data, data, 0); }
  RequestPtr send(const void*, std::int64_t, int, int) override { throw UsageError("not played"); }
  RequestPtr receive(void*, std::int64_t, int, int, std::int64_t*) override { throw UsageError("not played"); }
  void barrier() override {}

 private:
  RequestPtr begin(const char* what, void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
    play.begun.push_back(std::to_string(number_) + " " + what);
    return std::make_unique<Slow>(Random(play.slowness, 1).below(play.begun.size(), 9));
  }
  const int number_ = play.communicators++;
};

class PlayedInOrder final : public Played, public OneIssueOrder {
 public:
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<PlayedInOrder>(); }
};

}  // namespace thinwire::testing
