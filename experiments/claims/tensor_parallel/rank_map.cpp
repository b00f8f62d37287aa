// tensor_parallel.M2, a check of ours: by the layouts alone, shards tile their tensors, every rank of a box holds as much, and each piece of a
// vector has one holder. The figure of the cube is drawn from its tables.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "experiments/claims/context.h"
#include "models/layout/grid_sharding.h"

namespace thinwire::claims {
namespace {

constexpr std::int64_t batch = 144, in = 144, out = 288;  // divided by all boxes below; a sequence is one row

/// How many ranks hold each element of a matrix: 1 everywhere for a tiling.
class Cover {
 public:
  Cover(std::int64_t rows, std::int64_t columns) : columns_(columns), held_(static_cast<std::size_t>(rows * columns), 0) {}
  void add(const AxisRange& rows, const AxisRange& columns) {
    for (std::int64_t r = rows.begin; r < rows.begin + rows.count; ++r)
      for (std::int64_t c = columns.begin; c < columns.begin + columns.count; ++c) ++held_[static_cast<std::size_t>(r * columns_ + c)];
  }
  bool tiles() const {
    return std::all_of(held_.begin(), held_.end(), [](int n) { return n == 1; });
  }

 private:
  std::int64_t columns_;
  std::vector<int> held_;
};

struct Tally {
  std::int64_t least = -1, most = 0;
  void add(std::int64_t n) { least = least < 0 ? n : std::min(least, n), most = std::max(most, n); }
};

/// One box and orientation. `table`: where the rank map goes, null for none.
bool holds(const GridShape& shape, bool swapped, WeightCut cut, Table* table, std::int64_t& spread) {
  Cover x(batch, in), w(in, out), y(batch, out), bias(1, out);
  Tally of[3];
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const LinearLayouts l = grid_linear(shape, "linear", in, out, rank, swapped, cut);
    const AxisRange x_rows = split_axis("rows", batch, l.input.batch), x_columns = split_axis("columns", in, l.input.hidden),
                    y_rows = split_axis("rows", batch, l.output.batch), y_columns = split_axis("columns", out, l.output.hidden);
    x.add(x_rows, x_columns), y.add(y_rows, y_columns), w.add(l.weight.rows(), l.weight.columns());
    const bool has_bias = l.bias.local().elements() > 0;
    if (has_bias) bias.add({0, 1}, l.bias.columns());
    const std::int64_t elements[3] = {x_rows.count * x_columns.count, l.weight.rows().count * l.weight.columns().count, y_rows.count * y_columns.count};
    for (int k = 0; k < 3; ++k) of[k].add(elements[k]);
    if (!table) continue;
    const int i = shape.index(0, rank), j = shape.index(1, rank), k = shape.index(2, rank);
    const auto face = [&](int index, std::int64_t whole, int sides) { return index == 0 ? static_cast<double>(whole / sides) : 0.0; };
    table->rows.push_back({"rank " + std::to_string(rank),
                           {static_cast<double>(i), static_cast<double>(j), static_cast<double>(k), static_cast<double>(elements[0]), static_cast<double>(elements[1]),
                            static_cast<double>(elements[2]), has_bias ? static_cast<double>(l.bias.columns().count) : 0.0,
                            has_bias ? static_cast<double>(l.bias.columns().begin) : no_number, face(j, batch * in, shape.sides[0] * shape.sides[2]),
                            face(i, in * out, shape.sides[1] * shape.sides[2]), face(k, batch * out, shape.sides[0] * shape.sides[1])}});
  }
  for (const Tally& t : of) spread = std::max(spread, t.most - t.least);
  return x.tiles() && w.tiles() && y.tiles() && bias.tiles();
}

Finding measure(JudgeContext&) {
  Finding found;
  int untiled = 0;
  std::int64_t spread = 0;
  int boxes = 0;
  for (const GridShape& shape : {GridShape{GridKind::three_d, {2, 2, 2}}, GridShape{GridKind::three_d, {3, 3, 3}}, GridShape{GridKind::three_d, {4, 4, 4}},
                                 GridShape{GridKind::three_d, {2, 3, 4}}, GridShape{GridKind::three_d, {4, 1, 2}}})
    for (const bool swapped : {false, true})
      for (const WeightCut cut : {WeightCut::rows, WeightCut::columns}) {
        const bool drawn = !swapped && cut == WeightCut::rows && shape.sides[0] == shape.sides[1] && shape.sides[1] == shape.sides[2] && shape.sides[0] < 4;
        Table table{"rank map of " + shape.describe(),
                    {"i", "j", "l", "X elements", "W elements", "Y elements", "bias elements", "first element of bias", "X elements, classical", "W elements, classical", "Y elements, classical"},
                    {}};
        untiled += !holds(shape, swapped, cut, drawn ? &table : nullptr, spread);
        if (drawn) found.tables.push_back(std::move(table));
        ++boxes;
      }
  found.measures = {{"most - least elements of X, W or Y over ranks", static_cast<double>(spread), no_number, no_number, 0, "elements", "spread"}, {"layouts that do not tile", static_cast<double>(untiled), no_number, no_number, 0, "", "untiled"}};
  char text[200];
  std::snprintf(text, sizeof text, "%d layouts (cubes of 2, 3, 4, boxes 2x3x4 and 4x1x2, both orientations, both cuts): %s, most - least %lld elements", boxes,
                untiled == 0 ? "X, W, Y and the bias are tiled, each element on one rank" : "an element lies on no rank or on several", static_cast<long long>(spread));
  found.note = text;
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.M2",
                                        .statement = "The layouts of a 3-D linear tile X, W, Y and the bias, and every rank holds as much.",
                                        .provenance = "derived: a check of ours, no claim of a paper (C1 measures what is stored)",
                                        .basis = Basis::exact,
                                        .rule = {.settings = {{"layouts", "cubes of 2, 3, 4, boxes 2x3x4 and 4x1x2, both orientations, both cuts"}},
                                                 .quantities = {{"untiled", "layouts in which an element of X, W, Y or the bias lies on no rank or on several"},
                                                                {"spread", "most - least elements of X, W or Y over ranks, the largest of all layouts"}},
                                                 .clauses = {{Verdict::pass, "untiled == 0 && spread == 0"}},
                                                 .otherwise = Verdict::fail},
                                        .measure = measure,
                                        .figure = "tensor_parallel_cube"});

}  // namespace
}  // namespace thinwire::claims
