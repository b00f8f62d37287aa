// labels: unit
// Over communicators whose collectives must start in one order on all ranks (collectives/communicator/issue_order.h) they do, whenever transfers end and in
// whatever order operations are asked. The ranks are played: one program runs over and over, each time with other transfers that are slow and
// with other operations asked first, and says in which order its collectives began.
#include "tests/collectives/channel/played_rank.h"
#include "tests/support/temporary_folder.h"

namespace thinwire {
namespace {

using testing::play;
using testing::Play;
using testing::Played;
using testing::PlayedInOrder;

/// What three steps over four channels began, in this order. `rank`: which transfers are slow and who is asked first.
template <typename Group>
std::vector<std::string> begun_on(std::uint64_t rank) {
  play = Play{{}, rank, 0};
  Group group;
  Channel dense(group, {.comm_dtype = DType::f32}),
      two_shot(group, {.traffic = TrafficClass::dp_gradient, .codec = "quantize:bits=8", .protocol = Protocol::two_shot}),
      rounds(group, {.traffic = TrafficClass::dp_gradient, .codec = "powersgd:rank=2"}),
      gather(group, {.traffic = TrafficClass::tp_forward, .codec = "topk:fraction=0.25", .protocol = Protocol::gather});
  const Shape shape{8, 6};
  Tensor x(shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) x.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i % 7) - 3;
  std::vector<Tensor> results;
  results.reserve(16);
  std::vector<Operation> under_way;
  const auto key = [](int step) { return MessageKey{.tensor = hash_name("x"), .step = step}; };
  for (int step = 0; step < 3; ++step) {
    for (Channel* channel : {&two_shot, &dense, &rounds, &gather}) {
      results.emplace_back(shape);
      under_way.push_back(channel->all_reduce(std::as_const(x).view(), results.back().view(), key(step)));
    }
    results.emplace_back(shape);
    copy_bytes(results.back().view().data(), x.view().data(), x.bytes());
    under_way.push_back(gather.broadcast(results.back().view(), 0, key(step)));
  }
  // One operation, chosen anew each turn, is asked over and over before all are.
  const Random choices(rank, 2);
  for (std::uint64_t turn = 0; !under_way.empty(); ++turn) {
    EXPECT_LT(turn, 100'000u) << "nothing goes on";
    if (turn == 100'000) return {};
    const auto chosen = static_cast<std::size_t>(choices.below(turn, under_way.size()));
    for (std::uint64_t again = choices.below(turn + 1'000'000, 6); again > 0; --again) (void)under_way[chosen].test();
    std::erase_if(under_way, [](Operation& operation) { return operation.test(); });
  }
  return play.begun;
}

TEST(IssueOrder, IsOneOnAllRanksWhateverTheyAskFirst) {
  const std::vector<std::string> first = begun_on<PlayedInOrder>(0);
  ASSERT_GT(first.size(), 20u);
  for (std::uint64_t rank = 1; rank < 50; ++rank) ASSERT_EQ(begun_on<PlayedInOrder>(rank), first) << "rank " << rank;
}

TEST(IssueOrder, DiffersWhereTheLibraryAsksForNone) {
  const std::vector<std::string> first = begun_on<Played>(0);
  int different = 0;
  for (std::uint64_t rank = 1; rank < 50; ++rank) different += begun_on<Played>(rank) != first ? 1 : 0;
  EXPECT_GT(different, 40) << "the ranks of this test ask for so little that any order would be one";
}

/// As NCCL: no bitwise or.
class WithoutOr final : public Played {
 public:
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<WithoutOr>(); }
  bool supports(DType, ReduceOp op) const override { return op != ReduceOp::bit_or; }
};

TEST(MissingOperator, IsNamedWithTheRanksAndWhatDoesWithoutIt) {
  WithoutOr group;
  const auto open = [&](const std::string& codec, Protocol protocol) { return Channel(group, {.traffic = TrafficClass::dp_gradient, .codec = codec, .protocol = protocol}).protocol(); };
  const std::string said = testing::message_of<UsageError>([&] { (void)open("sketch", Protocol::rounds); });
  for (const char* part : {"codec sketch", "2 rounds", "bitwise or of bytes", "played between these 2 ranks", "index_bits=4", "at most 15 ranks", "protocol gather", "1 times instead of 2/2"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in: " << said;
  // What it says does.
  EXPECT_EQ(open("sketch:index_bits=4", Protocol::rounds), Protocol::rounds);
  EXPECT_EQ(open("sketch", Protocol::gather), Protocol::gather);
  EXPECT_EQ(open("sketch", Protocol::automatic), Protocol::gather);
}

}  // namespace
}  // namespace thinwire
