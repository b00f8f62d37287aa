// labels: mpi, parity
// ranks: 4
// timeout: 600
// Training with parameters laid out flat (--zero-layout flat): the curve of one device on every mesh with NaN in what is padding; bytes by their closed forms; memory by its estimate;
// checkpoints that move between layouts; codecs across the borders of tensors.
#include <limits>

#include "core/memory_counter.h"
#include "models/store/flat_store.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "flat training");
  return text;
}

// Hidden 30: a layer has 11190 numbers, which four ranks do not share evenly, and no tensor begins at a rank's border.
TrainConfig config_of(MeshShape mesh, int zero_stage, const char* layout = "flat") {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model.layers = 4, c.model.hidden = 30, c.model.heads = 2;
  c.steps = 4;
  c.zero_stage = zero_stage;
  c.zero_layout = layout;
  c.flat_padding = std::numeric_limits<double>::quiet_NaN();
  return c;
}
/// Both matrices of each MLP are alone then.
constexpr std::int64_t mlp_alone = 3600;

TrainConfig alone_config() {
  TrainConfig c = config_of({1, 1, 1}, 0, "rows");
  return c;
}

TEST(FlatTraining, FollowsOneDeviceOnEveryMeshWithNaNForPadding) {
  const RunCurve reference = one_rank_curve(alone_config(), corpus());
  // ZeRO-3 that keeps nothing on every mesh, other modes on one in turn: the tests of rows have more.
  int mode = 0;
  for (const int stage : {1, 2, 3})
    for (const char* keep : {"layer", "micro_batch", "step"}) {
      if (stage != 3 && std::string(keep) != "layer") continue;
      for (const char* reduce : {"micro_batch", "step"}) {
        if (stage == 1 && std::string(reduce) == "step") continue;
        if (stage == 3 && std::string(keep) != "layer" && std::string(keep) == reduce) continue;
        ++mode;
        int turn = 0;
        for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{1, 2, 2}, MeshShape{2, 1, 2}}) {
          const bool everywhere = stage == 3 && std::string(keep) == "layer";
          if (turn++ != mode % 3 && !everywhere) continue;
          TrainConfig c = config_of(mesh, stage);
          if (stage == 3) c.zero_keep = keep;
          if (stage > 1) c.zero_reduce = reduce;
          c.zero_wrap = (turn + stage) % 2 == 0 ? mlp_alone / mesh.tp : 0;
          c.sequence_parallel = mesh.tp > 1;
          c.recompute = mesh.pp > 1;
          c.overlap = mesh.pp == 1;
          c.zero_prefetch = mesh.tp > 1 ? 3 : 1;
          c.check();
          const std::string name = "zero " + std::to_string(stage) + ", keep " + keep + ", reduce " + reduce + ", wrap " + std::to_string(c.zero_wrap) + ", " + describe_mesh(mesh);
          EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10) << name;
        }
      }
    }
}

TEST(FlatTraining, FollowsOneDeviceWithNodesInterleavedAndWithoutPrefetch) {
  const RunCurve reference = one_rank_curve(alone_config(), corpus());
  const auto follows = [&](const char* name, TrainConfig c) {
    c.check();
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10) << name;
  };
  for (const std::int64_t wrap : {std::int64_t{0}, mlp_alone}) {
    TrainConfig c = config_of({1, 1, 4}, 3);
    c.zero_wrap = wrap;
    c.mesh.dp_nodes = 2;
    follows("nodes", c);
    c.zero_node_shards = true;
    follows("copies in nodes", c);
    c = config_of({1, 1, 4}, 3);
    c.zero_wrap = wrap, c.zero_prefetch = 0, c.zero_keep = "layer";
    follows("no prefetch", c);
    c = config_of({1, 2, 2}, 3);
    c.zero_wrap = wrap, c.schedule = "interleaved", c.virtual_stages = 2, c.zero_reduce = "micro_batch";
    follows("interleaved", c);
  }
}

// Replicas that train apart shard alike, and exchange pieces.
TEST(FlatTraining, AnOuterLoopSeesTheSameNumbers) {
  TrainConfig c = config_of({1, 1, 4}, 3, "rows");
  c.mesh.dp_replicas = 2;
  c.optimizer = "adamw+diloco:inner_steps=2";
  c.check();
  const RunCurve rows = parallel_curve(world(), c, corpus());
  c.zero_layout = "flat";
  EXPECT_LT(distance(parallel_curve(world(), c, corpus()), rows), 1e-10);
}

