// labels: mpi
// ranks: 1,2,3,4,8
// timeout: 120
// slow: n8
// Communicator, ring and the dense protocol against float64 sums, over awkward sizes and all types.
#include <algorithm>
#include <cstring>

#include "collectives/communicator/local_reduce.h"
#include "collectives/communicator/mpi_communicator.h"
#include "collectives/communicator/process_mesh.h"
#include "collectives/communicator/ring.h"
#include "core/half.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

const std::vector<std::int64_t> awkward_counts = {0, 1, 2, 7, 31, 64, 1009, 100003};

std::vector<std::vector<float>> integer_inputs(std::int64_t count) {
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < world().size(); ++r) inputs.push_back(integer_input(count, "dense", r));
  return inputs;
}

std::vector<std::byte> as_type(const std::vector<float>& x, DType dtype) {
  std::vector<std::byte> bytes(x.size() * size_of(dtype));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto put = [&](auto value) { std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value); };
    const int integer = static_cast<int>(x[i]) + 8;  // 0 .. 16: unsigned types, too
    switch (dtype) {
      case DType::f32:
        put(x[i]);
        break;
      case DType::f64:
        put(static_cast<double>(x[i]));
        break;
      case DType::f16:
        put(to_half(x[i]));
        break;
      case DType::bf16:
        put(to_bfloat16(x[i]));
        break;
      case DType::i8:
        put(static_cast<std::int8_t>(integer));
        break;
      case DType::u8:
        put(static_cast<std::uint8_t>(integer));
        break;
      case DType::u16:
        put(static_cast<std::uint16_t>(integer));
        break;
      case DType::i32:
        put(static_cast<std::int32_t>(integer));
        break;
      case DType::i64:
        put(static_cast<std::int64_t>(integer));
        break;
    }
  }
  return bytes;
}

/// The exact reduction, built element by element in the widest type.
std::vector<std::byte> reduced(const std::vector<std::vector<float>>& inputs, DType dtype, ReduceOp op) {
  const bool integral =
      dtype != DType::f32 && dtype != DType::f64 && dtype != DType::f16 && dtype != DType::bf16;
  std::vector<float> result(inputs[0].size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const int shift = integral ? 8 : 0;
    int value = static_cast<int>(inputs[0][i]) + shift;
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const int next = static_cast<int>(inputs[r][i]) + shift;
      value = op == ReduceOp::sum ? value + next : op == ReduceOp::max ? std::max(value, next) : value | next;
    }
    result[i] = static_cast<float>(value - shift);
  }
  return as_type(result, dtype);
}

const std::vector<DType> all_types = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                                      DType::u8,  DType::u16, DType::i32, DType::i64};

TEST(Communicator, ReducesEveryTypeAndOperatorExactlyOnIntegersByLibraryAndByRing) {
  Communicator& comm = world();
  Ring ring(comm);
  for (std::int64_t count : awkward_counts) {
    const auto inputs = integer_inputs(count);
    for (DType dtype : all_types) {
      const auto mine = as_type(inputs[static_cast<std::size_t>(comm.rank())], dtype);
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or}) {
        if (!comm.supports(dtype, op)) continue;
        const auto expected = reduced(inputs, dtype, op);
        std::vector<std::byte> by_library(mine.size()), by_ring(mine.size()), in_place = mine,
                                                                              ring_in_place = mine;
        comm.all_reduce(mine.data(), by_library.data(), count, dtype, op)->wait();
        comm.all_reduce(in_place.data(), in_place.data(), count, dtype, op)->wait();
        ring.all_reduce(mine.data(), by_ring.data(), count, dtype, op)->wait();
        ring.all_reduce(ring_in_place.data(), ring_in_place.data(), count, dtype, op)->wait();
        const std::string which = std::string(name_of(dtype)) + " x " + std::to_string(count);
        EXPECT_EQ(by_library, expected) << which;
        EXPECT_EQ(in_place, expected) << which;
        EXPECT_EQ(by_ring, expected) << which;
        EXPECT_EQ(ring_in_place, expected) << which;
      }
    }
  }
}

