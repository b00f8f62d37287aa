// labels: gpu, mpi
// ranks: 1,2
// timeout: 120
// NCCL itself, one device per rank: skipped where there are fewer. What the communicator makes of it is tested everywhere by
// tests/collectives/test_nccl.cpp.
#include <numeric>

#include "collectives/nccl_communicator.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

class NcclDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = NcclCommunicator::why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    int devices = 0;
    const char* why = nullptr;
    reinterpret_cast<thinwire_cuda_device_count_fn*>(device_module_symbol("thinwire_cuda_device_count"))(&devices, &why);
    if (devices < world().size()) GTEST_SKIP() << world().size() << " ranks need as many devices, this machine has " << devices << " (NCCL allows no sharing)";
    device_ = {DeviceKind::cuda, world().rank()};
    nccl_ = std::make_unique<NcclCommunicator>(world().duplicate(), NcclEntries::of_module(), device_);
  }
  float* upload(const std::vector<float>& values) {
    memory_.emplace_back(values.size() * 4, device_);
    auto* p = reinterpret_cast<float*>(memory_.back().data());
    move(p, values.data(), values.size());
    return p;
  }
  std::vector<float> download(const float* p, std::size_t count) {
    std::vector<float> values(count);
    move(values.data(), p, count);
    return values;
  }
  void move(float* to, const float* from, std::size_t count) {
    DeviceBackend& backend = device_backend(DeviceKind::cuda);
    backend.copy(to, from, count * 4, nccl_->stream());
    backend.synchronize(nccl_->stream());
  }
  Device device_;
  std::unique_ptr<NcclCommunicator> nccl_;
  std::vector<Buffer> memory_;
};

TEST_F(NcclDevice, CollectivesAndMessagesMoveWhatTheyShould) {
  const int ranks = world().size(), rank = world().rank();
  const std::int64_t n = 1009;
  const auto x = integer_input(n * ranks, "nccl device", rank);
  std::vector<float> sum(x.size());
  world().all_reduce(x.data(), sum.data(), n * ranks, DType::f32, ReduceOp::sum)->wait();
  float *in = upload(x), *out = upload(std::vector<float>(x.size(), -1.0f));
  nccl_->all_reduce(in, out, n * ranks, DType::f32, ReduceOp::sum)->wait();
  EXPECT_EQ(download(out, x.size()), sum);
  nccl_->reduce_scatter(in, out, n, DType::f32, ReduceOp::sum)->wait();
  EXPECT_EQ(download(out, static_cast<std::size_t>(n)), std::vector<float>(sum.begin() + rank * n, sum.begin() + (rank + 1) * n));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), n * 4), offsets;
  for (int r = 0; r < ranks; ++r) offsets.push_back(r * n * 4);
  nccl_->all_to_all_v(in, counts, offsets, out, counts, offsets)->wait();
  const auto arrived = download(out, x.size());
  for (int r = 0; r < ranks; ++r)
    EXPECT_EQ(arrived[static_cast<std::size_t>(r * n)], integer_input(n * ranks, "nccl device", r)[static_cast<std::size_t>(rank * n)]);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  RequestPtr send = nccl_->send(in, n * 4, next, 0), receive = nccl_->receive(out, n * 4, previous, 0, nullptr);
  receive->wait();
  EXPECT_EQ(download(out, 1)[0], integer_input(n * ranks, "nccl device", previous)[0]);
}

}  // namespace
}  // namespace thinwire
