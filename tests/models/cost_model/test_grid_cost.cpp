// labels: unit
// Cost of tensor-parallel layers against the derived numbers and the counted volumes of
// docs/papers/tensor_parallel.md, "Cost" and "Worked examples".
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "models/cost_model/grid_cost.h"

namespace thinwire {
namespace {

constexpr double seq = 512, hidden = 8192;

GridCostOptions options(GatherPolicy gather, BroadcastForm form = BroadcastForm::pipelined) {
  GridCostOptions o;
  o.gather = gather, o.broadcast = form;
  return o;
}
const GridCostOptions keep = options(GatherPolicy::keep), again = options(GatherPolicy::again), literal = options(GatherPolicy::again_literally),
                      tree = options(GatherPolicy::again, BroadcastForm::tree), chain = options(GatherPolicy::again, BroadcastForm::chain);

const GridShape line = grid_of(GridKind::one_d, 64), square = grid_of(GridKind::two_d, 64), cube = grid_of(GridKind::three_d, 64);

/// Million elements per sequence and layer on the critical path, two decimals as docs/tensor-parallel.md prints them.
double millions(const GridShape& shape, double batch, const GridCostOptions& o, bool recompute) {
  return layer_cost(shape, {batch, seq, hidden, 128}, o).step(recompute).time_elements / batch * 1e-6;
}

TEST(GridCost, OfALayerOn64RanksIsTheDerivedTable) {
  struct Row {
    double b_line, b_grid;
    bool recompute;
    double line, square, square_tree, keep, again;
  };
  for (const Row& r : {Row{30, 384, false, 33.03, 10.32, 35.39, 6.49, 9.73}, Row{30, 384, true, 49.55, 13.76, 47.19, 9.73, 12.98},
                       Row{32, 32, false, 33.03, 17.89, 61.34, 8.65, 12.98}, Row{32, 32, true, 49.55, 23.86, 81.79, 12.98, 17.30}}) {
    EXPECT_NEAR(millions(line, r.b_line, {}, r.recompute), r.line, 0.00501);
    EXPECT_NEAR(millions(square, r.b_grid, {}, r.recompute), r.square, 0.00501);
    EXPECT_NEAR(millions(square, r.b_grid, tree, r.recompute), r.square_tree, 0.00501);
    EXPECT_NEAR(millions(cube, r.b_grid, keep, r.recompute), r.keep, 0.00501);
    EXPECT_NEAR(millions(cube, r.b_grid, literal, r.recompute), r.again, 0.00501);
    // Gathering dY once lies between.
    EXPECT_GT(millions(cube, r.b_grid, again, r.recompute), millions(cube, r.b_grid, keep, r.recompute));
    EXPECT_LT(millions(cube, r.b_grid, again, r.recompute), millions(cube, r.b_grid, literal, r.recompute));
  }
}

TEST(GridCost, OfTwoLinearsInACubeIsTheCountedVolume) {
  for (const auto& [q, rows, h, volume] : {std::tuple{2, 16, 8, 448}, {3, 36, 18, 1344}}) {
    const LayerShape mlp{static_cast<double>(rows), 1, static_cast<double>(h), 1};
    EXPECT_DOUBLE_EQ(mlp_cost({GridKind::three_d, {q, q, q}}, mlp, keep).step().elements, volume);
  }
}

TEST(GridCost, CrossesThatOf1DAtTheDerivedBatches) {
  EXPECT_NEAR(crossover_batch(square, seq, hidden, {}), 11.3, 0.05);
  EXPECT_NEAR(crossover_batch(cube, seq, hidden, keep), 2.8, 0.05);
  EXPECT_NEAR(crossover_batch(cube, seq, hidden, literal), 4.8, 0.05);
  // At the crossing both are equal.
  const double batch = crossover_batch(square, seq, hidden, {}, true);
  EXPECT_NEAR(millions(square, batch, {}, true), millions(line, batch, {}, true), 1e-9);
  EXPECT_TRUE(std::isinf(crossover_batch(grid_of(GridKind::two_d, 4), seq, hidden, tree))) << "two broadcasts of halves are no cheaper than a sum";
  EXPECT_EQ(crossover_batch(line, seq, hidden, {}), 0);
}

// "Cost" derives: re-gather by 6 % only at b = 384 and 2 % in the limit.
TEST(GridCost, In3DIsBelow2DAtEveryBatch) {
  for (const double batch : {1.0, 8.0, 30.0, 384.0, 1e6})
    for (const GridCostOptions& o : {keep, again, literal}) EXPECT_LT(millions(cube, batch, o, false), millions(square, batch, {}, false)) << batch;
  EXPECT_NEAR(millions(cube, 384, literal, false) / millions(square, 384, {}, false), 0.94, 0.005);
  EXPECT_NEAR(millions(cube, 1e9, literal, false) / millions(square, 1e9, {}, false), 0.98, 0.005);
  EXPECT_NEAR(millions(cube, 384, keep, false) / millions(square, 384, {}, false), 0.63, 0.005);
}

// "Cost", unequal sides as the MindSpore documentation has them: 2[b s e (x-1) + b s h (y-1) + h e (z-1)] / (xyz) for a pair whose
// first matrix product is counted.
TEST(GridCost, OfABoxFollowsItsSides) {
  const double rows = 24, in = 30, out = 60;
  const GridShape box{GridKind::three_d, {2, 3, 5}};
  const auto forward = [&](const GridShape& s, bool second) { return linear_cost(s, rows, in, out, second, keep).forward.elements; };
  EXPECT_DOUBLE_EQ(forward(box, false), (2 * rows * in + 1 * in * out + 4 * rows * out) / 30);
  EXPECT_DOUBLE_EQ(forward(box, true), (4 * rows * in + 1 * in * out + 2 * rows * out) / 30);
  EXPECT_DOUBLE_EQ(linear_cost(box, rows, in, out, false, again).backward.elements, (2 * 2 * rows * in + 1 * 2 * in * out + 4 * rows * out) / 30);
  EXPECT_DOUBLE_EQ(linear_cost(box, rows, in, out, false, literal).backward.elements, 2 * forward(box, false));
}

TEST(GridCost, OfALinearIsThatOfTheTable) {
  const double rows = 48, in = 16, out = 64, sx = rows * in, sw = in * out, sy = rows * out;
  const GridShape tesseract{GridKind::two_and_half_d, {4, 4, 2}};
  const GridCost c = linear_cost(tesseract, rows, in, out, false);
  EXPECT_DOUBLE_EQ(c.forward.elements, 3.0 / 16 * (sx / 2 + sw));
  EXPECT_DOUBLE_EQ(c.backward.elements, 2 * c.forward.elements + sw / 16);
  EXPECT_DOUBLE_EQ(head_cost(tesseract, rows, in, out).forward.elements, 3.0 / 16 * (sy / 2 + sw));
  const GridShape four{GridKind::one_d, {4, 1, 1}};
  EXPECT_DOUBLE_EQ(linear_cost(four, rows, in, out, false).step().elements, 2 * 0.75 * sx);
  EXPECT_DOUBLE_EQ(linear_cost(four, rows, in, out, true).step().elements, 2 * 0.75 * sy);
  // Posted ahead, chains of two or three ranks gain nothing; of more, three blocks are under way at once.
  const GridCostOptions ahead = options(GatherPolicy::again, BroadcastForm::chain_ahead);
  for (const int q : {2, 3, 4, 8}) {
    const GridShape summa{GridKind::two_d, {q, q, 1}};
    EXPECT_DOUBLE_EQ(linear_cost(summa, rows, in, out, false, ahead).step().time_elements,
                     std::min(1.0, 3.0 / q) * linear_cost(summa, rows, in, out, false, chain).step().time_elements)
        << q;
  }
  // The documented 2-D time, 3 (q-1)/q (S_X + S_W) forward and backward, is that of whole blocks along a chain.
  EXPECT_DOUBLE_EQ(linear_cost({GridKind::two_d, {4, 4, 1}}, rows, in, out, false, chain).step().time_elements, 3 * 0.75 * (sx + sw));
  EXPECT_DOUBLE_EQ(linear_cost({GridKind::two_d, {4, 4, 1}}, rows, in, out, false, tree).step().time_elements, 3 * 2.0 / 4 * (sx + sw));
  EXPECT_DOUBLE_EQ(linear_cost({GridKind::two_d, {4, 4, 1}}, rows, in, out, false, tree).step().elements, 3 * 3.0 / 16 * (sx + sw));
}

// "Cost": bias diagonal (q-1)/q N/q^2 + (q-1) N/q^2 each way; layernorm 2(q-1)/q 2M/q^2; embedding (q-1)(Vh+Mh)/q^3; head
// (q-1)(Mh+Vh+MV)/q^3.
TEST(GridCost, OfVectorsEmbeddingHeadAndLossInACubeAreTheDerivedOnes) {
  for (const int side : {2, 3, 4}) {
    const GridShape grid{GridKind::three_d, {side, side, side}};
    const double q = side, n = 144, rows = 288, v = 432;
    const double vector = (q - 1) / q * n / (q * q) + (q - 1) * n / (q * q);
    EXPECT_DOUBLE_EQ(vector_cost(grid, n, false).forward.elements, vector);
    EXPECT_DOUBLE_EQ(vector_cost(grid, n, true).backward.elements, vector);
    EXPECT_DOUBLE_EQ(layernorm_cost(grid, rows, n).forward.elements, 2 * (q - 1) / q * 2 * rows / (q * q) + 2 * vector);
    EXPECT_NEAR(embedding_cost(grid, rows, n, v).backward.elements, (q - 1) * (v * n + rows * n) / (q * q * q), 1e-9);
    EXPECT_NEAR(head_cost(grid, rows, n, v, keep).step().elements, 2 * (q - 1) * (rows * n + v * n + rows * v) / (q * q * q), 1e-9);
    EXPECT_NEAR(loss_cost(grid, rows).step().elements, 2 * (q - 1) / q * 3 * rows / (q * q), 1e-9);
  }
}

TEST(GridCost, AloneMovesNothingAndComputesAll) {
  for (const GridKind kind : {GridKind::one_d, GridKind::two_d, GridKind::three_d}) {
    GridCostOptions all = again;
    all.vectors = true;
    const GridCost c = layer_cost(grid_of(kind, 1), {2, 32, 16, 4}, all);
    EXPECT_EQ(c.step().elements, 0);
    EXPECT_EQ(c.step().messages, 0);
    EXPECT_DOUBLE_EQ(c.forward.flops, 24.0 * 2 * 32 * 16 * 16 + 4.0 * 2 * 32 * 32 * 16);
    EXPECT_DOUBLE_EQ(c.step(true).flops, 4 * c.forward.flops);
  }
}

// "Cost": weights 12 h^2/p; inputs of linears 7bsh/q^2 (2-D), 7bsh/(d q^2), 7bsh/q^3, 7bsh/q^2 when kept; 1-D 2bsh + 5bsh/p.
TEST(GridMemory, IsThatOfTheTable) {
  const LayerShape l{8, 16, 48, 4};
  const double sx = 8 * 16 * 48, h2 = 48 * 48;
  const LayerMemory one = layer_memory(grid_of(GridKind::one_d, 64), l), two = layer_memory(square, l), three = layer_memory(cube, l),
                    kept = layer_memory(cube, l, GatherPolicy::keep), deep = layer_memory({GridKind::two_and_half_d, {4, 4, 4}}, l);
  EXPECT_DOUBLE_EQ(one.linear_inputs, 2 * sx + 5 * sx / 64);
  EXPECT_DOUBLE_EQ(one.input, sx);
  EXPECT_DOUBLE_EQ(two.linear_inputs, 7 * sx / 64);
  EXPECT_DOUBLE_EQ(deep.linear_inputs, 7 * sx / 64);
  EXPECT_DOUBLE_EQ(deep.weights, 12 * h2 / 16);
  EXPECT_DOUBLE_EQ(three.linear_inputs, 7 * sx / 64);
  EXPECT_DOUBLE_EQ(three.gathered_weight, 12 * h2 / 16);
  EXPECT_DOUBLE_EQ(three.kept, 0);
  EXPECT_DOUBLE_EQ(kept.kept, 7 * sx / 16 + 12 * h2 / 16);
  for (const LayerMemory& m : {one, two, three}) EXPECT_DOUBLE_EQ(m.weights, 12 * h2 / 64);
  EXPECT_DOUBLE_EQ(three.scores, 8.0 * 4 * 16 * 16 / 64);
}

TEST(GridMachine, AddsLatencyBytesAndOperations) {
  const GridMachine machine{10, 2, 0.5, 4};
  EXPECT_DOUBLE_EQ(seconds_of(machine, {0, 1e9, 100, 1e12}), 1e-3 + 2 + 2);
  EXPECT_DOUBLE_EQ(seconds_of(machine, {1e9, 0, 0, 0}), 0) << "time is made of what follows one another";
}

TEST(GridCost, RefusesRankCountsWithoutSuchAGrid) { EXPECT_THROW((void)grid_of(GridKind::three_d, 12), UsageError); }

}  // namespace
}  // namespace thinwire
