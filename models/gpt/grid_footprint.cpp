#include "models/gpt/grid_footprint.h"

#include <array>
#include <initializer_list>
#include <vector>

namespace thinwire {
namespace {

using Lent = Footprint::Lent;

/// Blocks of operands arrive one ahead of the product; of partial sums two are under way.
void summa(Footprint& f, std::initializer_list<std::int64_t> operands, std::int64_t partial) {
  const int q = f.size(along_row);
  if (q == 1) return;
  const auto post = [&] {
    std::vector<Lent> blocks;
    for (const std::int64_t elements : operands) blocks.emplace_back(f, elements);
    return blocks;
  };
  std::vector<Lent> next = post();
  std::array<Lent, 2> sums;
  for (int t = 0; t < q; ++t) {
    if (t < 2) sums[static_cast<std::size_t>(t)] = Lent(f, partial);
    const std::vector<Lent> here = std::exchange(next, {});
    if (t + 1 < q) next = post();
  }
}

}  // namespace

void forward_3d(Footprint& f, const ProductSizes& p) {
  const int input = p.swapped ? output_axis : input_axis, output = p.swapped ? input_axis : output_axis;
  const Lent x(f, f.over(input, p.rows * p.in)), w(f, f.over(weight_axis, p.in * p.out)), partial(f, f.over(output, p.rows * p.out));
  f.all_gather(GridUse::activation, input, p.rows * p.in);
  f.all_gather(GridUse::weight, weight_axis, p.in * p.out);
  f.reduce_scatter(GridUse::activation, output, p.rows * p.out);
}

void backward_3d(Footprint& f, const ProductSizes& p) {
  const int input = p.swapped ? output_axis : input_axis, output = p.swapped ? input_axis : output_axis;
  const Lent dy(f, f.over(output, p.rows * p.out));
  Lent w(f, f.over(weight_axis, p.in * p.out));
  const Lent x(f, f.over(input, p.rows * p.in)), partial(f, f.over(input, p.rows * p.in));
  f.all_gather(GridUse::gradient, output, p.rows * p.out);
  f.all_gather(GridUse::weight, weight_axis, p.in * p.out);
  f.all_gather(GridUse::activation, input, p.rows * p.in);
  f.reduce_scatter(GridUse::gradient, input, p.rows * p.in);
  w.release();
  const Lent dw(f, f.over(weight_axis, p.in * p.out)), shard(f, f.over(weight_axis, p.in * p.out / f.size(weight_axis)));
  f.reduce_scatter(GridUse::weight_gradient, weight_axis, p.in * p.out);
}

void forward_2d(Footprint& f, const ProductSizes& p) {
  const std::int64_t x = p.rows * p.in, w = p.in * p.out, y = p.rows * p.out;
  f.broadcast(GridUse::weight, down_column, w);
  if (p.transposed) {
    f.reduce(GridUse::activation, along_row, y);
    summa(f, {w}, y);
  } else {
    f.broadcast(GridUse::activation, along_row, x);
    summa(f, {x, w}, 0);
  }
}

void backward_2d(Footprint& f, const ProductSizes& p) {
  const std::int64_t x = p.rows * p.in, w = p.in * p.out, y = p.rows * p.out;
  f.broadcast(GridUse::weight, down_column, w);
  f.reduce(GridUse::weight_gradient, down_column, w);
  f.all_reduce(GridUse::weight_gradient, over_depth, w);
  f.broadcast(p.transposed ? GridUse::gradient : GridUse::activation, along_row, p.transposed ? y : x);
  if (!p.transposed) f.reduce(GridUse::gradient, along_row, x);
  const Lent mine(f, w);
  summa(f, {p.transposed ? y : x}, w);
  if (p.transposed)
    summa(f, {y, w}, 0);
  else
    summa(f, {w}, x);
}

}  // namespace thinwire
