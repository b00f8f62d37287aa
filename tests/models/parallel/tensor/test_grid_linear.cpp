// labels: mpi
// ranks: 4,8,12,27
// timeout: 240
// Linears of 2-D (SUMMA), 2.5-D and 3-D tensor parallelism on every grid of the ranks launched, unequal boxes included: they equal
// the serial linear in float64, send exactly what the formulas say, and hold exactly their share.
#include "models/layers/grid_linear.h"
#include "tests/models/parallel/tensor/grid_oracle.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr double tolerance = 1e-10;

struct Case {
  GridShape shape;
  bool swapped = false, transposed = false;
  GridOptions options;
  std::string name() const {
    return shape.describe() + (swapped ? " swapped" : "") + (transposed ? " transposed" : "") + ", gather " + name_of(options.gather) +
           (options.cut == WeightCut::columns ? ", weight cut by columns" : "");
  }
};

/// What the grids differ in: orientation, cut and policy matter in 3-D alone. Of flat boxes, which 4 and 8 ranks have, more ranks take
/// one.
std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const GridShape& shape : every_grid()) {
    const auto [x, y, z] = shape.sides;
    const bool flat = shape.kind == GridKind::three_d && (x == 1 || y == 1 || z == 1);
    if (world().size() > 8 && flat && shape.sides != std::array<int, 3>{1, 3, 9}) continue;
    for (const bool transposed : {false, true}) {
      Case plain{shape, false, transposed, {}};
      cases.push_back(plain);
      if (shape.kind != GridKind::three_d) continue;
      plain.swapped = true;
      cases.push_back(plain);
      plain.options.gather = GatherPolicy::keep;
      cases.push_back(plain);
      plain.options.gather = GatherPolicy::again_literally;
      cases.push_back(plain);
      if (transposed) continue;
      plain.options.cut = WeightCut::columns;
      for (const GatherPolicy policy : {GatherPolicy::again, GatherPolicy::keep}) {
        plain.options.gather = policy;
        plain.swapped = policy == GatherPolicy::keep;
        cases.push_back(plain);
      }
    }
  }
  return cases;
}

/// x W (or x E^T), its gradients for a given gradient of the output, all whole.
struct Serial {
  Whole x, w, dy, y, dx, dw;
  Serial(const GridTestSizes& n, bool transposed) {
    x = random_matrix("x", n.batch * n.seq, n.in);
    w = transposed ? random_matrix("e", n.out, n.in) : random_matrix("w", n.in, n.out);
    dy = random_matrix("dy", n.batch * n.seq, n.out);
    const Whole matrix = transposed ? testing::transposed(w) : w;
    y = product(x, matrix);
    dx = product(dy, testing::transposed(matrix));
    const Whole dmatrix = product(testing::transposed(x), dy);
    dw = transposed ? testing::transposed(dmatrix) : dmatrix;
  }
};

/// One product on a grid, run once forward and backward.
struct Measured {
  Case c;
  ParameterLayout weight;
  Layout input, output;
  std::vector<double> y, dx, dw;
  std::map<std::string, TensorGrid<double>::Count> forward, backward;
  std::int64_t kept_bytes = 0;  ///< memory alive between the passes, shards of x, w and y not counted

  Measured(const Case& which, const GridTestSizes& n, const Serial& s) : c(which) {
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    ProductSpec spec{"linear", 0, n.in, n.out, c.swapped, c.transposed};
    const auto product = make_product<double>(grid, spec);
    // The head's table is the weight of a linear the other way round.
    weight = c.transposed ? grid_linear(c.shape, "linear", n.out, n.in, grid.rank(), !c.swapped).weight
                          : grid_linear(c.shape, "linear", n.in, n.out, grid.rank(), c.swapped, c.options.cut).weight;
    input = grid_activation(c.shape, grid.rank(), c.swapped), output = grid_activation(c.shape, grid.rank(), !c.swapped);
    const std::vector<double> x = shard(s.x, input, n.seq), w = shard(s.w, weight), dy = shard(s.dy, output, n.seq);
    y.resize(dy.size()), dx.resize(x.size()), dw.assign(w.size(), 1.0);  // gradients are added to
    const PassContext pass = n.pass();
    typename GridProduct<double>::Kept kept;
    product->forward(pass, x.data(), w.data(), y.data(), &kept);
    kept_bytes = static_cast<std::int64_t>(kept.input.bytes() + kept.weight.bytes());
    forward = grid.counts();
    grid.reset_counts();
    product->backward(pass, x.data(), w.data(), dy.data(), dx.data(), dw.data(), &kept);
    backward = grid.counts();
    for (double& v : dw) v -= 1.0;
  }
};