TEST(FlatTraining, StagesThatSendTheSameAgreeToTheBit) {
  for (const std::int64_t wrap : {std::int64_t{0}, mlp_alone}) {
    TrainConfig c = config_of({1, 1, 4}, 1);
    c.dtype = c.comm_dtype = DType::f32, c.zero_wrap = wrap;
    c.param_dtype = DType::bf16;
    const RunCurve one = parallel_curve(world(), c, corpus());
    for (const int stage : {2, 3}) {
      c.zero_stage = stage;
      c.zero_reduce = "step";
      const RunCurve curve = parallel_curve(world(), c, corpus());
      EXPECT_EQ(curve.loss, one.loss) << stage;
      EXPECT_EQ(curve.validation, one.validation) << stage;
    }
  }
}

/// Bytes that all ranks together send in a step for a class.
double sent(ParallelTrainer& trainer, TrafficClass traffic) {
  double mine = 0, all = 0;
  for (const TrafficRecord& r : trainer.step().traffic)
    if (r.traffic == traffic) mine += static_cast<double>(r.total.link_bytes);
  world().all_reduce(&mine, &all, 1, DType::f64, ReduceOp::sum)->wait();
  return all;
}

double padded(double elements) { return std::ceil(elements / 4) * 4; }

// f = (W - 1) / W of each flat parameter, padding and vectors among it: docs/papers/sharded_compression.md, "Cost". Nothing of the model travels otherwise.
TEST(FlatTraining, SendsWhatTheClosedFormsSay) {
  struct Mode {
    int stage;
    const char *keep, *reduce;
  };
  for (const std::int64_t micro : {2, 1})
    for (const std::int64_t wrap : {std::int64_t{0}, mlp_alone})
      for (const Mode& mode : {Mode{1, "auto", "auto"}, Mode{2, "auto", "step"}, Mode{2, "auto", "micro_batch"}, Mode{3, "layer", "micro_batch"}, Mode{3, "layer", "step"},
                               Mode{3, "micro_batch", "step"}, Mode{3, "step", "micro_batch"}}) {
        TrainConfig c = config_of({1, 1, 4}, mode.stage);
        c.zero_keep = mode.keep, c.zero_reduce = mode.reduce, c.micro_batch = micro, c.zero_wrap = wrap;
        const double h = static_cast<double>(c.model.hidden), M = static_cast<double>(c.micro_batches()), L = static_cast<double>(c.model.layers);
        const double tables = static_cast<double>(c.model.vocab + c.model.max_seq) * h, vectors = 13 * h;
        // By units: layers; what the embedding reads, of which the head reads the table; the head's vectors. By size: both matrices of each MLP; the rest, which every unit reads.
        const double of_layers = wrap == 0 ? L * padded(12 * h * h + vectors) : L * 2 * padded(4 * h * h);
        const double shared = wrap == 0 ? padded(tables) : padded(tables + L * (4 * h * h + vectors) + 2 * h), head = wrap == 0 ? padded(2 * h) : 0;
        const double all = of_layers + shared + head;
        const std::string keep = mode.keep, reduce = mode.reduce;
        double gathered = all;  // once per step
        // Neighbouring passes share a gather: both of the head, the embedding's backward pass and its next forward pass. What all units read is never given back in between.
        if (keep == "layer") gathered = 2 * M * of_layers + (wrap == 0 ? 2 * M + 1 : 1) * shared + M * head;
        if (keep == "micro_batch") gathered = M * of_layers + shared + M * head;
        const double reduced = reduce == "micro_batch" ? M * all : all;
        const std::string name = "zero " + std::to_string(mode.stage) + ", keep " + keep + ", reduce " + reduce + ", wrap " + std::to_string(wrap) + ", " + std::to_string(c.micro_batches()) + " micro-batches";
        const auto trainer = ParallelTrainer::make(world(), c, corpus());
        EXPECT_EQ(sent(*trainer, TrafficClass::param_all_gather), 3 * 8 * gathered) << name;
        EXPECT_EQ(sent(*trainer, TrafficClass::grad_reduce_scatter), 3 * 8 * reduced) << name;
        EXPECT_EQ(sent(*trainer, TrafficClass::dp_gradient), 0) << name << ": vectors are in the flat parameters";
      }
}

