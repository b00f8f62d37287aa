// The reference of models/parallel/tensor/grid_reference.h for the ranks and the seed of a test, and the grids that a launch makes.
#pragma once

#include <numeric>

#include "models/parallel/tensor/grid_reference.h"
#include "models/parallel/tensor/tensor_grid.h"
#include "tests/collectives/world.h"

namespace thinwire::testing {

using namespace reference;

/// Normal(0, 1), equal on all ranks.
inline Whole random_matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  return reference::random_matrix(test_seed(), name, rows, columns);
}
/// Relative L2 distance over the shards of all ranks; 0 where both are zero.
template <typename T>
double distance(const T* mine, const std::vector<double>& whole) {
  return reference::distance(world(), mine, whole);
}
inline std::int64_t over_ranks(std::int64_t value, ReduceOp op) {
  std::int64_t result = 0;
  world().all_reduce(&value, &result, 1, DType::i64, op)->wait();
  return result;
}

/// Every grid of as many ranks as were launched but 1-D: squares, q*q*d with any d, and every box.
inline std::vector<GridShape> every_grid() {
  const int ranks = world().size();
  std::vector<GridShape> all;
  for (int q = 1; q * q <= ranks; ++q)
    if (ranks % (q * q) == 0) {
      const int depth = ranks / (q * q);
      all.push_back(depth == 1 ? GridShape{GridKind::two_d, {q, q, 1}} : GridShape{GridKind::two_and_half_d, {q, q, depth}});
    }
  for (int x = 1; x <= ranks; ++x)
    for (int y = 1; x * y <= ranks; ++y)
      if (ranks % (x * y) == 0) all.push_back({GridKind::three_d, {x, y, ranks / (x * y)}});
  return all;
}
inline bool is_cube(const GridShape& s) { return s.kind == GridKind::three_d && s.sides[0] == s.sides[1] && s.sides[1] == s.sides[2]; }

/// Sizes that every grid of the launch divides.
struct GridTestSizes {
  std::int64_t batch = 1, seq = 2, in = 1, out = 1;
  GridTestSizes() {
    for (const GridShape& s : every_grid()) {
      const auto [a, b, c] = s.sides;
      const std::int64_t ab = static_cast<std::int64_t>(a) * b, ac = static_cast<std::int64_t>(a) * c, bc = static_cast<std::int64_t>(b) * c;
      const bool box = s.kind == GridKind::three_d;
      batch = std::lcm(batch, box ? std::lcm(ab, ac) : bc);
      in = std::lcm(in, box ? std::lcm(ab, ac) : a);
    }
    out = 2 * in;
  }
  PassContext pass() const { return {batch, seq}; }
};

}  // namespace thinwire::testing
