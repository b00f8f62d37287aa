// labels: mpi
// ranks: 1,2,3
// timeout: 60
// What NcclCommunicator makes of NCCL: its functions are played by MPI on host memory here, with NCCL's rules (sends and receives only inside a
// group, errors that arrive later, calls that stay at work). The library itself needs devices: tests/gpu.
#include "collectives/communicator/nccl_communicator.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

struct Fake {
  std::unique_ptr<Communicator> ranks;
  bool aborted = false;
};
struct Play {
  int state = nccl_ready;  ///< what every communicator reports
  int at_work_for = 0;     ///< times that a communicator first says it is at work
  int aborts = 0, destroys = 0, groups = 0;
  bool in_group = false;
  std::vector<std::function<RequestPtr()>> collected;
  std::uint64_t next_id = 0;
} play;

constexpr int failure = THINWIRE_CUDA_NCCL_ERROR + 3;

int perform(const std::function<RequestPtr()>& operation) {
  if (play.in_group) play.collected.push_back(operation);
  else operation()->wait();
  return 0;
}
Communicator& of(void* c) { return *static_cast<Fake*>(c)->ranks; }
ReduceOp op_of(int op) { return op == nccl_max ? ReduceOp::max : ReduceOp::sum; }

NcclEntries played() {
  NcclEntries e;
  e.version = [](int* v) { return *v = 22809, 0; };
  e.unique_id = [](void* id) { return std::memcpy(id, &++play.next_id, sizeof play.next_id), 0; };
  // Whoever has the same id meets: communicators of all parts of the world are made at one time in these tests.
  e.create = [](void** c, int ranks, const void* id, int rank, int) {
    std::uint64_t number = 0;
    std::memcpy(&number, id, sizeof number);
    auto group = world().split(static_cast<int>(number), rank);
    EXPECT_EQ(group->size(), ranks);
    EXPECT_EQ(group->rank(), rank);
    *c = new Fake{std::move(group)};
    return 0;
  };
  e.state = [](void*, int* state) {
    *state = play.at_work_for > 0 ? nccl_at_work : play.state;
    if (play.at_work_for > 0) --play.at_work_for;
    return 0;
  };
  e.destroy = [](void* c) { return ++play.destroys, delete static_cast<Fake*>(c), 0; };
  e.abort = [](void* c) { return ++play.aborts, delete static_cast<Fake*>(c), 0; };
  e.group = [](int begin, int) {
    play.in_group = begin != 0;
    if (begin != 0) return ++play.groups, 0;
    std::vector<RequestPtr> requests;
    for (const auto& operation : play.collected) requests.push_back(operation());
    play.collected.clear();
    for (const auto& r : requests) r->wait();
    return 0;
  };
  e.all_reduce = [](void* c, const void* s, void* r, std::size_t n, int t, int o, void*) {
    return perform([=] { return of(c).all_reduce(s, r, static_cast<std::int64_t>(n), static_cast<DType>(t), op_of(o)); });
  };
  e.reduce_scatter = [](void* c, const void* s, void* r, std::size_t n, int t, int o, void*) {
    return perform([=] { return of(c).reduce_scatter(s, r, static_cast<std::int64_t>(n), static_cast<DType>(t), op_of(o)); });
  };
  e.reduce = [](void* c, const void* s, void* r, std::size_t n, int t, int o, int root, void*) {
    return perform([=] { return of(c).reduce(s, r, static_cast<std::int64_t>(n), static_cast<DType>(t), op_of(o), root); });
  };
  e.all_gather = [](void* c, const void* s, void* r, std::size_t n, void*) {
    return perform([=] { return of(c).all_gather(s, static_cast<std::int64_t>(n), r); });
  };
  e.broadcast = [](void* c, const void* s, void* r, std::size_t n, int root, void*) {
    if (of(c).rank() == root && s != r && n > 0) std::memcpy(r, s, n);
    return perform([=] { return of(c).broadcast(r, static_cast<std::int64_t>(n), root); });
  };
  // Outside a group two ranks that send to each other wait for ever.
  e.send = [](void* c, const void* p, std::size_t n, int to, void*) {
    return play.in_group ? perform([=] { return of(c).send(p, static_cast<std::int64_t>(n), to, 0); }) : failure;
  };
  e.receive = [](void* c, void* p, std::size_t n, int from, void*) {
    return play.in_group ? perform([=] { return of(c).receive(p, static_cast<std::int64_t>(n), from, 0); }) : failure;
  };
  e.error_text = [](int code) { return code == failure ? "played failure" : "another error"; };
  return e;
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {  // ids of different ranks never meet
    const std::uint64_t next = play.next_id + 1000 * static_cast<std::uint64_t>(1 + world().rank());
    play = Play();
    play.next_id = next;
  }
  std::unique_ptr<NcclCommunicator> make(double limit = 10) { return std::make_unique<NcclCommunicator>(world().duplicate(), played(), Device{}, limit); }
  const int rank_ = world().rank(), size_ = world().size();
};