TEST(FlatTraining, MemoryIsWithinFifteenPercentOfItsEstimate) {
  for (const int stage : {1, 2, 3})
    for (const std::int64_t wrap : {std::int64_t{0}, std::int64_t{4 * 128 * 128}}) {
      TrainConfig c = config_of({1, 1, 4}, stage);
      c.dtype = c.comm_dtype = DType::f32;
      c.model.hidden = 128, c.model.layers = 8, c.model.heads = 4, c.model.max_seq = c.seq = 64, c.model.dropout = 0;
      c.global_batch = 16, c.zero_wrap = wrap;
      const std::int64_t before = buffer_bytes();
      reset_buffer_bytes_peak();
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      for (int s = 0; s < 2; ++s) trainer->step();
      const double counted = static_cast<double>(buffer_bytes_peak() - before);
      const MemoryEstimate m = estimate_memory(c, trainer->mesh().coordinates());
      EXPECT_NEAR(static_cast<double>(m.total()) / counted, 1.0, 0.15)
          << stage << ", wrap " << wrap << ", rank " << world().rank() << ": weights " << m.weights << " optimizer " << m.optimizer << " activations " << m.activations << " workspace " << m.workspace << ", counted " << counted;
    }
}

// Two units' values at most are whole, so the pool has made all that it needs when the first step ends.
TEST(FlatTraining, AStepNeedsNoMoreMemoryThanTheOneBefore) {
  for (const char* layout : {"rows", "flat"})
    for (const int stage : {1, 2, 3}) {
      TrainConfig c = config_of({1, 1, 4}, stage, layout);
      c.dtype = c.comm_dtype = DType::f32;
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      for (int s = 0; s < 2; ++s) trainer->step();
      const std::int64_t before = buffer_bytes();
      reset_buffer_bytes_peak();
      for (int s = 0; s < 3; ++s) trainer->step();
      EXPECT_EQ(buffer_bytes(), before) << layout << stage;
      EXPECT_EQ(buffer_bytes_peak(), before) << layout << stage;
    }
}

TEST(FlatTraining, GoesOnBitEqualFromACheckpoint) {
  const std::string path = scratch_file();
  for (const int stage : {1, 2, 3}) {
    TrainConfig c = config_of({1, 1, 4}, stage);
    c.dtype = DType::f32;
    c.zero_wrap = stage == 2 ? mlp_alone : 0;
    EXPECT_EQ(difference(interrupted(c, corpus(), 2, 2, path, c), straight(c, corpus(), 4)), "") << stage;
  }
}

TEST(FlatTraining, ACheckpointMovesBetweenLayoutsStagesAndSplits) {
  const std::string path = scratch_file();
  const RunCurve reference = parallel_curve(world(), config_of({1, 1, 4}, 0, "rows"), corpus());
  struct Side {
    MeshShape mesh;
    int stage;
    const char* layout;
    std::int64_t wrap = 0;
  };
  const std::vector<std::pair<Side, Side>> moves = {{{{1, 1, 4}, 0, "rows"}, {{1, 1, 4}, 3, "flat"}},          {{{1, 1, 4}, 3, "flat"}, {{1, 1, 4}, 3, "rows"}},
                                                    {{{1, 1, 4}, 3, "flat"}, {{2, 1, 2}, 2, "flat", 1800}},     {{{1, 2, 2}, 3, "flat", mlp_alone}, {{1, 1, 4}, 1, "flat"}},
                                                    {{{2, 1, 2}, 1, "flat"}, {{1, 1, 4}, 3, "flat", mlp_alone}}, {{{1, 1, 4}, 2, "rows"}, {{1, 2, 2}, 3, "flat"}}};
  const auto settings = [](const Side& side) {
    TrainConfig c = config_of(side.mesh, side.stage, side.layout);
    c.zero_wrap = side.wrap;
    return c;
  };
  for (const auto& [from, to] : moves) {
    const Outcome o = interrupted(settings(from), corpus(), 2, 2, path, settings(to));
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(o.losses[i], reference.loss[i], 1e-9) << from.layout << from.stage << " on " << describe_mesh(from.mesh) << " to " << to.layout << to.stage << " on " << describe_mesh(to.mesh);
  }
}

// Codes run over the borders of tensors, vectors among them: as FSDP's communication hooks see gradients.
TEST(FlatTraining, CodedWeightsAndGradientsLearn) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.dtype = c.comm_dtype = DType::f32, c.steps = 12, c.flat_padding = 0;
  const RunCurve dense = parallel_curve(world(), c, corpus());
  c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "group:bits=8,group=32"};
  c.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=8,group=32"};
  c.check();
  const RunCurve coded = parallel_curve(world(), c, corpus());
  EXPECT_NE(coded.loss.back(), dense.loss.back());
  EXPECT_NEAR(coded.loss.back(), dense.loss.back(), 0.05 * dense.loss.back());
  EXPECT_LT(coded.loss.back(), dense.loss.front());
}

