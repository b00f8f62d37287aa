// labels: mpi, parity
// ranks: 4
// timeout: 600
// FSDP's mixed precision: passes read rounded parameters, updates change full ones (--param-dtype), gradients travel in a type of their own (--reduce-dtype). Against a single
// device that does not know of it and has its parameters rounded by hand; on every split and stage; bytes, checkpoints, and what is refused.
#include <bit>
#include <cmath>
#include <limits>

#include "models/parallel/channels/row_exchange.h"
#include "models/store/parameter_store.h"
#include "models/training/config/train_options.h"
#include "support/temporary_folder.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parameter types");
  return text;
}

TrainConfig config_of(MeshShape mesh, int zero_stage) {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model.layers = 4, c.model.hidden = 24;  // 24, 72, 96 rows, 16 positions, 53 tokens: some do not divide by 4 ranks
  c.steps = 6;
  c.zero_stage = zero_stage;
  c.param_dtype = DType::bf16;
  return c;
}

/// Nearest even with 8 bits of significand, or 11 for f16 (whose small numbers are multiples of 2^-24), of the nearest f32.
double rounded(double x, DType to) {
  const double single = static_cast<float>(x);
  if (single == 0 || to == DType::f32) return single;
  int exponent = 0;
  std::frexp(single, &exponent);
  const int bits = to == DType::bf16 ? 8 : 11;
  const double step = std::ldexp(1.0, std::max(exponent - bits, to == DType::bf16 ? -133 : -24));
  return std::nearbyint(single / step) * step;
}

/// The single-device trainer, which updates what its passes read: rounded values go in, and what an update adds to them is added to the full ones. Without weight
/// decay an update does not depend on the values that it changes.
RunCurve rounded_by_hand(const TrainConfig& c) {
  Gpt<double> model(c.model);
  Trainer<double> trainer(model, c.trainer);
  const BatchSampler training(corpus().training(), c.model.seed, "data.training"), validation(corpus().validation(), validation_seed, "data.validation");
  std::vector<std::vector<double>> full;
  for (Parameter<double>* p : model.parameters()) full.emplace_back(p->w(), p->w() + p->elements());
  const auto each = [&](auto&& what) {
    std::size_t i = 0;
    for (Parameter<double>* p : model.parameters()) {
      for (std::int64_t e = 0; e < p->elements(); ++e) what(full[i][static_cast<std::size_t>(e)], p->w()[e]);
      ++i;
    }
  };
  const auto round_all = [&] { each([&](double weight, double& value) { value = rounded(weight, *c.param_dtype); }); };
  RunCurve curve;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    round_all();
    const Batch batch = training.batch(static_cast<std::uint64_t>(s), 0, c.global_batch, c.seq);
    const StepReport report = trainer.step({&batch, 1});
    curve.loss.push_back(report.loss);
    curve.norm.push_back(report.gradient_norm);
    each([&](double& weight, double value) { weight += value - rounded(weight, *c.param_dtype); });
  }
  round_all();
  typename Gpt<double>::Activations saved;
  curve.validation = model.forward(validation.batch(0, 0, c.global_batch, c.seq), 0, false, 1.0, saved);
  return curve;
}

TEST(ParamType, IsASingleDeviceWhoseParametersAreRoundedByHand) {
  TrainConfig c = config_of({1, 1, 1}, 0);
  c.trainer.adamw.weight_decay = 0;
  const RunCurve plain = single_device_curve(c, corpus());
  for (const DType to : {DType::bf16, DType::f16, DType::f32}) {
    c.param_dtype = to;
    const RunCurve oracle = curve_made_once([&] { return rounded_by_hand(c); });
    EXPECT_LT(distance(one_rank_curve(c, corpus()), oracle), 1e-10) << name_of(to);
    EXPECT_GT(distance(oracle, plain), to == DType::f32 ? 1e-11 : 1e-6) << name_of(to) << ": rounding that changes nothing shows nothing";
  }
}