TEST(Communicator, ReduceScatterGivesEachRankItsBlockOfAnySize) {
  Communicator& comm = world();
  Ring ring(comm);
  for (std::int64_t count : awkward_counts) {
    const auto inputs = integer_inputs(count);
    const auto counts = shard_counts(count, comm.size());
    const RowBlock block = shard_rows(count, comm.rank(), comm.size());
    for (DType dtype : {DType::f32, DType::f16, DType::i32}) {
      const auto mine = as_type(inputs[static_cast<std::size_t>(comm.rank())], dtype);
      const auto whole = reduced(inputs, dtype, ReduceOp::sum);
      const auto size = static_cast<std::int64_t>(size_of(dtype));
      const std::vector<std::byte> expected(whole.begin() + block.first * size,
                                            whole.begin() + (block.first + block.count) * size);
      std::vector<std::byte> by_library(expected.size()), by_ring(expected.size());
      comm.reduce_scatter_v(mine.data(), by_library.data(), counts, dtype, ReduceOp::sum)->wait();
      ring.reduce_scatter(mine.data(), by_ring.data(), counts, dtype, ReduceOp::sum)->wait();
      EXPECT_EQ(by_library, expected) << name_of(dtype) << " x " << count;
      EXPECT_EQ(by_ring, expected) << name_of(dtype) << " x " << count;
    }
  }
}

TEST(Communicator, PiecesSmallerThanAMessageChangeNothing) {
  Communicator& comm = world();
  const std::int64_t before = MpiCommunicator::piece_bytes;
  const std::int64_t count = 1000;  // 4000 bytes: 4 pieces of 1000, an exact multiple, and 5 of 999
  for (std::int64_t piece : {1000, 999, 4000}) {
    MpiCommunicator::piece_bytes = piece;
    const auto inputs = integer_inputs(count);
    const auto mine = as_type(inputs[static_cast<std::size_t>(comm.rank())], DType::f32);
    const auto expected = reduced(inputs, DType::f32, ReduceOp::sum);
    std::vector<std::byte> sum(mine.size());
    comm.all_reduce(mine.data(), sum.data(), count, DType::f32, ReduceOp::sum)->wait();
    EXPECT_EQ(sum, expected);
    const auto n = static_cast<std::size_t>(comm.size());
    std::vector<std::byte> all(mine.size() * n);
    comm.all_gather(mine.data(), static_cast<std::int64_t>(mine.size()), all.data())->wait();
    for (std::size_t r = 0; r < n; ++r) {
      EXPECT_EQ(std::memcmp(all.data() + r * mine.size(), as_type(inputs[r], DType::f32).data(), mine.size()),
                0);
    }
    const auto counts = shard_counts(count, comm.size());
    std::vector<std::byte> shard(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())] * 4));
    comm.reduce_scatter_v(mine.data(), shard.data(), counts, DType::f32, ReduceOp::sum)->wait();
    const RowBlock block = shard_rows(count, comm.rank(), comm.size());
    EXPECT_EQ(std::memcmp(shard.data(), expected.data() + block.first * 4, shard.size()), 0);
    // A message of unknown length, exactly a multiple of the piece and not.
    for (std::int64_t bytes : {std::int64_t{0}, piece - 1, piece, 2 * piece}) {
      const auto length = std::min<std::int64_t>(bytes, 4000);
      const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
      std::vector<std::byte> got(4000);
      std::int64_t received = -1;
      RequestPtr receive = comm.receive(got.data(), 4000, left, 5, &received);
      RequestPtr send = comm.send(mine.data(), length, right, 5);
      while (!(static_cast<int>(receive->test()) &
               static_cast<int>(send->test()))) {  // each needs the other's progress
      }
      EXPECT_EQ(received, length);
      EXPECT_EQ(std::memcmp(got.data(), as_type(inputs[static_cast<std::size_t>(left)], DType::f32).data(),
                            static_cast<std::size_t>(length)),
                0);
    }
  }
  MpiCommunicator::piece_bytes = before;
}

TEST(Communicator, AMessageLongerThanItsReceiverExpectsIsRefused) {
  Communicator& comm = world();
  if (comm.size() < 2) GTEST_SKIP() << "needs two ranks";
  std::vector<std::byte> data(64);
  if (comm.rank() == 0) comm.send(data.data(), 64, 1, 6)->wait();
  if (comm.rank() == 1) {
    RequestPtr receive = comm.receive(data.data(), 16, 0, 6);
    EXPECT_THROW(receive->wait(), RuntimeFailure);
  }
  comm.barrier();
}