// TAGC as released lays parameters out and chooses: units of large matrices are sketched, the root travels as it is.
TEST(FlatTraining, SketchesOfLargeUnitsLeaveTheRootDense) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.dtype = c.comm_dtype = DType::f32, c.steps = 12, c.flat_padding = 0;
  c.model.hidden = 128, c.model.layers = 2, c.model.heads = 4, c.model.dropout = 0;
  c.zero_reduce = "step", c.zero_wrap = 128 * 512;
  const RunCurve dense = parallel_curve(world(), c, corpus());
  // The root's flat parameter is larger than an MLP's matrix: TAGC chooses by exact sizes, here the root's unit is left out by its layer.
  c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "sketch:ratio=2,target=0.9+ef", .layers = "0-1"};
  c.check();
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  double coded = 0, plain = 0;
  std::vector<double> loss;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    loss.push_back(record.loss);
    for (const TrafficRecord& r : record.traffic)
      if (r.traffic == TrafficClass::grad_reduce_scatter) (r.codec == uncompressed ? plain : coded) += static_cast<double>(r.operations);
  }
  EXPECT_EQ(coded, 12 * 2 * 2) << "both matrices of each MLP in each step";
  EXPECT_EQ(plain, 12) << "the root";
  // Twelve steps on a text that is nearly random teach nothing, dense or not: sketched training goes where dense training goes.
  EXPECT_NE(loss.back(), dense.loss.back());
  EXPECT_NEAR(loss.back(), dense.loss.back(), 0.02 * dense.loss.back());
}

// The root of a later stage begins at a layer that the rule names, and is left out all the same: of gradients, of weights, and in what feedback remembers.
TEST(FlatTraining, LayersOfARuleLeaveOutTheRootOfEveryStage) {
  for (const int stage : {1, 3}) {
    TrainConfig c = config_of({1, 2, 2}, stage);
    c.dtype = c.comm_dtype = DType::f32, c.flat_padding = 0;
    c.model.layers = 2, c.zero_wrap = mlp_alone;
    c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "group:bits=8,group=32+ef", .layers = "0-1"};
    c.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=8,group=32", .layers = "0-1"};
    c.check();
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    std::map<std::pair<TrafficClass, bool>, std::int64_t> operations;  // by whether they were coded
    for (const TrafficRecord& r : trainer->step().traffic) operations[{r.traffic, r.codec != uncompressed}] += r.operations;
    const std::string where = "zero " + std::to_string(stage) + ", rank " + std::to_string(world().rank());
    for (const TrafficClass traffic : {TrafficClass::grad_reduce_scatter, TrafficClass::param_all_gather}) {
      EXPECT_EQ((operations[{traffic, true}]), 2) << where << ": both matrices of the stage's MLP, " << name_of(traffic);
      EXPECT_EQ((operations[{traffic, false}]), 2) << where << ": the root and the tied table, " << name_of(traffic);
    }
    EXPECT_EQ(estimate_memory(c, trainer->mesh().coordinates()).codecs, 4 * 2 * mlp_alone) << where << ": residuals of those";
  }
}