TEST(ParamType, EverySplitAndStageComputesWithTheSameRoundedParameters) {
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}, 0), corpus());
  const auto same = [&](const TrainConfig& c, const std::string& name) {
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10) << name << " on " << describe_mesh(c.mesh);
  };
  const std::pair<MeshShape, std::vector<int>> cover[] = {{{1, 1, 4}, {0, 1, 2, 3}}, {{1, 2, 2}, {1, 3}}, {{2, 1, 2}, {2, 3}}, {{2, 2, 1}, {0}}};
  for (const auto& [mesh, stages] : cover)
    for (const int stage : stages) {
      TrainConfig c = config_of(mesh, stage);
      c.recompute = stage == 3;
      same(c, "zero " + std::to_string(stage));
    }
  for (const bool node_shards : {false, true}) {
    TrainConfig c = config_of({1, 1, 4}, 3);
    c.mesh.dp_nodes = 2, c.zero_node_shards = node_shards;
    same(c, node_shards ? "copies in nodes" : "nodes");
  }
  TrainConfig grid = config_of({4, 1, 1}, 0);
  grid.tensor_parallel = "2d", grid.micro_batch = 2, grid.model.hidden = 32;
  TrainConfig single = config_of({1, 1, 1}, 0);
  single.model.hidden = 32;
  EXPECT_LT(distance(parallel_curve(world(), grid, corpus()), one_rank_curve(single, corpus())), 1e-10) << "2d";
}

TEST(ParamType, StagesThatSendTheSameAgreeToTheBitFromTheFirstStep) {
  for (const DType reduce : {DType::f32, DType::bf16}) {
    TrainConfig c = config_of({1, 1, 4}, 1);
    c.dtype = DType::f32, c.reduce_dtype = reduce;
    const RunCurve one = parallel_curve(world(), c, corpus());
    for (const int stage : {2, 3}) {
      c.zero_stage = stage, c.zero_reduce = "step";
      const RunCurve curve = parallel_curve(world(), c, corpus());
      EXPECT_EQ(curve.loss, one.loss) << stage;
      EXPECT_EQ(curve.validation, one.validation) << stage;
    }
  }
}

bool is_bf16(float value) { return (std::bit_cast<std::uint32_t>(value) & 0xffffu) == 0; }

// Of each stage: what passes read is the nearest bf16 of what is updated, whatever the memory held before.
TEST(ParamType, PassesReadTheNearestOfWhatIsUpdated) {
  const int n = world().size();
  ProcessMesh mesh(world(), {1, 1, n});
  const TrainConfig c = config_of({1, 1, n}, 3);
  for (const int stage : {0, 1, 2, 3}) {
    ChannelPairOptions options;
    options.comm_dtype = DType::bf16;
    ChannelPair pair(mesh.dp(), TrafficClass::param_all_gather, {}, options);
    const NamedChannels named = {{"param_all_gather", &pair}};
    ComputeClock clock;
    const auto rows = [](const ParameterLayout& layout, std::int64_t first, TensorView to) { initialise_normal(layout, 5, 0.02, to, first); };
    Parameter<float> matrix(ParameterLayout::whole("matrix", {9, 3}), true, rows), vector(ParameterLayout::whole("vector", {7}), false, rows);
    const Unit<float> unit{"layer0", 0, {&matrix, &vector}};
    const StoreContext<float> context{c, mesh, {{&matrix, 0}, {&vector, 0}}, {unit}, nullptr, named, clock, false, DType::bf16};
    const auto store = make_store<float>(store_info(stage), context);
    for (std::int64_t version = 0; version < 3; ++version) {
      for (const OwnedPart<float>& part : store->parts()) {
        const TensorView weights = part.weights;
        if (version > 0)
          for (float& w : weights.as<float>()) w += 0.001F * static_cast<float>(version);
      }
      if (version > 0) store->updated(version);
      store->unshard(0);
      store->wait_unshard(0);
      for (const OwnedPart<float>& part : store->parts()) {
        const TensorView weights = part.weights;
        const float* values = part.parameter->w() + part.rows.first * part.parameter->shape().columns();
        bool some_differ = false;
        for (std::size_t e = 0; e < weights.as<float>().size(); ++e) {
          EXPECT_EQ(values[e], static_cast<float>(rounded(weights.as<float>()[e], DType::bf16))) << stage << " " << part.parameter->name();
          some_differ = some_differ || values[e] != weights.as<float>()[e];
        }
        EXPECT_TRUE(some_differ || weights.elements() == 0) << "full precision is kept";
        for (std::int64_t e = 0; e < part.parameter->elements(); ++e) EXPECT_TRUE(is_bf16(part.parameter->w()[e]));
      }
      // Gathered memory goes back and is lent again: none of it may be read before it is written.
      if (stage == 3) matrix.fill(std::numeric_limits<float>::quiet_NaN());
      store->reshard(0);
    }
  }
}