TEST(Ring, SendsExactlyTheBytesOfTheClosedForm) {
  Communicator& comm = world();
  Ring ring(comm);
  for (std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{13}, std::int64_t{4096}, std::int64_t{600000}}) {
    std::vector<float> x(static_cast<std::size_t>(count), 1.0f), y(x.size());
    ring.all_reduce(x.data(), y.data(), count, DType::f32, ReduceOp::sum)->wait();
    EXPECT_EQ(ring.counted(), ring_all_reduce_bytes(count, 4, comm.rank(), comm.size()));
    const auto counts = shard_counts(count, comm.size());
    const auto bytes = shard_counts(count, comm.size(), 4);
    ring.reduce_scatter(x.data(), y.data(), counts, DType::f32, ReduceOp::sum)->wait();
    EXPECT_EQ(ring.counted(), ring_reduce_scatter_bytes(bytes, comm.rank()));
    ring.all_gather(x.data(), y.data(), bytes)->wait();
    EXPECT_EQ(ring.counted(), ring_all_gather_bytes(bytes, comm.rank()));
  }
}

TEST(Ring, GivesEqualBitsOnAllRanksAndOnlyRoundingAwayFromTheFloat64Sum) {
  Communicator& comm = world();
  const std::int64_t count = 300007;
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < comm.size(); ++r) inputs.push_back(normal_input(count, "ring", r));
  const auto reference = sum_of_inputs(inputs);
  std::vector<float> sum(static_cast<std::size_t>(count));
  Ring ring(comm);
  ring.all_reduce(inputs[static_cast<std::size_t>(comm.rank())].data(), sum.data(), count, DType::f32,
                  ReduceOp::sum)
      ->wait();
  EXPECT_LT(relative_l2(sum, reference), 1e-7 * comm.size());
  EXPECT_TRUE(equal_on_all_ranks(sum.data(), count * 4));
  comm.all_reduce(inputs[static_cast<std::size_t>(comm.rank())].data(), sum.data(), count, DType::f32,
                  ReduceOp::sum)
      ->wait();
  EXPECT_LT(relative_l2(sum, reference), 1e-7 * comm.size());
  EXPECT_TRUE(equal_on_all_ranks(sum.data(), count * 4)) << "the library's all-reduce";
}

struct DenseCase {
  DType comm_dtype;
  DenseAlgorithm algorithm;
};

const std::vector<DenseCase> dense_cases = {{DType::f32, DenseAlgorithm::library},
                                            {DType::f32, DenseAlgorithm::ring},
                                            {DType::f16, DenseAlgorithm::library},
                                            {DType::f16, DenseAlgorithm::ring},
                                            {DType::bf16, DenseAlgorithm::ring}};

Channel dense_channel(const DenseCase& c, bool average = false) {
  return Channel(world(), {.traffic = TrafficClass::tp_forward,
                           .codec = "none",
                           .protocol = Protocol::dense,
                           .comm_dtype = c.comm_dtype,
                           .algorithm = c.algorithm,
                           .average = average});
}

TEST(ProcessMesh, ItsCommunicatorsHoldTheRanksOfTheGroups) {
  Communicator& comm = world();
  const int n = comm.size();
  for (const char* order : {"tp-pp-dp", "dp-pp-tp"}) {
    const MeshShape shape{.tp = n % 2 == 0 ? 2 : 1, .pp = n % 2 == 0 ? n / 2 : n, .dp = 1, .order = order};
    ProcessMesh mesh(comm, shape);
    const MeshGroups groups = mesh_groups(shape);
    const auto check = [&](Communicator& group, const std::vector<std::vector<int>>& kind) {
      std::vector<int> members(static_cast<std::size_t>(group.size()));
      const int me = comm.rank();
      group.all_gather(&me, sizeof me, members.data())->wait();
      EXPECT_EQ(std::count(kind.begin(), kind.end(), members), 1) << order;
    };
    check(mesh.tp(), groups.tp);
    check(mesh.pp(), groups.pp);
    check(mesh.dp(), groups.dp);
    EXPECT_EQ(mesh.embedding() != nullptr, mesh.first_stage() || mesh.last_stage());
    if (mesh.embedding() != nullptr) check(*mesh.embedding(), groups.embedding);
  }
  EXPECT_THROW(ProcessMesh(comm, {.tp = n + 1}), UsageError);
}

