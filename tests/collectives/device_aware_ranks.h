// A CUDA-aware MPI, played: it takes device addresses whose contents are there when it is called, moves them on a stream of its own, and
// is done when they have arrived. Its reductions know no operator of ours.
#pragma once

#include "collectives/communicator/staging_communicator.h"
#include "tests/collectives/device_world.h"

namespace thinwire::testing {

class AwareRanks final : public Communicator {
 public:
  explicit AwareRanks(std::unique_ptr<Communicator> mpi)
      : device_(test_device()), host_(mpi->duplicate()), stream_(device_), staging_(std::make_unique<StagingCommunicator>(std::move(mpi), device_)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<AwareRanks>(host_->duplicate()); }
  std::unique_ptr<Communicator> split(int color, int key) override { return std::make_unique<AwareRanks>(host_->split(color, key)); }
  bool supports(DType dtype, ReduceOp op) const override { return host_->supports(dtype, op); }
  bool takes_device_addresses() const override { return true; }
  std::string transport() const override { return "played MPI"; }
  RequestPtr all_reduce(const void* s, void* r, std::int64_t n, DType t, ReduceOp op) override {
    return here(t, [=](Communicator& c) { return c.all_reduce(s, r, n, t, op); });
  }
  RequestPtr reduce_scatter(const void* s, void* r, std::int64_t n, DType t, ReduceOp op) override {
    return here(t, [=](Communicator& c) { return c.reduce_scatter(s, r, n, t, op); });
  }
  RequestPtr reduce_scatter_v(const void* s, void* r, std::span<const std::int64_t> n, DType t, ReduceOp op) override {
    return here(t, [=](Communicator& c) { return c.reduce_scatter_v(s, r, n, t, op); });
  }
  RequestPtr reduce(const void* s, void* r, std::int64_t n, DType t, ReduceOp op, int root) override {
    return here(t, [=](Communicator& c) { return c.reduce(s, r, n, t, op, root); });
  }
  RequestPtr all_gather(const void* s, std::int64_t n, void* r) override {
    return here(DType::u8, [=](Communicator& c) { return c.all_gather(s, n, r); });
  }
  RequestPtr all_gather_v(const void* s, std::int64_t n, void* r, std::span<const std::int64_t> counts, std::span<const std::int64_t> offsets) override {
    return here(DType::u8, [=](Communicator& c) { return c.all_gather_v(s, n, r, counts, offsets); });
  }
  RequestPtr all_to_all_v(const void* s, std::span<const std::int64_t> sc, std::span<const std::int64_t> so, void* r, std::span<const std::int64_t> rc,
                          std::span<const std::int64_t> ro) override {
    return here(DType::u8, [=](Communicator& c) { return c.all_to_all_v(s, sc, so, r, rc, ro); });
  }
  RequestPtr broadcast(void* p, std::int64_t n, int root) override {
    return here(DType::u8, [=](Communicator& c) { return c.broadcast(p, n, root); });
  }
  RequestPtr send(const void* p, std::int64_t n, int to, int tag) override {
    return here(DType::u8, [=](Communicator& c) { return c.send(p, n, to, tag); });
  }
  RequestPtr receive(void* p, std::int64_t n, int from, int tag, std::int64_t* received) override {
    return here(DType::u8, [=](Communicator& c) { return c.receive(p, n, from, tag, received); });
  }
  void barrier() override { host_->barrier(); }
  int direct_calls = 0;

 private:
  class Arrived final : public Request {
   public:
    Arrived(RequestPtr request, const OwnedStream& stream) : request_(std::move(request)), stream_(stream) {}
    bool test() override {
      if (!request_->test()) return false;
      stream_.synchronize();
      return true;
    }

   private:
    RequestPtr request_;
    const OwnedStream& stream_;
  };
  /// Sums in 16 bits come with host addresses: their operator is none of the library's.
  template <typename Call>
  RequestPtr here(DType dtype, const Call& call) {
    if (dtype == DType::f16 || dtype == DType::bf16) return call(*host_);
    ++direct_calls;
    const PlacementScope scope(Placement{device_, stream_.get()});
    return std::make_unique<Arrived>(call(*staging_), stream_);
  }
  Device device_;
  std::unique_ptr<Communicator> host_;
  OwnedStream stream_;
  std::unique_ptr<StagingCommunicator> staging_;
};

}  // namespace thinwire::testing