TEST_F(Nccl, CollectivesEqualThoseOfMpi) {
  const auto nccl = make();
  for (std::int64_t n : {1, 7, 1009}) {
    const std::int64_t all = n * size_;
    const auto x = integer_input(all, "nccl", rank_);
    std::vector<float> mpi(x.size()), ours(x.size(), -1.0f);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      world().all_reduce(x.data(), mpi.data(), all, DType::f32, op)->wait();
      nccl->all_reduce(x.data(), ours.data(), all, DType::f32, op)->wait();
      EXPECT_EQ(ours, mpi);
      std::vector<float> shard(static_cast<std::size_t>(n));
      nccl->reduce_scatter(x.data(), shard.data(), n, DType::f32, op)->wait();
      EXPECT_EQ(shard, std::vector<float>(mpi.begin() + rank_ * n, mpi.begin() + (rank_ + 1) * n));
      std::vector<float> at_root(x.size(), -2.0f);
      nccl->reduce(x.data(), at_root.data(), all, DType::f32, op, size_ - 1)->wait();
      if (rank_ == size_ - 1) {
        EXPECT_EQ(at_root, mpi);
      }
    }
    // Shards of n, n + 1, ... elements, the last takes what is left.
    std::vector<std::int64_t> counts;
    std::int64_t left = all, before = 0;
    for (int r = 0; r < size_; ++r) {
      counts.push_back(r + 1 == size_ ? left : std::min(left, n - 1 + r % 2));
      if (r < rank_) before += counts.back();
      left -= counts.back();
    }
    world().all_reduce(x.data(), mpi.data(), all, DType::f32, ReduceOp::sum)->wait();
    const auto mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]);
    std::vector<float> shard(mine + 1, -3.0f);
    nccl->reduce_scatter_v(x.data(), shard.data(), counts, DType::f32, ReduceOp::sum)->wait();
    for (std::size_t i = 0; i < mine; ++i) EXPECT_EQ(shard[i], mpi[static_cast<std::size_t>(before) + i]);
    EXPECT_EQ(shard.back(), -3.0f) << "written past the shard";

    std::vector<float> gathered(x.size());
    nccl->all_gather(x.data(), n * 4, gathered.data())->wait();
    std::vector<std::int64_t> byte_counts, offsets;
    for (int r = 0; r < size_; ++r) byte_counts.push_back(n * 4 - 4 * (r % 2)), offsets.push_back(r * n * 4);
    std::vector<float> gathered_v(x.size(), -4.0f), to_all(x.size(), -5.0f);
    nccl->all_gather_v(x.data(), byte_counts[static_cast<std::size_t>(rank_)], gathered_v.data(), byte_counts, offsets)->wait();
    const std::vector<std::int64_t> equal(static_cast<std::size_t>(size_), n * 4);
    nccl->all_to_all_v(x.data(), equal, offsets, to_all.data(), equal, offsets)->wait();
    for (int r = 0; r < size_; ++r) {
      const auto theirs = integer_input(all, "nccl", r);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto here = static_cast<std::size_t>(r * n + i);
        EXPECT_EQ(gathered[here], theirs[static_cast<std::size_t>(i)]);
        EXPECT_EQ(gathered_v[here], i + 1 == n && r % 2 == 1 ? -4.0f : theirs[static_cast<std::size_t>(i)]);
        EXPECT_EQ(to_all[here], theirs[static_cast<std::size_t>(rank_ * n + i)]);
      }
    }
    std::vector<float> told = x;
    nccl->broadcast(told.data(), all * 4, 0)->wait();
    EXPECT_EQ(told, integer_input(all, "nccl", 0));
  }
}

TEST_F(Nccl, MessagesThatCrossAreStartedTogetherAndNeedNoOrder) {
  const auto nccl = make();
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  for (int turn = 0; turn < 3; ++turn) {
    const float sent = static_cast<float>(10 * turn + rank_);
    float received = -1;
    std::int64_t bytes = 0;
    RequestPtr out = nccl->send(&sent, 4, next, 7), in = nccl->receive(&received, 4, previous, 7, &bytes);
    (turn % 2 == 0 ? in : out)->wait();
    (turn % 2 == 0 ? out : in)->wait();
    EXPECT_EQ(received, static_cast<float>(10 * turn + previous));
    EXPECT_EQ(bytes, 4);
  }
  EXPECT_EQ(play.groups, 3);
  RequestPtr go = nccl->signal(next, 0), come = nccl->await_signal(previous, 0);
  nccl->barrier();  // starts what waits
  EXPECT_TRUE(go->test() && come->test());
}

