// labels: mpi, parity
// ranks: 4,8,12,27
// timeout: 300
// slow: n27
// A GPT on 2-D, 2.5-D and 3-D grids is the single device's: loss and every gradient in float64 (embedding, layernorm, attention, MLP,
// dropout, tied head, cross-entropy over a padded vocabulary), and training over several steps. The layers' own messages are counted
// against their formulas, what they hold against theirs.
#include "core/memory_counter.h"
#include "models/gpt/grid_gpt.h"
#include "models/optimizer/optimizer.h"
#include "tests/models/parallel/tensor/grid_oracle.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr double tolerance = 1e-10;

struct Case {
  GridShape shape;
  GridOptions options;
  bool recompute = false;
  std::string name() const { return shape.describe() + ", gather " + name_of(options.gather) + (recompute ? ", recomputed" : ""); }
};

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const GridShape& shape : every_grid()) {
    const auto [x, y, z] = shape.sides;
    const bool box = shape.kind == GridKind::three_d;
    if (world().size() > 8 && box && !is_cube(shape) && (x == 1 || y == 1 || z == 1)) continue;  // flat boxes: 4 and 8 ranks have them
    if (z > 8) continue;  // nothing but copies, as data parallelism has
    cases.push_back({shape, {}, false});
    if (is_cube(shape) || !box) cases.push_back({shape, {}, true});
    if (!is_cube(shape)) continue;
    GridOptions options;
    options.gather = GatherPolicy::keep;
    options.cut = WeightCut::columns;
    cases.push_back({shape, options, false});
  }
  return cases;
}

GptConfig model_of_launch() {
  GptConfig c;
  const int p = world().size();
  c.heads = p == 4 ? 4 : p == 8 ? 8 : p == 12 ? 12 : 9;
  c.hidden = (p == 27 ? 6 : 4) * c.heads;
  c.layers = 2, c.vocab = 53, c.max_seq = 7, c.dropout = 0.1, c.seed = 3;
  return c;
}

Batch batch_of_launch(const GptConfig& c, std::int64_t step) {
  Batch b;
  b.batch = world().size() == 27 ? 9 : world().size(), b.seq = world().size() == 27 ? 6 : 4, b.first_sample = 2;
  const Random random(test_seed(), mix_stream(hash_name("tokens"), static_cast<std::uint64_t>(step)));
  for (std::int64_t i = 0; i < b.batch * b.seq; ++i) {
    b.ints("tokens").push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i), static_cast<std::uint64_t>(c.vocab))));
    b.ints("targets").push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * i + 1), static_cast<std::uint64_t>(c.vocab))));
  }
  return b;
}

PassContext pass_of(const Batch& b, std::int64_t step) {
  PassContext pass{b.batch, b.seq, true, static_cast<std::uint64_t>(step)};
  pass.first_sample = b.first_sample;
  return pass;
}

/// Elements of a whole tensor that a shard holds; in the padding of the vocabulary, `padding`'s own or 0.
std::vector<double> share(const ParameterMemory& whole, const ParameterLayout& layout, const double* padding = nullptr) {
  const auto values = whole.as<double>();
  std::vector<double> part;
  for (std::int64_t i = 0; i < layout.local().elements(); ++i) {
    const auto at = static_cast<std::size_t>(layout.global_index(i));
    part.push_back(at < values.size() ? values[at] : padding ? padding[i] : 0.0);
  }
  return part;
}

TEST(GridModel, LossAndEveryGradientAreThoseOfTheSingleDeviceInDoublePrecision) {
  const GptConfig config = model_of_launch();
  const Batch batch = batch_of_launch(config, 0);
  Gpt<double> serial(config);
  Gpt<double>::Activations saved;
  const double loss = serial.forward(pass_of(batch, 0), batch, 0.5, saved);
  Tensor d;
  serial.backward(batch, saved, d);
  double worst = 0;
  for (const Case& c : every_case()) {
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    GridGpt<double> model(config, {}, grid, c.recompute);
    GridGpt<double>::Activations mine;
    EXPECT_NEAR(model.forward(pass_of(batch, 0), batch, 0.5, mine), loss, tolerance * loss) << c.name();
    model.backward(batch, mine, d);
    std::size_t i = 0;
    for (const Parameter<double>* p : model.parameters()) {
      const Parameter<double>* reference = serial.parameters()[i++];
      ASSERT_EQ(p->name(), reference->name());
      EXPECT_EQ(distance(p->w(), share(reference->value, p->layout, p->w())), 0.0) << p->name() << ", " << c.name();
      const double apart = distance(p->g(), share(reference->gradient, p->layout));
      EXPECT_LT(apart, tolerance) << p->name() << ", " << c.name();
      worst = std::max(worst, apart);
    }
  }
  if (world().rank() == 0) std::printf("%zu cases, largest relative distance of a gradient %.2e\n", every_case().size(), worst);
}