std::int64_t received(const std::map<std::string, TensorGrid<double>::Count>& counts) {
  std::int64_t bytes = 0;
  for (const auto& [label, count] : counts) bytes += count.sum.received_bytes;
  return bytes / 8;  // elements of float64
}

const Serial& serial(bool transposed) {
  static const Serial plain(GridTestSizes(), false), head(GridTestSizes(), true);
  return transposed ? head : plain;
}

const std::vector<Measured>& every_run() {
  static const std::vector<Measured> runs = [] {
    std::vector<Measured> all;
    for (const Case& c : every_case()) all.emplace_back(c, GridTestSizes(), serial(c.transposed));
    return all;
  }();
  return runs;
}

TEST(GridLinear, EqualsTheSerialProductAndItsGradientsInDoublePrecision) {
  const GridTestSizes n;
  for (const Measured& run : every_run()) {
    const Case& c = run.c;
    const Serial& s = serial(c.transposed);
    EXPECT_LT(distance(run.y.data(), shard(s.y, run.output, n.seq)), tolerance) << "output, " << c.name();
    EXPECT_LT(distance(run.dx.data(), shard(s.dx, run.input, n.seq)), tolerance) << "input gradient, " << c.name();
    EXPECT_LT(distance(run.dw.data(), shard(s.dw, run.weight)), tolerance) << "weight gradient, " << c.name();
  }
}

/// Elements received per rank, docs/tensor-parallel.md ("Bytes of a linear").
struct Formula {
  std::int64_t forward, backward;
};
Formula formula(const Case& c, const GridTestSizes& n) {
  const std::int64_t m = n.batch * n.seq, sx = m * n.in, sw = n.in * n.out, sy = m * n.out;
  const auto [a, b, d] = c.shape.sides;
  if (c.shape.kind != GridKind::three_d) {
    const std::int64_t q = a, sq = q * q, input = (q - 1) * sx / (sq * d), weight = (q - 1) * sw / sq, output = (q - 1) * sy / (sq * d);
    const std::int64_t depth = 2 * (d - 1) * sw / (sq * d);
    // The head is A B^T forward; its gradients are A B and A^T B.
    if (c.transposed) return {weight + output, (output + weight) + (output + weight) + depth};
    return {input + weight, 2 * (input + weight) + depth};
  }
  const std::int64_t p = c.shape.ranks(), y = c.swapped ? d : b, z = c.swapped ? b : d;
  const std::int64_t input = (y - 1) * sx / p, weight = (a - 1) * sw / p, output = (z - 1) * sy / p, once = input + weight + output;
  switch (c.options.gather) {
    case GatherPolicy::keep: return {once, once};
    // The input's shard is gathered and its gradient scattered, so is the weight's; the output's gradient is gathered once.
    case GatherPolicy::again: return {once, 2 * input + 2 * weight + output};
    case GatherPolicy::again_literally: return {once, 2 * once};
  }
  return {};
}

TEST(GridLinear, SendsExactlyWhatTheFormulaSaysOnEveryRank) {
  const GridTestSizes n;
  for (const Measured& run : every_run()) {
    const Case& c = run.c;
    const Formula expected = formula(c, n);
    EXPECT_EQ(received(run.forward), expected.forward) << "forward, " << c.name();
    EXPECT_EQ(received(run.backward), expected.backward) << "backward, " << c.name();
  }
}