TEST_F(Nccl, PartsAndDuplicatesMeetAmongThemselves) {
  const auto nccl = make();
  const auto again = nccl->duplicate();
  const auto part = nccl->split(rank_ % 2, -rank_);
  ASSERT_NE(part, nullptr);
  float one = 1, sum = 0;
  part->all_reduce(&one, &sum, 1, DType::f32, ReduceOp::sum)->wait();
  EXPECT_EQ(sum, static_cast<float>(part->size()));
  again->all_reduce(&one, &sum, 1, DType::f32, ReduceOp::sum)->wait();
  EXPECT_EQ(sum, static_cast<float>(size_));
}

TEST_F(Nccl, WhatTheLibraryCannotReduceIsRefusedBeforeItIsAsked) {
  const auto nccl = make();
  std::uint8_t bits = 1;
  EXPECT_FALSE(nccl->supports(DType::u8, ReduceOp::bit_or));
  EXPECT_FALSE(nccl->supports(DType::u16, ReduceOp::sum));
  EXPECT_TRUE(nccl->supports(DType::u8, ReduceOp::max) && nccl->supports(DType::bf16, ReduceOp::sum));
  EXPECT_THROW(nccl->all_reduce(&bits, &bits, 1, DType::u8, ReduceOp::bit_or), UsageError);
}

TEST_F(Nccl, AnErrorThatArrivesLaterEndsTheCommunicatorAtTheNextLook) {
  auto nccl = make();
  float x = 1, y = 0;
  play.state = failure;
  try {
    nccl->all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum)->wait();
    FAIL();
  } catch (const RuntimeFailure& e) {
    EXPECT_NE(std::string(e.what()).find("played failure"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("rank " + std::to_string(rank_)), std::string::npos) << e.what();
  }
  EXPECT_EQ(play.aborts, 1);
  EXPECT_THROW(nccl->send(&x, 4, 0, 0), RuntimeFailure);
  nccl.reset();
  EXPECT_EQ(play.aborts + play.destroys, 1) << "given up once, and not destroyed as well";
}

TEST_F(Nccl, ABarrierSeesAnErrorThatHasArrived) {
  auto nccl = make();
  nccl->barrier();
  play.state = failure;
  EXPECT_THROW(nccl->barrier(), RuntimeFailure);
  EXPECT_EQ(play.aborts, 1);
}

TEST_F(Nccl, MeetingMayTakeTwoMinutesUnlessTheEnvironmentSaysOtherwise) {
  unsetenv("THINWIRE_NCCL_LIMIT");
  EXPECT_DOUBLE_EQ(NcclCommunicator::default_limit_seconds(), 120);
  setenv("THINWIRE_NCCL_LIMIT", "0.2", 1);
  play.at_work_for = 1 << 30;
  try {
    NcclCommunicator(world().duplicate(), played(), Device{});
    ADD_FAILURE() << "the ranks have not met";
  } catch (const RuntimeFailure& e) {
    EXPECT_NE(std::string(e.what()).find("THINWIRE_NCCL_LIMIT"), std::string::npos) << e.what();
  }
  for (const char* wrong : {"soon", "0", "-1", "3 s"}) {
    setenv("THINWIRE_NCCL_LIMIT", wrong, 1);
    EXPECT_THROW((void)NcclCommunicator::default_limit_seconds(), UsageError) << wrong;
  }
  unsetenv("THINWIRE_NCCL_LIMIT");
}

TEST_F(Nccl, ACallThatStaysAtWorkIsGivenUpAfterTheLimit) {
  float x = 1, y = 0;
  const auto patient = make(100);
  play.at_work_for = 50;  // taken in a little later: waited for
  EXPECT_NO_THROW(patient->all_reduce(&x, &y, 1, DType::f32, ReduceOp::sum)->wait());
  const auto nccl = make(0.2);
  play.at_work_for = 1 << 30;
  EXPECT_THROW(nccl->broadcast(&x, 4, 0), RuntimeFailure);
  EXPECT_EQ(play.aborts, 1);
}

TEST(NcclLibrary, WithoutADeviceTheReasonIsTold) {
  const std::string reason = NcclCommunicator::why_unavailable();
  if (reason.empty()) GTEST_SKIP() << "a device and NCCL are here; tests/gpu use them";
  EXPECT_THROW(NcclEntries::of_module(), EnvironmentError);
}

}  // namespace
}  // namespace thinwire
