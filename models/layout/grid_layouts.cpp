#include "models/layout/grid_layouts.h"

#include "models/layout/grid_sharding.h"

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
  return grid_linear({GridKind::two_d, {q, q, 1}}, name, in, out, rank, false);
}

LinearLayouts tesseract_25d(const std::string& name, std::int64_t in, std::int64_t out, int q, int d,
                            int rank) {
  return grid_linear({GridKind::two_and_half_d, {q, q, d}}, name, in, out, rank, false);
}

LinearLayouts cube_3d(const std::string& name, std::int64_t in, std::int64_t out, int q, int rank,
                      bool swapped) {
  return grid_linear({GridKind::three_d, {q, q, q}}, name, in, out, rank, swapped);
}

LinearLayouts grid_linear(const GridShape& shape, const std::string& name, std::int64_t in, std::int64_t out, int rank, bool swapped,
                          WeightCut cut) {
  TW_ASSERT(shape.kind != GridKind::one_d, name);
  const SplitGroup first = shape.group(0, rank), second = shape.group(1, rank), third = shape.group(2, rank);
  LinearLayouts l;
  l.input = grid_activation(shape, rank, swapped);
  l.output = grid_activation(shape, rank, !swapped);
  l.bias = vector_layout(shape, bias_of(name), out, rank, swapped);
  if (shape.kind == GridKind::three_d) {
    const SplitGroup& input = swapped ? third : second;
    const SplitGroup& output = swapped ? second : third;
    l.weight = cut == WeightCut::rows ? ParameterLayout(weight_of(name), {in, out}, {output, first}, {input})
                                      : ParameterLayout(weight_of(name), {in, out}, {output}, {input, first});
    l.partial_over = {output};
    return l;
  }
  const SplitGroups copies = shape.kind == GridKind::two_and_half_d ? SplitGroups{third} : SplitGroups{};
  l.weight = ParameterLayout(weight_of(name), {in, out}, {second}, {first}, copies);
  return l;
}

Layout grid_activation(const GridShape& shape, int rank, bool swapped) {
  const SplitGroup first = shape.group(0, rank), second = shape.group(1, rank), third = shape.group(2, rank);
  switch (shape.kind) {
    case GridKind::one_d: return Layout::replicated();
    case GridKind::two_d: return {{second}, {}, {first}};
    case GridKind::two_and_half_d: return {{third, second}, {}, {first}};
    case GridKind::three_d: return swapped ? Layout{{first, third}, {}, {second}} : Layout{{first, second}, {}, {third}};
  }
  return {};
}

VectorAxes vector_axes(const GridShape& shape, bool swapped) {
  if (shape.kind == GridKind::three_d) return swapped ? VectorAxes{2, 1, 0, -1} : VectorAxes{1, 2, 0, -1};
  return {0, 1, -1, shape.kind == GridKind::two_and_half_d ? 2 : -1};
}

int VectorAxes::root(const GridShape& shape, int rank) const {
  if (sub < 0) return 0;
  return shape.index(columns, rank) % shape.sides[static_cast<std::size_t>(across)];
}

ParameterLayout vector_layout(const GridShape& shape, const std::string& name, std::int64_t extent, int rank, bool swapped) {
  const VectorAxes axes = vector_axes(shape, swapped);
  SplitGroups columns = {shape.group(axes.columns, rank)}, copies;
  if (axes.sub >= 0) columns.push_back(shape.group(axes.sub, rank));
  if (axes.depth >= 0) copies.push_back(shape.group(axes.depth, rank));
  const ParameterLayout layout(name, {extent}, {}, columns, copies);
  return shape.index(axes.across, rank) == axes.root(shape, rank) ? layout : layout.absent();
}

}  // namespace thinwire