// Three parameters of the page's example on four ranks: who owns what, and what a gather brings.
TEST(FlatStoreOf, CutsAcrossTensorsAndInsideTheirRows) {
  ProcessMesh mesh(world(), {1, 1, 4});
  const TrainConfig c = config_of({1, 1, 4}, 3);
  ChannelPairOptions options;
  options.comm_dtype = DType::f64;
  ChannelPair pair(mesh.dp(), TrafficClass::param_all_gather, {}, options);
  const NamedChannels named = {{"param_all_gather", &pair}};
  ComputeClock clock;
  Parameter<double> a(ParameterLayout::whole("a", {5, 3}), true), b(ParameterLayout::whole("b", {7}), false), d(ParameterLayout::whole("d", {4, 4}), true);
  for (Parameter<double>* p : {&a, &b, &d})
    for (std::int64_t i = 0; i < p->elements(); ++i) p->w()[i] = static_cast<double>(i) + (p == &a ? 100 : p == &b ? 200 : 300);
  const Unit<double> unit{"layer0", 0, {&a, &b, &d}};
  StoreContext<double> context{c, mesh, {{&a, 0}, {&b, 0}, {&d, 0}}, {unit}, nullptr, named, clock};
  context.flat = FlatOptions{0, std::numeric_limits<double>::quiet_NaN()};
  const auto store = make_store_in_layout<double>(store_info(3), context);
  // Starts 0, 16, 24 of 40: shards [0, 10), [10, 20), [20, 30), [30, 40).
  struct Piece {
    const char* name;
    std::int64_t row, column, count;
    double first;
    bool operator==(const Piece& o) const { return std::string(name) == o.name && row == o.row && column == o.column && count == o.count && first == o.first; }
  };
  const std::vector<std::vector<Piece>> owned = {{{"a", 0, 0, 10, 100}}, {{"a", 3, 1, 5, 110}, {"b", 0, 0, 4, 200}}, {{"b", 0, 4, 3, 204}, {"d", 0, 0, 6, 300}}, {{"d", 1, 2, 10, 306}}};
  std::vector<Piece> mine;
  for (const OwnedPart<double>& part : store->parts())
    mine.push_back({part.parameter == &a ? "a" : part.parameter == &b ? "b" : "d", part.rows.first, part.first_column, part.weights.elements(), part.weights.as<double>()[0]});
  EXPECT_EQ(mine, owned.at(static_cast<std::size_t>(world().rank())));
  EXPECT_FALSE(a.has_value());
  store->unshard(0);
  store->wait_unshard(0);
  for (Parameter<double>* p : {&a, &b, &d})
    for (std::int64_t i = 0; i < p->elements(); ++i) EXPECT_EQ(p->w()[i], static_cast<double>(i) + (p == &a ? 100 : p == &b ? 200 : 300));
  EXPECT_TRUE(std::isnan(a.w()[15])) << "between two parameters is padding";
  store->reshard(0);
  EXPECT_FALSE(b.has_value());
  ASSERT_EQ(store->exchanged().size(), 1u);
  EXPECT_EQ(store->exchanged()[0].parameter->shape(), (Shape{4, 10}));
}

TEST(FlatTraining, WhatDoesNotGoTogetherIsRefusedWithTheMend) {
  const auto refused = [](const char* part, auto change) {
    TrainConfig c = config_of({1, 1, 4}, 3);
    c.dtype = DType::f32;
    change(c);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("give --zero-stage 1, 2 or 3", [](TrainConfig& c) { c.zero_stage = 0; });
  refused("--zero-wrap 5 says", [](TrainConfig& c) { c.zero_layout = "rows", c.zero_wrap = 5; });
  refused("zero-wrap", [](TrainConfig& c) { c.zero_wrap = -1; });
  refused("unequal parts of vectors", [](TrainConfig& c) { c.zero_stage = 1, c.mesh = {4, 1, 1}, c.tensor_parallel = "2d", c.micro_batch = 2; });
  refused("a row per rank, 4 here", [](TrainConfig& c) { c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "powersgd:rank=2+ef"}; });
  refused("use --zero-layout rows, or --optimizer adamw", [](TrainConfig& c) { c.optimizer = "muon"; });
  for (const TrafficClass traffic : {TrafficClass::grad_reduce_scatter, TrafficClass::param_all_gather})
    for (const bool sequence_parallel : {false, true})
      refused("vectors that tensor ranks hold alike", [&](TrainConfig& c) {
        c.mesh = {2, 1, 2}, c.sequence_parallel = sequence_parallel;
        c.compress[traffic] = {.codec = "group:bits=8,group=32"};
      });
  refused("--tp 2", [](TrainConfig& c) { c.mesh = {2, 1, 2}, c.zero_wrap = mlp_alone / 2, c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "sketch+ef"}; });
}

// What holds no vectors, or loses nothing, or is cut by rows.
TEST(FlatTraining, OverTensorRanksCodecsOfMatricesAloneAndLosslessOnesGo) {
  const auto accepted = [](auto change) {
    TrainConfig c = config_of({2, 1, 2}, 3);
    c.dtype = DType::f32;
    change(c);
    EXPECT_NO_THROW(c.check());
  };
  accepted([](TrainConfig& c) { c.zero_wrap = mlp_alone / 2, c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "sketch+ef", .layers = "0-3"}; });
  accepted([](TrainConfig& c) { c.compress[TrafficClass::param_all_gather] = {.codec = "lossless"}; });
  accepted([](TrainConfig& c) { c.zero_layout = "rows", c.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=8,group=32"}; });
}

}  // namespace
}  // namespace thinwire