TEST(DenseChannel, SumsAndMeansAreExactOnIntegersAndCountTheClosedForm) {
  Communicator& comm = world();
  const int n = comm.size();
  for (const DenseCase& c : dense_cases) {
    for (bool mean : {false, true}) {
      Channel channel = dense_channel(c, mean);
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{17}, Shape{13, 64}, Shape{2, 7, 11}}) {
        const std::int64_t count = shape.elements();
        const auto inputs = integer_inputs(count);
        auto expected = sum_of_inputs(inputs);
        std::vector<float> in = inputs[static_cast<std::size_t>(comm.rank())], out(in.size(), -1);
        const OperationReport report =
            channel.all_reduce({in.data(), shape}, {out.data(), shape}, key_of("x")).wait();
        for (std::size_t i = 0; i < out.size(); ++i) {
          const double e = mean ? expected[i] / n : expected[i];
          EXPECT_NEAR(out[i], e, mean ? 0.02 : 0) << name_of(c.comm_dtype);
        }
        const auto size = static_cast<std::int64_t>(size_of(c.comm_dtype));
        EXPECT_EQ(report.dense_bytes, count * size);
        EXPECT_EQ(report.payload_bytes, count * size);
        EXPECT_EQ(report.link_bytes, ring_all_reduce_bytes(count, size, comm.rank(), n).sent);
        EXPECT_EQ(report.received_bytes, ring_all_reduce_bytes(count, size, comm.rank(), n).received);
        // In place, and reduce-scatter by rows.
        channel.all_reduce({in.data(), shape}, {in.data(), shape}, key_of("x")).wait();
        EXPECT_EQ(in, out);
        const RowBlock block = shard_rows(shape.rows(), comm.rank(), n);
        const Shape block_shape{block.count, shape.columns()};
        std::vector<float> mine = inputs[static_cast<std::size_t>(comm.rank())],
                           part(static_cast<std::size_t>(block_shape.elements()));
        channel.reduce_scatter({mine.data(), shape}, {part.data(), block_shape}, key_of("x")).wait();
        for (std::size_t i = 0; i < part.size(); ++i)
          EXPECT_EQ(part[i], out[static_cast<std::size_t>(block.first * shape.columns()) + i]);
        // All-gather of those blocks, broadcast, reduce.
        std::vector<float> all(out.size(), -1);
        channel.all_gather({part.data(), block_shape}, {all.data(), shape}, key_of("x")).wait();
        if (!mean) {
          EXPECT_EQ(all, out);
        } else {
          EXPECT_LT(relative_l2(all, out), 1e-2);
        }
        const int root = n - 1;
        std::vector<float> sent = inputs[static_cast<std::size_t>(comm.rank())];
        channel.broadcast({sent.data(), shape}, root, key_of("x")).wait();
        EXPECT_EQ(sent, inputs[static_cast<std::size_t>(root)]);
        std::vector<float> at_root(out.size(), -1);
        channel.reduce({mine.data(), shape}, {at_root.data(), shape}, root, key_of("x")).wait();
        if (comm.rank() == root) {
          EXPECT_EQ(at_root, out);
        }
      }
    }
  }
}

// What is moved may be narrower on the way; what is summed may not.
TEST(DenseChannel, MovesF64InNarrowTypesAndSumsItInItsOwnAlone) {
  const int n = world().size();
  const Shape shape{2 * n + 1, 3};
  for (const DType wire : {DType::f32, DType::f16, DType::bf16}) {
    Channel channel(world(), {.traffic = TrafficClass::param_all_gather, .comm_dtype = wire, .algorithm = DenseAlgorithm::ring});
    const RowBlock block = shard_rows(shape.rows(), world().rank(), n);
    std::vector<double> part, all(static_cast<std::size_t>(shape.elements()), -1);
    for (std::int64_t e = 0; e < block.count * 3; ++e) part.push_back(static_cast<double>(block.first * 3 + e) + 1.0 / 3);
    const OperationReport report = channel.all_gather({part.data(), {block.count, 3}}, {all.data(), shape}, key_of("x")).wait();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto value = static_cast<float>(static_cast<double>(i) + 1.0 / 3);
      EXPECT_EQ(all[i], wire == DType::f32 ? value : wire == DType::f16 ? to_float(to_half(value)) : to_float(to_bfloat16(value))) << name_of(wire);
    }
    EXPECT_EQ(report.payload_bytes, block.count * 3 * static_cast<std::int64_t>(size_of(wire)));
    EXPECT_THROW(channel.all_reduce({all.data(), shape}, {all.data(), shape}, key_of("x")), UsageError);
  }
}