double sent(const StepRecord& record, TrafficClass traffic) {
  double mine = 0, all = 0;
  for (const TrafficRecord& r : record.traffic)
    if (r.traffic == traffic) mine += static_cast<double>(r.total.link_bytes);
  world().all_reduce(&mine, &all, 1, DType::f64, ReduceOp::sum)->wait();
  return all;
}

// docs/papers/sharded_compression.md, "Cost": f Psi b for weights (2M gathers of a layer under stage 3) and for gradients, with a b of each.
TEST(ParamType, WeightsAndGradientsTravelInTypesOfTheirOwn) {
  struct Types {
    std::optional<DType> param, reduce;
    double weight_bytes, gradient_bytes;
  };
  for (const int stage : {1, 2, 3})
    for (const Types& types : {Types{DType::bf16, DType::f32, 2, 4}, Types{DType::f16, {}, 2, 2}, Types{DType::f32, DType::bf16, 4, 2}, Types{{}, DType::f32, 2, 4}, Types{{}, {}, 2, 2}}) {
      TrainConfig c = config_of({1, 1, 4}, stage);
      c.dtype = DType::f32, c.comm_dtype = DType::bf16;
      c.param_dtype = types.param, c.reduce_dtype = types.reduce, c.zero_reduce = stage == 1 ? "auto" : "step";
      const double h = static_cast<double>(c.model.hidden), M = static_cast<double>(c.micro_batches());
      const double layers = static_cast<double>(c.model.layers) * 12 * h * h, positions = static_cast<double>(c.model.max_seq) * h, table = static_cast<double>(c.model.vocab) * h;
      const double all = layers + positions + table;
      const double gathered = stage < 3 ? all : 2 * M * layers + (M + 1) * positions + (2 * M + 1) * table;
      const double vectors = static_cast<double>(c.model.layers) * 13 * h + 2 * h;
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      const StepRecord record = trainer->step();
      // Over all W ranks: W f = W - 1 times the whole; an all-reduce twice that.
      EXPECT_EQ(sent(record, TrafficClass::param_all_gather), 3 * types.weight_bytes * gathered) << stage;
      EXPECT_EQ(sent(record, TrafficClass::grad_reduce_scatter), 3 * types.gradient_bytes * all) << stage;
      EXPECT_EQ(sent(record, TrafficClass::dp_gradient), 2 * 3 * types.gradient_bytes * vectors) << stage;
    }
}

TEST(ParamType, TheTableOfAPipelineTravelsAsGradientsDo) {
  TrainConfig c = config_of({1, 2, 2}, 3);
  c.dtype = DType::f32, c.comm_dtype = DType::bf16;
  double bytes[2];
  for (const bool wide : {false, true}) {
    if (wide) c.reduce_dtype = DType::f32;
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    const StepRecord record = trainer->step();
    bytes[wide] = sent(record, TrafficClass::embedding);
    EXPECT_GT(sent(record, TrafficClass::pp_forward), 0);
  }
  EXPECT_EQ(bytes[1], 2 * bytes[0]);
}