TEST(GridModel, TrainingFollowsTheSingleDevice) {
  if (world().size() > 8) GTEST_SKIP() << "long on more ranks; the gradients above are compared there too";
  const GptConfig config = model_of_launch();
  const nn::AdamW adamw;
  const int steps = 5;
  std::vector<double> losses, norms;
  {
    Gpt<double> serial(config);
    Optimizer<double> optimizer(serial.parameters(), adamw);
    Gpt<double>::Activations saved;
    for (int s = 0; s < steps; ++s) {
      const Batch batch = batch_of_launch(config, s);
      serial.zero_gradients();
      losses.push_back(serial.forward(batch, static_cast<std::uint64_t>(s), true, 1.0, saved));
      serial.backward(batch, saved);
      norms.push_back(optimizer.step(1e-2, 0.5));
    }
  }
  for (const Case& c : every_case()) {
    if (c.recompute) continue;
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    GridGpt<double> model(config, {}, grid);
    Optimizer<double> optimizer(model.parameters(), adamw);
    GridGpt<double>::Activations saved;
    Tensor d;
    for (int s = 0; s < steps; ++s) {
      const Batch batch = batch_of_launch(config, s);
      model.zero_gradients();
      const double loss = model.forward(pass_of(batch, s), batch, 1.0, saved);
      model.backward(batch, saved, d);
      const double mine = optimizer.sum_of_squares();
      double squares = 0;
      world().all_reduce(&mine, &squares, 1, DType::f64, ReduceOp::sum)->wait();
      const double norm = std::sqrt(squares);
      optimizer.apply(1e-2, nn::clip_factor(norm, 0.5));
      EXPECT_NEAR(loss, losses[static_cast<std::size_t>(s)], tolerance * losses[0]) << "step " << s << ", " << c.name();
      EXPECT_NEAR(norm, norms[static_cast<std::size_t>(s)], tolerance * norms[0]) << "step " << s << ", " << c.name();
    }
  }
}

std::int64_t received(const TensorGrid<double>& grid, const std::string& label) {
  const auto found = grid.counts().find(label);
  return found == grid.counts().end() ? 0 : found->second.sum.received_bytes / 8;
}

