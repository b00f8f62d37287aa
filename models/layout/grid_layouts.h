// The layouts of one linear Y = X W under each kind of tensor parallelism, for one rank of a grid: what a
// parallel linear maps from and to. Rank orders and shards as in docs/models.md (after the layouts of
// Megatron-LM, Optimus, Tesseract and 3-D tensor parallelism).
#pragma once

#include "models/layout/layout.h"

namespace thinwire {

/// X [batch, seq, in], W [in, out], Y [batch, seq, out], bias [out] on one rank. `partial_over`: groups over
/// which the local product X W is a partial sum of Y.
struct LinearLayouts {
  Layout input, output;
  ParameterLayout weight, bias;
  SplitGroups partial_over;
};

/// 1-D: columns of W split; Y split along hidden. Input replicated.
LinearLayouts column_parallel(const std::string& name, std::int64_t in, std::int64_t out, int ranks,
                              int rank);
/// 1-D: rows of W split; X split along hidden; Y is a partial sum on every rank.
LinearLayouts row_parallel(const std::string& name, std::int64_t in, std::int64_t out, int ranks, int rank);
/// 2-D (SUMMA), ranks = q*q, rank = row*q + column: everything as block (row, column).
LinearLayouts summa_2d(const std::string& name, std::int64_t in, std::int64_t out, int q, int rank);
/// 2.5-D, ranks = q*q*d, rank = column + q*(row + q*depth): batch split by (depth, row); W replicated over
/// depth.
LinearLayouts tesseract_25d(const std::string& name, std::int64_t in, std::int64_t out, int q, int d,
                            int rank);
/// 3-D, ranks = q^3, rank = i + q*(j + q*l). X: batch by (i, j), hidden by l. W: rows by (l, i), columns by
/// j. Y: batch by (i, l), hidden by j. `swapped` exchanges the roles of j and l: the layout of the next
/// linear.
LinearLayouts cube_3d(const std::string& name, std::int64_t in, std::int64_t out, int q, int rank,
                      bool swapped);

}  // namespace thinwire
