// Chains of linears, and 2.5-D's sum over the depth.
#include "bench/tensor_parallel/grid_checks.h"
#include "models/parallel/tensor/grid_reference.h"
#include "models/layers/grid_product.h"

namespace thinwire::bench {
namespace {

using reference::shard;
using reference::Whole;

}  // namespace

void check_chains(const CountedWorld& world, const GridShape& shape, CheckRows& rows) {
  const GridCheckSizes n(shape);
  const PassContext pass{n.batch, n.seq};
  for (const GridCheckCase& c : grid_check_cases(shape)) {
    if (c.swapped || c.options.cut != WeightCut::rows) continue;
    rows.describe(c.name(), n);
    for (int length = 1; length <= 4; ++length) {
      ComputeClock clock;
      TensorGrid<double> grid(world.comm, shape, c.options, clock);
      const auto layout = [&](int linears) { return grid_activation(shape, grid.rank(), linears % 2 == 1); };
      std::vector<Whole> x = {reference::random_matrix(world.seed, "chain", n.rows(), n.in)}, w;
      std::vector<std::unique_ptr<GridProduct<double>>> products;
      std::vector<GridProduct<double>::Kept> kept(static_cast<std::size_t>(length));
      std::vector<std::vector<double>> mine = {shard(x[0], layout(0), n.seq)}, weights, dw;
      std::vector<ParameterLayout> layouts;
      for (int i = 0; i < length; ++i) {
        w.push_back(reference::random_matrix(world.seed, "chain weight" + std::to_string(i), n.in, n.in));
        x.push_back(reference::product(x.back(), w.back()));
        products.push_back(make_product<double>(grid, {"linear" + std::to_string(i), i, n.in, n.in, i % 2 == 1, false}));
        layouts.push_back(grid_linear(shape, "linear", n.in, n.in, grid.rank(), i % 2 == 1).weight);
        weights.push_back(shard(w.back(), layouts.back()));
        dw.emplace_back(weights.back().size());
        mine.emplace_back(mine.back().size());
      }
      Whole d = reference::random_matrix(world.seed, "chain gradient", n.rows(), n.in);
      std::vector<double> gradient = shard(d, layout(length), n.seq), next(gradient.size());
      const std::int64_t all = world.received_in([&] {
        for (std::size_t i = 0; i < products.size(); ++i) products[i]->forward(pass, mine[i].data(), weights[i].data(), mine[i + 1].data(), &kept[i]);
        for (std::size_t i = products.size(); i-- > 0;) {
          products[i]->backward(pass, mine[i].data(), weights[i].data(), gradient.data(), next.data(), dw[i].data(), &kept[i]);
          std::swap(gradient, next);
        }
      });
      double worst = 0;
      for (std::size_t i = w.size(); i-- > 0;) {
        worst = std::max(worst, reference::distance(world.comm, dw[i].data(), shard(reference::product(reference::transposed(x[i]), d), layouts[i])));
        d = reference::product(d, reference::transposed(w[i]));
      }
      const std::string tensor = "chain of " + std::to_string(length);
      rows.received(tensor, "forward and backward", all);
      rows.error(tensor, "output, layout of " + std::string(length % 2 == 0 ? "the input" : "the swapped input"),
                 reference::distance(world.comm, mine.back().data(), shard(x.back(), layout(length), n.seq)));
      rows.error(tensor, "output, the other layout", reference::distance(world.comm, mine.back().data(), shard(x.back(), layout(length + 1), n.seq)));
      rows.error(tensor, "input gradient", reference::distance(world.comm, gradient.data(), shard(d, layout(0), n.seq)));
      rows.error(tensor, "weight gradients", worst);
    }
  }
}

void check_depth_sum(const CountedWorld& world, const GridShape& shape, CheckRows& rows) {
  const GridCheckSizes n(shape);
  const int q = shape.sides[0], layer = world.comm.rank() / (q * q);
  const Whole x = reference::random_matrix(world.seed, "x", n.rows(), n.in), w = reference::random_matrix(world.seed, "w", n.in, n.out),
              dy = reference::random_matrix(world.seed, "dy", n.rows(), n.out), dw = reference::product(reference::transposed(x), dy);
  const auto alone = world.comm.split(layer, world.comm.rank());
  // The whole grid, and each of its layers as a 2-D grid over its own share of the batch: the released code's 2.5-D.
  const auto run = [&](Communicator& comm, const GridShape& of, const std::string& operation) {
    ComputeClock clock;
    TensorGrid<double> grid(comm, of, {}, clock);
    const auto product = make_product<double>(grid, {"linear", 0, n.in, n.out, false, false});
    const Layout layout = grid_activation(shape, world.comm.rank());
    const ParameterLayout weight = grid_linear(shape, "linear", n.in, n.out, world.comm.rank(), false).weight;
    const std::vector<double> my_x = shard(x, layout, n.seq), my_w = shard(w, weight), my_dy = shard(dy, layout, n.seq);
    std::vector<double> y(my_dy.size()), dx(my_x.size()), mine(my_w.size());
    const PassContext pass{of.kind == GridKind::two_d ? n.batch / shape.sides[2] : n.batch, n.seq};
    const std::int64_t bytes = world.received_in([&] {
      product->forward(pass, my_x.data(), my_w.data(), y.data(), nullptr);
      product->backward(pass, my_x.data(), my_w.data(), my_dy.data(), dx.data(), mine.data(), nullptr);
    });
    rows.error("linear", "weight gradient " + operation, reference::distance(world.comm, mine.data(), shard(dw, weight)));
    rows.received("linear", "forward and backward " + operation, bytes);
  };
  rows.describe(shape.describe(), n);
  run(world.comm, shape, "with the sum over the depth");
  run(*alone, {GridKind::two_d, {q, q, 1}}, "without it");
}

}  // namespace thinwire::bench