TEST(ParamType, GoesOnBitEqualFromACheckpoint) {
  const std::string path = scratch_file();
  for (const int stage : {0, 1, 2, 3}) {
    TrainConfig c = config_of({1, 1, 4}, stage);
    c.dtype = DType::f32;
    c.mesh.dp_nodes = stage == 3 ? 2 : 1;
    c.zero_node_shards = stage == 3;
    EXPECT_EQ(difference(interrupted(c, corpus(), 2, 2, path, c), straight(c, corpus(), 4)), "") << stage;
  }
}

// What is saved is the full precision: a run that had only the rounded values would be off in the first digits of an update.
TEST(ParamType, ACheckpointMovesBetweenStagesAndSplits) {
  const std::string path = scratch_file();
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}, 0), corpus());
  struct Move {
    MeshShape mesh;
    int stage;
    MeshShape to_mesh;
    int to;
  };
  for (const Move& move : {Move{{1, 1, 4}, 0, {2, 1, 2}, 3}, Move{{1, 1, 4}, 3, {1, 2, 2}, 1}, Move{{1, 2, 2}, 3, {1, 1, 4}, 2}, Move{{1, 1, 4}, 1, {1, 2, 2}, 3}, Move{{2, 1, 2}, 2, {1, 1, 4}, 0}}) {
    const Outcome o = interrupted(config_of(move.mesh, move.stage), corpus(), 2, 2, path, config_of(move.to_mesh, move.to));
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(o.losses[i], reference.loss[i], 1e-9) << move.stage << " on " << describe_mesh(move.mesh) << " to " << move.to << " on " << describe_mesh(move.to_mesh);
  }
  // Taken up by a run that rounds nothing: its passes begin with the full weights.
  TrainConfig full = config_of({1, 1, 4}, 0), rounds = config_of({1, 1, 4}, 3);
  full.param_dtype.reset();
  const Outcome o = interrupted(rounds, corpus(), 2, 2, path, full);
  EXPECT_GT(std::abs(o.losses[2] - reference.loss[2]), 1e-7);
}

TEST(ParamType, WhatDoesNotGoTogetherIsRefusedWithTheMend) {
  const auto refused = [](std::initializer_list<const char*> parts, auto change) {
    TrainConfig c = config_of({1, 1, 4}, 3);
    c.dtype = DType::f32;
    change(c);
    const std::string message = message_of<UsageError>([&] { c.check(); });
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " not in: " << message;
  };
  refused({"group:bits=8", "--param-dtype bf16", "leave one"}, [](TrainConfig& c) { c.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=8"}; });
  refused({"group:bits=4", "--param-dtype bf16"}, [](TrainConfig& c) { c.mesh.dp_nodes = 2, c.compress[TrafficClass::param_all_gather] = {.inside = "group:bits=4"}; });
  refused({"--reduce-dtype bf16", "--dtype f64"}, [](TrainConfig& c) { c.dtype = DType::f64, c.reduce_dtype = DType::bf16; });
  TrainConfig kept = config_of({1, 1, 4}, 3);  // of the weights' own type nothing is rounded
  kept.dtype = DType::f32, kept.param_dtype = DType::f32, kept.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=8"};
  EXPECT_NO_THROW(kept.check());
  const TrainConfig read = make_train_config({{"param-dtype", "bf16"}, {"reduce-dtype", "f32"}});
  EXPECT_EQ(read.wire(TrafficClass::param_all_gather), DType::bf16);
  EXPECT_EQ(read.wire(TrafficClass::grad_reduce_scatter), DType::f32);
  EXPECT_EQ(read.wire(TrafficClass::tp_forward), read.comm_dtype);
  EXPECT_NE(message_of<UsageError>([] { make_train_config({{"param-dtype", "f64"}}); }).find("auto, f32, f16, bf16"), std::string::npos);
}

}  // namespace
}  // namespace thinwire
