// labels: mpi
// ranks: 2,4,8
// timeout: 120
// optimised: yes
// A reduce-scatter that sends bf16 and adds in f32: codec cast:to=bf16 by protocol gather. Its bytes are a ring's, its error does not grow with the ranks; a ring that adds in bf16 rounds at each
// of its hops (docs/papers/sharded_compression.md, "Worked examples").
#include "core/half.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t rows = 64, columns = 2048, elements = rows * columns;

std::vector<float> input(int rank) {
  const Random random(20261124, static_cast<std::uint64_t>(rank));
  std::vector<float> x(elements);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

struct Errors {
  double as_delivered = 0, in_bf16 = 0;  ///< relative L2 of all ranks' blocks, and of these rounded to bf16
  std::int64_t link_bytes = 0;
};

Errors errors_of(Protocol protocol) {
  const int n = world().size(), me = world().rank();
  Channel channel(world(), {.traffic = TrafficClass::grad_reduce_scatter, .codec = "cast:to=bf16", .protocol = protocol, .comm_dtype = DType::f32, .algorithm = DenseAlgorithm::ring});
  const RowBlock mine = shard_rows(rows, me, n);
  const std::vector<float> x = input(me);
  std::vector<float> out(static_cast<std::size_t>(mine.count * columns));
  MessageKey key;
  key.tensor = hash_name("gradient");
  const OperationReport report = channel.reduce_scatter({x.data(), Shape{rows, columns}}, {out.data(), Shape{mine.count, columns}}, key).wait();
  std::vector<double> exact(out.size(), 0.0);
  for (int r = 0; r < n; ++r) {
    const std::vector<float> other = input(r);
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += static_cast<double>(other[static_cast<std::size_t>(mine.first * columns) + i]);
  }
  std::vector<double> squares(3, 0.0), all(3);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double delivered = static_cast<double>(out[i]) - exact[i], rounded = static_cast<double>(to_float(to_bfloat16(out[i]))) - exact[i];
    squares[0] += delivered * delivered, squares[1] += rounded * rounded, squares[2] += exact[i] * exact[i];
  }
  world().all_reduce(squares.data(), all.data(), 3, DType::f64, ReduceOp::sum)->wait();
  return {std::sqrt(all[0] / all[2]), std::sqrt(all[1] / all[2]), report.link_bytes};
}

TEST(SumsInF32, TheErrorOfBf16IsThatOfItsRoundingsWhateverTheRanks) {
  const std::size_t w = world().size() == 2 ? 0 : world().size() == 4 ? 1 : 2;
  const double ring_on_page[] = {2.45e-3, 3.16e-3, 4.04e-3}, gathered_on_page[] = {2.45e-3, 2.37e-3, 2.36e-3};
  const Errors ring = errors_of(Protocol::rounds), gathered = errors_of(Protocol::gather);
  if (world().rank() == 0) std::printf("W = %d: ring %.3e, f32 sums %.3e, rounded to bf16 %.3e\n", world().size(), ring.as_delivered, gathered.as_delivered, gathered.in_bf16);
  EXPECT_NEAR(ring.as_delivered, ring_on_page[w], 0.03 * ring_on_page[w]);
  EXPECT_NEAR(gathered.in_bf16, gathered_on_page[w], 0.03 * gathered_on_page[w]);
  EXPECT_NEAR(gathered.as_delivered, 1.66e-3, 0.03e-3) << "one rounding, of each term";
  EXPECT_EQ(gathered.link_bytes, ring.link_bytes);
  EXPECT_EQ(gathered.link_bytes, 2 * elements * (world().size() - 1) / world().size());
}

}  // namespace
}  // namespace thinwire
