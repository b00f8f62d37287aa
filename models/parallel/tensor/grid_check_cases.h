// What check_tensor_parallel runs on a grid, and with which sizes: shared with whoever reads its rows.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "models/parallel/tensor/tensor_grid.h"

namespace thinwire {

/// A linear on a grid. In 2-D and 2.5-D there is one way to do it.
struct GridCheckCase {
  GridShape shape;
  GridOptions options;
  bool swapped = false;

  /// "3d 2x2x2, gather again, weight cut by columns, swapped"; "2d 2x2x1".
  std::string name() const {
    if (shape.kind != GridKind::three_d) return shape.describe();
    return shape.describe() + ", gather " + name_of(options.gather) + (options.cut == WeightCut::columns ? ", weight cut by columns" : "") +
           (swapped ? ", swapped" : "");
  }
};

/// 3-D: every policy and cut; swapped with the first of them.
inline std::vector<GridCheckCase> grid_check_cases(const GridShape& shape) {
  std::vector<GridCheckCase> cases;
  if (shape.kind != GridKind::three_d) return {{shape, {}, false}};
  for (const GatherPolicy gather : {GatherPolicy::again, GatherPolicy::again_literally, GatherPolicy::keep})
    for (const WeightCut cut : {WeightCut::rows, WeightCut::columns}) {
      GridCheckCase c{shape, {}, false};
      c.options.gather = gather, c.options.cut = cut;
      cases.push_back(c);
      if (cut == WeightCut::rows) c.swapped = true, cases.push_back(c);
    }
  return cases;
}

/// Small sizes that a grid divides so that also vectors and statistics of rows come out in whole elements.
struct GridCheckSizes {
  std::int64_t batch = 1, seq = 1, in = 1, out = 1, vocab = 53;
  explicit GridCheckSizes(const GridShape& shape) {
    const auto [a, b, c] = shape.sides;
    const bool box = shape.kind == GridKind::three_d;
    batch = box ? std::lcm<std::int64_t>(a * b, a * c) : std::int64_t{b} * c;
    seq = 2 * std::max({a, b, c});
    in = 2 * shape.ranks(), out = 2 * in;
    if (shape.kind == GridKind::one_d) batch = 2, seq = 4;
  }
  std::int64_t rows() const { return batch * seq; }
};

}  // namespace thinwire