TEST(GridLinear, HoldsItsShareOfEveryTensorAndNothingThatItGathered) {
  const GridTestSizes n;
  const std::int64_t m = n.batch * n.seq;
  for (const Measured& run : every_run()) {
    const Case& c = run.c;
    if (c.transposed) continue;
    const std::int64_t p = c.shape.ranks(), copies = c.shape.kind == GridKind::two_and_half_d ? c.shape.sides[2] : 1;
    EXPECT_EQ(static_cast<std::int64_t>(run.dx.size()), m * n.in / p) << c.name();
    EXPECT_EQ(static_cast<std::int64_t>(run.y.size()), m * n.out / p) << c.name();
    EXPECT_EQ(run.weight.local().elements(), n.in * n.out * copies / p) << c.name();
    std::int64_t expected = 0;
    if (c.shape.kind == GridKind::three_d && c.options.gather == GatherPolicy::keep) {
      const auto [x, y, z] = c.shape.sides;
      const std::int64_t in = c.swapped ? z : y, out = c.swapped ? y : z;
      expected = 8 * ((in > 1 ? m * n.in / (x * out) : 0) + (x > 1 ? n.in * n.out / (in * out) : 0));
    }
    EXPECT_EQ(run.kept_bytes, expected) << c.name();
  }
}

// The known counts of a two-layer perceptron, h -> 4h -> h, gathered tensors kept (derived in simulation, elements per rank).
TEST(GridLinear, AnMlpOnACubeReceivesTheKnownNumberOfElements) {
  const int q = world().size() == 8 ? 2 : world().size() == 27 ? 3 : 0;
  if (q == 0) GTEST_SKIP() << "needs 8 or 27 ranks";
  const std::int64_t h = q == 2 ? 8 : 18, rows = q == 2 ? 16 : 36, known = q == 2 ? 448 : 1344;
  ComputeClock clock;
  GridOptions options;
  options.gather = GatherPolicy::keep;
  TensorGrid<double> grid(world(), {GridKind::three_d, {q, q, q}}, options, clock);
  const auto expand = make_product<double>(grid, {"expand", 0, h, 4 * h, false, false});
  const auto project = make_product<double>(grid, {"project", 0, 4 * h, h, true, false});
  const std::size_t narrow = static_cast<std::size_t>(rows * h / (q * q * q)), weight = static_cast<std::size_t>(4 * h * h / (q * q * q));
  std::vector<double> x(narrow, 1), wide(4 * narrow), y(narrow), w1(weight, 1), w2(weight, 1), dwide(4 * narrow), dx(narrow), dw(weight);
  typename GridProduct<double>::Kept kept1, kept2;
  const PassContext pass{rows, 1};
  expand->forward(pass, x.data(), w1.data(), wide.data(), &kept1);
  project->forward(pass, wide.data(), w2.data(), y.data(), &kept2);
  project->backward(pass, wide.data(), w2.data(), y.data(), dwide.data(), dw.data(), &kept2);
  expand->backward(pass, x.data(), w1.data(), dwide.data(), dx.data(), dw.data(), &kept1);
  EXPECT_EQ(received(grid.counts()), known);
}

TEST(GridLinear, ConsecutiveLinearsNeedNoOtherLayoutAndNoOtherMessages) {
  const GridTestSizes n;
  const PassContext pass = n.pass();
  for (const GridShape& shape : every_grid()) {
    if (shape.kind == GridKind::three_d && world().size() > 4 && !is_cube(shape) && shape.sides != std::array<int, 3>{2, 2, 3}) continue;
    for (int length = 1; length <= 4; ++length) {
      ComputeClock clock;
      TensorGrid<double> grid(world(), shape, {}, clock);
      Whole reference = random_matrix("chain", n.batch * n.seq, n.in);
      std::vector<double> x = shard(reference, grid_activation(shape, grid.rank()), n.seq);
      for (int i = 0; i < length; ++i) {
        const bool swapped = i % 2 == 1;
        const Whole w = random_matrix("chain weight" + std::to_string(i), n.in, n.in);
        const auto product = make_product<double>(grid, {"linear" + std::to_string(i), i, n.in, n.in, swapped, false});
        const std::vector<double> mine = shard(w, grid_linear(shape, "w", n.in, n.in, grid.rank(), swapped).weight);
        std::vector<double> y(x.size());
        product->forward(pass, x.data(), mine.data(), y.data(), nullptr);
        std::swap(x, y);
        reference = testing::product(reference, w);
      }
      const Layout end = grid_activation(shape, grid.rank(), length % 2 == 1);
      EXPECT_LT(distance(x.data(), shard(reference, end, n.seq)), tolerance) << shape.describe() << ", " << length << " linears";
      for (const auto& [label, count] : grid.counts())
        EXPECT_TRUE(label == "all_gather input" || label == "all_gather weight" || label == "reduce_scatter output" ||
                    label == "broadcast input" || label == "broadcast weight")
            << label;
    }
  }
}