TEST(DenseChannel, AChannelOfTheMaximumReducesExactlyAndCostsWhatASumCosts) {
  Communicator& comm = world();
  const int n = comm.size();
  for (const DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
    ChannelOptions options;
    options.comm_dtype = DType::f64, options.algorithm = algorithm, options.operation = ReduceOp::max;
    Channel channel(comm, options);
    for (const std::int64_t rows : {1, 7, 64}) {
      const Shape shape{rows, 3};
      const auto value = [&](int rank, std::int64_t i) {  // any rank may hold the largest, every third number is below zero everywhere
        return Random(test_seed(), "maximum").normal(static_cast<std::uint64_t>(i * n + rank)) - (i % 3 == 0 ? 10 : 0);
      };
      std::vector<double> in, expected;
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        in.push_back(value(comm.rank(), i));
        expected.push_back(value(0, i));
        for (int r = 1; r < n; ++r) expected.back() = std::max(expected.back(), value(r, i));
      }
      std::vector<double> out(in.size()), at_root(in.size());
      const OperationReport report = channel.all_reduce({in.data(), shape}, {out.data(), shape}, key_of("x")).wait();
      EXPECT_EQ(out, expected);
      EXPECT_EQ(report.received_bytes, ring_all_reduce_bytes(shape.elements(), 8, comm.rank(), n).received);
      channel.reduce({in.data(), shape}, {at_root.data(), shape}, 0, key_of("x")).wait();
      if (comm.rank() == 0) {
        EXPECT_EQ(at_root, expected);
      }
      const RowBlock block = shard_rows(rows, comm.rank(), n);
      std::vector<double> part(static_cast<std::size_t>(block.count * 3));
      channel.reduce_scatter({in.data(), shape}, {part.data(), {block.count, 3}}, key_of("x")).wait();
      for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], expected[static_cast<std::size_t>(block.first * 3) + i]);
    }
  }
  ChannelOptions averaging;
  averaging.operation = ReduceOp::max, averaging.average = true;
  EXPECT_THROW(Channel(comm, averaging), UsageError);
  ChannelOptions coded;
  coded.traffic = TrafficClass::tp_forward, coded.operation = ReduceOp::max, coded.codec = "quantize:bits=8";
  EXPECT_THROW(Channel(comm, coded), UsageError);
}

TEST(DenseChannel, ATensorInTheWireTypeIsNotChargedForConversions) {
  Communicator& comm = world();
  const std::int64_t count = 5000;
  const auto inputs = integer_inputs(count);
  const auto in = as_type(inputs[static_cast<std::size_t>(comm.rank())], DType::f16);
  for (DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
    Channel channel = dense_channel({DType::f16, algorithm});
    std::vector<std::byte> out(in.size());
    const Shape shape{50, 100};
    const OperationReport report =
        channel.all_reduce({in.data(), DType::f16, shape}, {out.data(), DType::f16, shape}, key_of("x"))
            .wait();
    EXPECT_EQ(report.encode_us, 0);
    EXPECT_EQ(report.decode_us, 0);
    EXPECT_EQ(report.dense_bytes, 10000);
    EXPECT_EQ(out, reduced(inputs, DType::f16, ReduceOp::sum));
  }
}

TEST(DenseChannel, ImpossibleRequestsAreUsageErrorsOnEveryRank) {
  Channel channel = dense_channel({DType::f16, DenseAlgorithm::library});
  std::vector<float> x(6), y(6);
  std::vector<double> z(6);
  EXPECT_THROW(channel.all_reduce({x.data(), Shape{2, 3}}, {y.data(), Shape{3, 2}}, key_of("x")), UsageError);
  EXPECT_THROW(channel.all_reduce({z.data(), Shape{6}}, {z.data(), Shape{6}}, key_of("x")), UsageError);
  EXPECT_THROW(channel.send({x.data(), Shape{6}}, world().size(), key_of("x")), UsageError);
  if (world().size() > 1) {
    EXPECT_THROW(channel.send({x.data(), Shape{6}}, world().rank(), key_of("x")), UsageError);
  }
  EXPECT_THROW(channel.reduce({x.data(), Shape{6}}, {y.data(), Shape{6}}, -1, key_of("x")), UsageError);
  ChannelOptions no_such{.codec = "noen"};
  EXPECT_THROW(Channel(world(), no_such), UsageError);
}