TEST(GridModel, EveryLayerSendsExactlyWhatItsFormulaSays) {
  const GptConfig config = model_of_launch();
  const Batch batch = batch_of_launch(config, 0);
  const std::int64_t m = batch.batch * batch.seq, h = config.hidden, layers = config.layers, norms = 2 * layers + 1;
  for (const Case& c : every_case()) {
    const bool box = c.shape.kind == GridKind::three_d;
    if (c.recompute || (box && !is_cube(c.shape))) continue;
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    GridGpt<double> model(config, {}, grid);
    GridGpt<double>::Activations saved;
    Tensor d;
    model.forward(pass_of(batch, 0), batch, 1.0, saved);
    const std::int64_t q = c.shape.sides[0], depth = box ? 1 : c.shape.sides[2], planes = q * q * depth;  // rows are split by q^2 or q depth
    const std::int64_t vocab = grid_vocabulary(c.shape, config.vocab), rows = box ? m / (q * q) : m / (q * depth);
    EXPECT_EQ(received(grid, "all_reduce layernorm"), norms * 2 * (q - 1) * 2 * rows / q) << c.name();
    // Of cross-entropy 2 (q - 1)/q for each of three numbers per row: the maximum, then the sum of exponentials and the target's logit.
    EXPECT_EQ(received(grid, "all_reduce softmax maximum"), 2 * (q - 1) * rows / q) << c.name();
    EXPECT_EQ(received(grid, "all_reduce softmax sums"), 2 * (q - 1) * 2 * rows / q) << c.name();
    const std::int64_t cells = box ? q * q * q : planes;
    EXPECT_EQ(received(grid, "reduce_scatter look-up"), (q - 1) * m * h / cells) << c.name();
    EXPECT_EQ(received(grid, "all_gather table"), box ? (q - 1) * vocab * h / cells : 0) << c.name();
    if (box) {  // the linears of all layers, and the head
      EXPECT_EQ(received(grid, "all_gather input"), (q - 1) * (layers * 7 * m * h + m * h) / cells) << c.name();
      EXPECT_EQ(received(grid, "all_gather weight"), (q - 1) * (layers * 12 * h * h + vocab * h) / cells) << c.name();
      EXPECT_EQ(received(grid, "reduce_scatter output"), (q - 1) * (layers * 9 * m * h + m * vocab) / cells) << c.name();
    } else {
      EXPECT_EQ(received(grid, "broadcast input"), (q - 1) * layers * 7 * m * h / cells) << c.name();
      EXPECT_EQ(received(grid, "broadcast weight"), (q - 1) * (layers * 12 * h * h + vocab * h) / (q * q)) << c.name();
      EXPECT_EQ(received(grid, "reduce output"), (q - 1) * m * vocab / cells) << c.name();
    }
    grid.reset_counts();
    model.backward(batch, saved, d);
    EXPECT_EQ(received(grid, "all_reduce layernorm gradient"), norms * 2 * (q - 1) * 2 * rows / q) << c.name();
    EXPECT_EQ(received(grid, "all_gather look-up gradient"), (q - 1) * m * h / cells) << c.name();
    EXPECT_EQ(received(grid, "reduce_scatter table gradient"), box ? (q - 1) * vocab * h / cells : 0) << c.name();
    if (box) {
      EXPECT_EQ(received(grid, "all_gather output gradient"), (q - 1) * (layers * 9 * m * h + m * vocab) / cells) << c.name();
      EXPECT_EQ(received(grid, "reduce_scatter weight gradient"), (q - 1) * (layers * 12 * h * h + vocab * h) / cells) << c.name();
    } else {
      const std::int64_t over_depth = 2 * (depth - 1) * (layers * 12 * h * h + vocab * h) / planes;
      EXPECT_EQ(received(grid, "all_reduce weight gradient over depth"), over_depth) << c.name();
    }
  }
}

TEST(GridModel, ALayerHoldsItsShareAndNothingThatItGathered) {
  // Large enough that vectors and statistics of the rows do not count. Bytes of one layer between its passes, in elements.
  const int p = world().size();
  if (p == 12) GTEST_SKIP() << "12 ranks are no square and no cube";
  const std::int64_t h = p == 27 ? 108 : 64, heads = p == 27 ? 9 : 8, batch = p == 27 ? 18 : 16, seq = 16, m = batch * seq;
  for (const Case& c : every_case()) {
    const bool box = c.shape.kind == GridKind::three_d;
    if (c.recompute || (box && !is_cube(c.shape)) || (!box && c.shape.sides[0] == 1)) continue;
    ComputeClock clock;
    TensorGrid<double> grid(world(), c.shape, c.options, clock);
    const std::int64_t empty = buffer_bytes();
    GridBlock<double> block(grid, 0, {h, heads, 1, 0.0, 1});
    const std::int64_t q = c.shape.sides[0], depth = box ? 1 : c.shape.sides[2], cells = box ? q * q * q : q * q * depth;
    const double weights = 2.0 * 8 * 12 * static_cast<double>(h * h) / static_cast<double>(box ? cells : q * q);  // and their gradients
    EXPECT_NEAR(static_cast<double>(buffer_bytes() - empty), weights, 0.05 * weights) << "weights, " << c.name();

    const std::vector<double> x(static_cast<std::size_t>(m * h / cells), 1.0);
    GridBlock<double>::Saved first, saved;
    block.forward({batch, seq}, x.data(), first);  // now the channels have their scratch, which all layers share
    grid.scratch().trim();
    const std::int64_t before = buffer_bytes();
    block.forward({batch, seq}, x.data(), saved);
    grid.scratch().trim();
    // Kept: two normed inputs, qkv (3), context, middle, expanded (4), output; and the gathered ones where the policy keeps them.
    double kept = 8 * 12.0 * static_cast<double>(m * h) / static_cast<double>(cells);
    if (box && c.options.gather == GatherPolicy::keep) kept += 8 * static_cast<double>(7 * m * h + 12 * h * h) / static_cast<double>(q * q);
    EXPECT_NEAR(static_cast<double>(buffer_bytes() - before), kept, 0.05 * kept) << "activations, " << c.name();
  }
}

}  // namespace
}  // namespace thinwire
