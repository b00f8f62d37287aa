// labels: gpu, mpi
// ranks: 1,2
// timeout: 120
// devices: cuda, emulated-each, lazy-each
// NCCL itself, one device per rank: skipped where there are fewer. What the communicator makes of it is tested everywhere by
// tests/collectives/communicator/test_nccl.cpp.
#include <numeric>
#include <optional>

#include "collectives/communicator/nccl_communicator.h"
#include "core/device/device_stream.h"
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
    device_function<thinwire_cuda_device_count_fn>("thinwire_cuda_device_count")(&devices, &why);
    if (devices < world().size()) GTEST_SKIP() << world().size() << " ranks need as many devices, this machine has " << devices << " (NCCL allows no sharing)";
    device_ = {DeviceKind::cuda, world().rank()};
    stream_.emplace(device_);
    scope_.emplace(Placement{device_, stream_->get()});
    nccl_ = std::make_unique<NcclCommunicator>(world().duplicate(), NcclEntries::of_module(), device_);
  }
  void TearDown() override { nccl_.reset(); }  // before the placement
  float* upload(const std::vector<float>& values) {
    memory_.emplace_back(values.size() * 4, device_);
    auto* p = reinterpret_cast<float*>(memory_.back().data());
    copy_and_wait(p, values.data(), values.size() * 4);
    return p;
  }
  std::vector<float> download(const float* p, std::size_t count) {
    std::vector<float> values(count);
    copy_and_wait(values.data(), p, count * 4);
    return values;
  }
  Device device_;
  std::optional<OwnedStream> stream_;
  std::optional<PlacementScope> scope_;
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

TEST_F(NcclDevice, OperationsFollowWhatTheCallersStreamHoldsAndGroupsHoldWholeExchanges) {
  const int ranks = world().size(), rank = world().rank();
  const std::vector<float> own(257, static_cast<float>(rank + 1));
  float *x = upload(std::vector<float>(257, -1.0f)), *sum = upload(std::vector<float>(257, -2.0f));
  copy_elements(x, own.data(), own.size());  // nobody waits for it
  const RequestPtr reduced = nccl_->all_reduce(x, sum, 257, DType::f32, ReduceOp::sum);
  reduced->wait();
  EXPECT_EQ(download(sum, 257), std::vector<float>(257, static_cast<float>(ranks * (ranks + 1) / 2)));
  // Shards of unequal size, one of them empty: reductions to their owners and broadcasts, each as one group.
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), 0), bytes(counts.size()), offsets(counts.size());
  counts[0] = 200, counts.back() += 57;
  for (std::size_t r = 0; r < counts.size(); ++r) bytes[r] = 4 * counts[r], offsets[r] = r == 0 ? 0 : offsets[r - 1] + bytes[r - 1];
  const auto mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
  nccl_->reduce_scatter_v(x, sum, counts, DType::f32, ReduceOp::max)->wait();
  EXPECT_EQ(download(sum, mine), std::vector<float>(mine, static_cast<float>(ranks)));
  float* all = upload(std::vector<float>(257, -3.0f));
  nccl_->all_gather_v(x, bytes[static_cast<std::size_t>(rank)], all, bytes, offsets)->wait();
  const auto gathered = download(all, 257);
  EXPECT_EQ(gathered.front(), 1.0f);
  EXPECT_EQ(gathered.back(), static_cast<float>(ranks));
  nccl_->broadcast(x, 4, ranks - 1)->wait();
  EXPECT_EQ(download(x, 1)[0], static_cast<float>(ranks));
}

TEST_F(NcclDevice, TwoRanksOnOneDeviceAreRefused) {
  if (world().size() < 2) GTEST_SKIP() << "needs two ranks";
  EXPECT_THROW(NcclCommunicator(world().duplicate(), NcclEntries::of_module(), Device{DeviceKind::cuda, 0}), RuntimeFailure);
}

}  // namespace
}  // namespace thinwire