TEST(GridLinear, ItsBiasLiesOnceOnTheGridAndActsOnEveryRow) {
  const GridTestSizes n;
  const PassContext pass = n.pass();
  for (const Case& c : every_case()) {
    if (c.transposed || c.options.gather != GatherPolicy::again || c.options.cut != WeightCut::rows) continue;
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    GridVector<double> bias(grid, "bias", 0, n.out, c.swapped);
    const Whole b = random_matrix("bias", 1, n.out), dy = random_matrix("dy", n.batch * n.seq, n.out);
    set(bias.parameter, b);
    std::vector<double> whole(static_cast<std::size_t>(bias.columns()));
    bias.gather(pass, whole.data());
    const Layout output = grid_activation(c.shape, grid.rank(), !c.swapped);
    EXPECT_EQ(distance(whole.data(), shard(b, Layout{{}, {}, output.hidden}, 1)), 0.0) << c.name();
    std::int64_t forward = received(grid.counts());
    grid.reset_counts();
    // A gradient is the sum over the rows of all ranks.
    const std::vector<double> mine = shard(dy, output, n.seq);
    std::vector<double> sums(whole.size(), 0.0);
    for (std::size_t i = 0; i < mine.size(); ++i) sums[i % sums.size()] += mine[i];
    bias.scatter_gradient(pass, sums.data());
    EXPECT_LT(distance(bias.parameter.g(), shard(column_sums(dy), bias.parameter.layout)), tolerance) << c.name();
    const std::int64_t copies = c.shape.kind == GridKind::two_and_half_d ? c.shape.sides[2] : 1;
    EXPECT_EQ(over_ranks(bias.parameter.elements(), ReduceOp::sum), n.out * copies) << c.name();
    if (is_cube(c.shape)) {  // received over all ranks: the average of the formula, times the ranks
      const std::int64_t q = c.shape.sides[0], total = q * q * q * (q - 1) * n.out / (q * q) + q * q * (q - 1) * n.out / (q * q);
      EXPECT_EQ(over_ranks(forward, ReduceOp::sum), total) << c.name();
      EXPECT_EQ(over_ranks(received(grid.counts()), ReduceOp::sum), total) << c.name();
    }
  }
}

TEST(GridLinear, ALinearWithBiasEqualsTheSerialOne) {
  const GridTestSizes n;
  const Serial& s = serial(false);
  for (const Case& c : every_case()) {
    if (c.transposed || c.options.gather != GatherPolicy::again || c.options.cut != WeightCut::rows) continue;
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    GridLinear<double> linear(grid, {"linear", 0, n.in, n.out, c.swapped, false}, 1, 0.02);
    set(linear.weight, s.w);
    const Whole b = random_matrix("bias", 1, n.out);
    set(linear.bias.parameter, b);
    Whole y = s.y;
    for (std::int64_t r = 0; r < y.rows; ++r)
      for (std::int64_t k = 0; k < y.columns; ++k) y.at(r, k) += b.at(0, k);
    const Layout in = grid_activation(c.shape, grid.rank(), c.swapped), out = grid_activation(c.shape, grid.rank(), !c.swapped);
    const std::vector<double> x = shard(s.x, in, n.seq), dy = shard(s.dy, out, n.seq);
    std::vector<double> mine(dy.size()), dx(x.size());
    GridLinear<double>::Kept kept;
    linear.forward(n.pass(), x.data(), mine.data(), &kept);
    linear.backward(n.pass(), x.data(), dy.data(), dx.data(), &kept);
    EXPECT_LT(distance(mine.data(), shard(y, out, n.seq)), tolerance) << c.name();
    EXPECT_LT(distance(dx.data(), shard(s.dx, in, n.seq)), tolerance) << c.name();
    EXPECT_LT(distance(linear.weight.g(), shard(s.dw, linear.weight.layout)), tolerance) << c.name();
    EXPECT_LT(distance(linear.bias.parameter.g(), shard(column_sums(s.dy), linear.bias.parameter.layout)), tolerance) << c.name();
  }
}

}  // namespace
}  // namespace thinwire