// As both ends of a boundary in one process: it is metered like a message between two.
TEST(DenseChannel, ARankAloneSendsToItself) {
  const auto alone = world().split(world().rank(), 0);
  ChannelOptions o;
  o.traffic = TrafficClass::pp_backward, o.comm_dtype = DType::f32;
  Channel channel(*alone, o);
  std::vector<float> x(100000), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Shape shape{static_cast<std::int64_t>(x.size())};
  Operation sent = channel.send({x.data(), shape}, 0, key_of("x"));
  channel.receive({y.data(), shape}, 0, key_of("x")).wait();
  sent.wait();
  EXPECT_EQ(x, y);
  EXPECT_EQ(channel.meter().operations(), 2);
  EXPECT_EQ(channel.meter().total().link_bytes, 400000);
}

// Every operation of a dense channel in the tensors' own type: what moves keeps its bits, sums are those of that type.
template <typename T>
void check_every_operation_keeps_its_precision() {
  Communicator& comm = world();
  const int n = comm.size(), me = comm.rank();
  const Shape shape{13, 5};
  const auto input = [&](int rank) {
    const Random random(test_seed(), mix_stream(hash_name("precise"), static_cast<std::uint64_t>(rank)));
    std::vector<T> x(65);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(random.normal(i) / 3.0);
    return x;
  };
  const auto mine = input(me);
  std::vector<T> sum(65, 0);
  for (int r = 0; r < n; ++r)
    for (std::size_t i = 0; i < 65; ++i) sum[i] += input(r)[i];
  const RowBlock block = shard_rows(13, me, n);
  const Shape part{block.count, 5};
  const auto first = static_cast<std::size_t>(block.first * 5), count = static_cast<std::size_t>(block.count * 5);
  for (DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
    for (bool average : {false, true}) {
      Channel channel(comm, {.traffic = TrafficClass::dp_gradient,
                             .comm_dtype = dtype_of<T>,
                             .algorithm = algorithm,
                             .average = average});
      std::vector<T> expected = sum;
      if (average)
        for (T& value : expected) value /= static_cast<T>(n);
      const auto near = [&](std::span<const T> got, std::span<const T> wanted) {
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR(got[i], wanted[i], 8 * n * std::numeric_limits<T>::epsilon()) << i;
      };
      std::vector<T> out(65), shard(count);
      channel.all_reduce({mine.data(), shape}, {out.data(), shape}, key_of("x")).wait();
      near(out, expected);
      std::vector<T> in_place = mine;
      channel.all_reduce({in_place.data(), shape}, {in_place.data(), shape}, key_of("x")).wait();
      EXPECT_EQ(in_place, out);
      channel.reduce_scatter({mine.data(), shape}, {shard.data(), part}, key_of("x")).wait();
      near(shard, std::span<const T>(expected).subspan(first, count));
      channel.reduce({mine.data(), shape}, {out.data(), shape}, n - 1, key_of("x")).wait();
      if (me == n - 1) near(out, expected);
      // All ranks gather the blocks of one whole.
      std::vector<T> gathered(65);
      channel.all_gather({input(0).data() + first, part}, {gathered.data(), shape}, key_of("x")).wait();
      EXPECT_EQ(gathered, input(0));
      std::vector<T> sent = mine;
      channel.broadcast({sent.data(), shape}, n - 1, key_of("x")).wait();
      EXPECT_EQ(sent, input(n - 1));
      if (n == 1) continue;
      const int right = (me + 1) % n, left = (me + n - 1) % n;
      std::vector<T> arrived(65), returned(65);
      Operation send = channel.send({mine.data(), shape}, right, key_of("p"));
      channel.receive({arrived.data(), shape}, left, key_of("p")).wait();
      EXPECT_EQ(arrived, input(left));
      EXPECT_EQ(send.wait().payload_bytes, static_cast<std::int64_t>(65 * sizeof(T)));
      Channel backward(comm, {.traffic = TrafficClass::pp_backward, .comm_dtype = dtype_of<T>});
      send = backward.send_backward({mine.data(), shape}, left, key_of("p"), channel);
      backward.receive_backward({returned.data(), shape}, right, key_of("p"), channel).wait();
      EXPECT_EQ(returned, input(right));
      send.wait();
    }
  }
}

TEST(DenseChannel, EveryOperationKeepsDoublePrecision) { check_every_operation_keeps_its_precision<double>(); }
TEST(DenseChannel, EveryOperationKeepsSinglePrecision) { check_every_operation_keeps_its_precision<float>(); }

}  // namespace
}  // namespace thinwire
