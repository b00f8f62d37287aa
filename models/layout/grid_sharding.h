// Layouts of a linear, its activations and vectors on a process grid of any shape: 2-D, 2.5-D, 3-D boxes with unequal sides.
#pragma once

#include "models/layout/grid_layouts.h"
#include "models/layout/grid_shape.h"

namespace thinwire {

/// How the axis `weight` of a 3-D grid cuts a rank's block of W once more: into row sub-blocks (H, contiguous in memory, as in
/// Colossal-AI), or into column sub-blocks (P, as in the paper). The gathered block is the same.
enum class WeightCut { rows, columns };

/// A linear on any grid but 1-D, 3-D with unequal sides too. `swapped` has a meaning in 3-D only. Bias as vector_layout.
LinearLayouts grid_linear(const GridShape& shape, const std::string& name, std::int64_t in, std::int64_t out, int rank, bool swapped,
                          WeightCut cut = WeightCut::rows);
/// Activations: the input of a linear of this orientation. Between layers it is not swapped.
Layout grid_activation(const GridShape& shape, int rank, bool swapped = false);

/// The axes along which a vector travels that acts on the columns of an activation, the output of a linear of this orientation.
/// A vector is spread thin: column block c of it lies on one member of the line `across`, cut once more along `sub` in 3-D.
struct VectorAxes {
  int columns = 0;  ///< splits the columns
  int across = 1;   ///< innermost split of the rows: the line over which a block is broadcast
  int sub = -1;     ///< cuts a block into pieces, gathered after the broadcast
  int depth = -1;   ///< holds copies
  /// The holder on line `across`: grid row 0 in 2-D and 2.5-D, the diagonal in 3-D.
  int root(const GridShape& shape, int rank) const;
};
VectorAxes vector_axes(const GridShape& shape, bool swapped);
ParameterLayout vector_layout(const GridShape& shape, const std::string& name, std::int64_t extent, int rank, bool swapped);

}  // namespace thinwire
