// Whole matrices in float64 with plain loops, and the shards of them that a rank of a grid must hold: the reference of the tests of 2-D,
// 2.5-D and 3-D tensor parallelism.
#pragma once

#include <numeric>

#include "models/tensor_grid.h"
#include "tests/collectives/world.h"

namespace thinwire::testing {

struct Whole {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

inline Whole zeros(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))};
}
/// Normal(0, 1), equal on all ranks.
inline Whole random_matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const Random random(test_seed(), hash_name(name));
  Whole m = zeros(rows, columns);
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = random.normal(i);
  return m;
}
inline Whole transposed(const Whole& a) {
  Whole t = zeros(a.columns, a.rows);
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c) t.at(c, r) = a.at(r, c);
  return t;
}
inline Whole product(const Whole& a, const Whole& b) {
  Whole c = zeros(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}
inline Whole column_sums(const Whole& a) {
  Whole s = zeros(1, a.columns);
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c) s.at(0, c) += a.at(r, c);
  return s;
}

/// The part of [batch x seq, columns] that `layout` gives this rank.
inline std::vector<double> shard(const Whole& m, const Layout& layout, std::int64_t seq) {
  const AxisRange samples = split_axis("batch", m.rows / seq, layout.batch), columns = split_axis("columns", m.columns, layout.hidden);
  std::vector<double> part;
  for (std::int64_t r = samples.begin * seq; r < (samples.begin + samples.count) * seq; ++r)
    for (std::int64_t c = columns.begin; c < columns.begin + columns.count; ++c) part.push_back(m.at(r, c));
  return part;
}
inline std::vector<double> shard(const Whole& m, const ParameterLayout& layout) {
  std::vector<double> part;
  for (std::int64_t i = 0; i < layout.local().elements(); ++i) part.push_back(m.values[static_cast<std::size_t>(layout.global_index(i))]);
  return part;
}
template <typename T>
void set(Parameter<T>& p, const Whole& m) {
  const std::vector<double> part = shard(m, p.layout);
  for (std::size_t i = 0; i < part.size(); ++i) p.w()[i] = static_cast<T>(part[i]);
}

/// Relative L2 distance over the shards of all ranks; 0 where both are zero.
template <typename T>
double distance(const T* mine, const std::vector<double>& reference) {
  double sums[2] = {0, 0}, all[2];
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(mine[i]) - reference[i];
    sums[0] += d * d, sums[1] += reference[i] * reference[i];
  }
  world().all_reduce(sums, all, 2, DType::f64, ReduceOp::sum)->wait();
  if (all[0] == 0) return 0;
  const double distance = std::sqrt(all[0] / all[1]);
  return std::isfinite(distance) ? distance : INFINITY;
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
