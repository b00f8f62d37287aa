#include "models/grid_layouts.h"

namespace thinwire {
namespace {

std::string bias_of(const std::string& name) {
  return name + ".bias";
}
std::string weight_of(const std::string& name) {
  return name + ".weight";
}

}  // namespace

LinearLayouts column_parallel(const std::string& name, std::int64_t in, std::int64_t out, int ranks,
                              int rank) {
  const SplitGroup tensor{"tensor", ranks, rank};
  LinearLayouts l;
  l.output.hidden = {tensor};
  l.weight = ParameterLayout(weight_of(name), {in, out}, {}, {tensor});
  l.bias = ParameterLayout(bias_of(name), {out}, {}, {tensor});
  return l;
}

LinearLayouts row_parallel(const std::string& name, std::int64_t in, std::int64_t out, int ranks, int rank) {
  const SplitGroup tensor{"tensor", ranks, rank};
  LinearLayouts l;
  l.input.hidden = {tensor};
  l.weight = ParameterLayout(weight_of(name), {in, out}, {tensor}, {});
  l.bias = ParameterLayout(bias_of(name), {out}, {}, {}, {tensor});
  l.partial_over = {tensor};
  return l;
}

LinearLayouts summa_2d(const std::string& name, std::int64_t in, std::int64_t out, int q, int rank) {
  const SplitGroup row{"row", q, rank / q}, column{"column", q, rank % q};
  LinearLayouts l;
  l.input = l.output = Layout{{row}, {}, {column}};
  l.weight = ParameterLayout(weight_of(name), {in, out}, {row}, {column});
  // The bias lies on grid row 0 and is broadcast down the columns.
  l.bias = ParameterLayout(bias_of(name), {out}, {}, {column});
  if (row.index != 0) l.bias = l.bias.absent();
  return l;
}

LinearLayouts tesseract_25d(const std::string& name, std::int64_t in, std::int64_t out, int q, int d,
                            int rank) {
  const SplitGroup column{"column", q, rank % q}, row{"row", q, rank / q % q},
      depth{"depth", d, rank / (q * q)};
  LinearLayouts l;
  l.input = l.output = Layout{{depth, row}, {}, {column}};
  l.weight = ParameterLayout(weight_of(name), {in, out}, {row}, {column}, {depth});
  l.bias = ParameterLayout(bias_of(name), {out}, {}, {column}, {depth});
  if (row.index != 0) l.bias = l.bias.absent();
  return l;
}

LinearLayouts cube_3d(const std::string& name, std::int64_t in, std::int64_t out, int q, int rank,
                      bool swapped) {
  const SplitGroup weight{"weight", q, rank % q};
  SplitGroup input{"input", q, rank / q % q}, output{"output", q, rank / (q * q)};
  if (swapped) std::swap(input, output);
  LinearLayouts l;
  l.input = Layout{{weight, input}, {}, {output}};
  l.output = Layout{{weight, output}, {}, {input}};
  l.weight = ParameterLayout(weight_of(name), {in, out}, {output, weight}, {input});
  // Diagonal form: the bias acts on Y (columns by `input`, row sub-blocks by `output`); piece (block,
  // sub-block i) lies where the row sub-index equals the column index.
  l.bias = ParameterLayout(bias_of(name), {out}, {}, {input, weight});
  if (output.index != input.index) l.bias = l.bias.absent();
  l.partial_over = {output};
  return l;
}

}  // namespace thinwire
