// labels: mpi
// ranks: 4
// 1-bit Adam's compressed sum is `sign:scale=l2+ef` by protocol two_shot: signs and a scale of each piece, with an error of the worker, and of each sum of pieces, with an
// error of its owner. Against the recursion in float64 (docs/papers/gradient_compression.md, "Signs").
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/channel/channel.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using testing::world;
using Doubles = std::vector<double>;
constexpr std::int64_t rows = 9, columns = 14;  // of 2 to 8 ranks only 3 get equal pieces

constexpr std::int64_t elements = rows * columns, steps = 12;

float input(std::uint64_t seed, int rank, std::int64_t step, std::int64_t element) {
  const Random random(seed, mix_stream(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(step)));
  return static_cast<float>(random.normal(static_cast<std::uint64_t>(element)) + 0.2);
}

/// x <- what its signs and norm say; what that loses is left in `error`. False where a sign would be a matter of f32 rounding.
bool code(double* x, double* error, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  const double scale = std::sqrt(squares / static_cast<double>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::abs(x[i]) < 1e-5) return false;
    const double seen = x[i] < 0 ? -scale : scale;
    error[i] = x[i] - seen;
    x[i] = seen;
  }
  return true;
}

struct Course {
  std::vector<Doubles> sums;    ///< by step
  Doubles given, held;          ///< over all steps and ranks; in both kinds of errors at the end
};

/// The recursion over `n` ranks; false where inputs of this seed lie on a tie.
bool follow(std::uint64_t seed, int n, Course& course) {
  std::vector<Doubles> worker(static_cast<std::size_t>(n), Doubles(elements, 0.0));
  Doubles owner(elements, 0.0);
  course = {{}, Doubles(elements, 0.0), {}};
  const auto code_pieces = [&](Doubles& x, Doubles& error) {
    for (int d = 0; d < n; ++d) {
      const RowBlock piece = shard_rows(rows, d, n);
      if (piece.count > 0 && !code(x.data() + piece.first * columns, error.data() + piece.first * columns, piece.count * columns)) return false;
    }
    return true;
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    Doubles sum = owner;
    for (int r = 0; r < n; ++r) {
      Doubles x = worker[static_cast<std::size_t>(r)];
      for (std::int64_t i = 0; i < elements; ++i) {
        const double value = input(seed, r, step, i);
        course.given[static_cast<std::size_t>(i)] += value;
        x[static_cast<std::size_t>(i)] += value;
      }
      if (!code_pieces(x, worker[static_cast<std::size_t>(r)])) return false;
      for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
    }
    if (!code_pieces(sum, owner)) return false;
    course.sums.push_back(sum);
  }
  course.held = owner;
  for (const Doubles& error : worker)
    for (std::size_t i = 0; i < error.size(); ++i) course.held[i] += error[i];
  return true;
}

TEST(TwoLevelSigns, FollowTheRecursionOfWorkersAndOwners) {
  const int n = world().size(), me = world().rank();
  std::uint64_t seed = 1;
  Course course;
  while (!follow(seed, n, course)) ASSERT_LT(++seed, 100u);
  Channel channel(world(), {.traffic = TrafficClass::dp_gradient, .codec = "sign:scale=l2+ef", .protocol = Protocol::two_shot, .comm_dtype = DType::f32});
  Doubles delivered(elements, 0.0);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<float> x(elements), out(elements);
    for (std::int64_t i = 0; i < elements; ++i) x[static_cast<std::size_t>(i)] = input(seed, me, step, i);
    MessageKey key;
    key.tensor = hash_name("momentum");
    key.step = step;
    channel.all_reduce({x.data(), Shape{rows, columns}}, {out.data(), Shape{rows, columns}}, key).wait();
    const Doubles& sum = course.sums[static_cast<std::size_t>(step)];
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], sum[i], 1e-4 * std::abs(sum[i])) << "step " << step << ", element " << i << ", " << n << " ranks, seed " << seed;
      delivered[i] += static_cast<double>(out[i]);
    }
  }
  // What was given is what arrived and what both kinds of errors still hold.
  for (std::size_t i = 0; i < delivered.size(); ++i) EXPECT_NEAR(delivered[i] + course.held[i], course.given[i], 1e-3 * (1 + std::abs(course.given[i]))) << i;
}

}  // namespace
}  // namespace thinwire
