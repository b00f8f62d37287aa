// Process grids of tensor parallelism: which shape a number of ranks takes, and where a rank stands in it. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/layout/layout.h"

namespace thinwire {

/// one_d: Megatron-LM. two_d: SUMMA, as in Optimus (Xu et al. 2021). two_and_half_d: Tesseract (Wang et al. 2021). three_d: Bian et
/// al. 2021.
enum class GridKind { one_d, two_d, two_and_half_d, three_d };
std::string name_of(GridKind kind);

/// sides[0] varies fastest with the rank: rank = a0 + s0 * (a1 + s1 * a2).
///   one_d           {p, 1, 1}  axes: tensor
///   two_d           {q, q, 1}        column, row
///   two_and_half_d  {q, q, d}        column, row, depth
///   three_d         {x, y, z}        weight (i), input (j), output (l)
struct GridShape {
  GridKind kind = GridKind::one_d;
  std::array<int, 3> sides = {1, 1, 1};

  int ranks() const { return sides[0] * sides[1] * sides[2]; }
  /// This rank's place on an axis, and that axis as a group of a layout.
  int index(int axis, int rank) const;
  SplitGroup group(int axis, int rank) const;
  /// "3d 2x2x2".
  std::string describe() const;
  bool operator==(const GridShape&) const = default;
};

/// Axes of its sides by name: the lines that run along a row, down a column, over the depth (2-D, 2.5-D); those of weights, inputs and outputs (3-D).
inline constexpr int along_row = 0, down_column = 1, over_depth = 2;
inline constexpr int weight_axis = 0, input_axis = 1, output_axis = 2;

/// The grid that `text` makes of `ranks` ranks: 1d | 2d | 2.5d:depth=D | 3d | 3d:sides=XxYxZ. UsageError for anything else, and for
/// a number of ranks that is no square, q*q*depth, cube or product of the sides: it names the numbers and the nearest choices.
GridShape parse_grid(const std::string& text, int ranks);
/// Every grid of this many ranks: 1-D, 2-D, 2.5-D with a depth from 2 to q, the cube. What a comparison at equal ranks enumerates.
std::vector<GridShape> grids_of(int ranks);

/// Sizes of a model that a grid must divide. 0: not checked.
struct GridSizes {
  std::int64_t batch = 0, hidden = 0, heads = 0;
};
/// UsageError naming the sizes that do not divide, all at once, with the nearest valid ones: batch by the product of the axes that
/// split it, hidden by those that split its rows in a weight, heads by those that split columns.
void check_grid(const GridShape& shape, const GridSizes& sizes);
/// The vocabulary, padded so that the grid divides it into blocks of whole multiples of 8.
std::int64_t grid_vocabulary(const GridShape& shape, std::int64_t vocab);

}  // namespace thinwire
