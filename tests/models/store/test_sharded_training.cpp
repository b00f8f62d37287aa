// labels: mpi, parity
// ranks: 4
// timeout: 600
// Training with gradients (zero stage 2) and weights (3) split over the replicas: the curve of whole parameters on every mesh, for every time that gathered
// weights stay and gradients travel; bytes by their closed forms; memory that falls with the ranks; one answer
// for weights that are not there.
#include <limits>
#include <set>

#include "core/memory_counter.h"
#include "core/tensor_names.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "kernels/nn/gemm/packed_weight.h"
#include "models/layers/linear.h"
#include "models/parallel/channels/row_exchange.h"
#include "models/store/flat_store.h"
#include "models/store/parameter_store.h"
#include "models/training/step_schedule.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "sharded training");
  return text;
}

TrainConfig config_of(MeshShape mesh, int zero_stage) {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model.layers = 4;
  c.steps = 4;
  c.zero_stage = zero_stage;
  return c;
}

TEST(ShardedTraining, FollowsWholeParametersOnEveryMesh) {
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}, 0), corpus());
  for (const int stage : {2, 3})
    for (const char* keep : {"layer", "micro_batch", "step"}) {
      if (stage == 2 && std::string(keep) != "layer") continue;
      for (const char* reduce : {"micro_batch", "step"}) {
        if (stage == 3 && std::string(keep) != "layer" && std::string(keep) == reduce) continue;  // the parity tests' cover has more
        for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{1, 2, 2}, MeshShape{2, 1, 2}}) {
          TrainConfig c = config_of(mesh, stage);
          if (stage == 3) c.zero_keep = keep;
          c.zero_reduce = reduce;
          c.sequence_parallel = mesh.tp > 1;
          c.recompute = mesh.pp > 1;
          c.overlap = mesh.pp == 1;
          c.zero_prefetch = mesh.tp > 1 ? 3 : 1;
          const std::string name = "zero " + std::to_string(stage) + ", keep " + keep + ", reduce " + reduce + ", " + describe_mesh(mesh);
          EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10) << name;
        }
      }
    }
}

TEST(ShardedTraining, StagesThatSendTheSameAgreeToTheBit) {
  for (const int micro : {2, 1}) {  // one micro-batch per rank, and two
    TrainConfig c = config_of({1, 1, 4}, 1);
    c.dtype = c.comm_dtype = DType::f32;  // a narrower wire rounds what stage 3 gathers for the first step, where stage 1 begins with whole values
    c.micro_batch = micro;
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

// Where nothing moves there is no difference to send: the first coded gather leaves the weights that all ranks hold, though the codec keeps a twentieth of what it is given.
TEST(ShardedTraining, WeightDifferencesBeginWithTheWeightsThatAllRanksHold) {
  for (const int stage : {1, 2})
    for (const int nodes : {1, 2})
      for (const std::int64_t warm : {0, 1}) {
        TrainConfig c = config_of({1, 1, 4}, stage);
        c.dtype = DType::f32;
        c.mesh.dp_nodes = nodes;
        c.trainer.schedule = {1e-30, 1e-30, 0, 10};  // below the rounding of every weight
        CompressRule& rule = c.compress[TrafficClass::param_all_gather];
        rule.codec = "topk:fraction=0.05,values=f32+ef21", rule.warmup_steps = warm;
        if (nodes > 1) rule.inside = rule.codec;
        const auto trainer = ParallelTrainer::make(world(), c, corpus());
        if (warm > 0) trainer->step();  // a dense gather, which rounds to its type
        const double before = trainer->validate();
        trainer->step();
        EXPECT_EQ(trainer->validate(), before) << "zero " << stage << ", " << nodes << " nodes, " << warm;
      }
}

TEST(ShardedTraining, EveryPassStandsBetweenTheGatherOfItsUnitAndItsRelease) {
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{1, 2, 2}}) {
    TrainConfig c = config_of(mesh, 3);
    c.zero_keep = "layer", c.zero_prefetch = 2;
    for (const Schedule& schedule : {training_schedule(c), evaluation_schedule(c)}) {
      int ahead = 0;
      for (const auto& list : schedule.stage) {
        std::set<std::pair<int, int>> started, there;
        for (const Instruction& i : list) {
          const std::pair unit{i.chunk, i.unit};
          if (i.kind == InstructionKind::unshard) {
            EXPECT_TRUE(started.insert(unit).second);
          }
          if (i.kind == InstructionKind::wait_unshard) {
            EXPECT_TRUE(started.contains(unit));
            there.insert(unit);
          }
          if (i.kind == InstructionKind::forward || i.kind == InstructionKind::backward) {
            EXPECT_TRUE(there.contains(unit));
            ahead = std::max(ahead, static_cast<int>(started.size() - there.size()));
          }
          if (i.kind == InstructionKind::reshard) started.erase(unit), there.erase(unit);
        }
        EXPECT_TRUE(started.empty());
      }
      EXPECT_EQ(ahead, 2) << "gathers under way beside a pass";
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

// f = (W - 1) / W of what a rank has whole, M micro-batches: docs/papers/sharded_compression.md, "Cost". A unit whose passes are neighbours is gathered once for both: the head's forward
// and backward pass, the embedding's backward pass and its next forward pass. The token table belongs to both.
TEST(ShardedTraining, SendsWhatTheClosedFormsSay) {
  struct Mode {
    int stage;
    const char *keep, *reduce;
  };
  for (const std::int64_t micro : {2, 1})
    for (const Mode& mode : {Mode{1, "auto", "auto"}, Mode{2, "auto", "step"}, Mode{2, "auto", "micro_batch"}, Mode{3, "layer", "micro_batch"}, Mode{3, "layer", "step"},
                             Mode{3, "micro_batch", "step"}, Mode{3, "step", "micro_batch"}}) {
      TrainConfig c = config_of({1, 1, 4}, mode.stage);
      c.zero_keep = mode.keep, c.zero_reduce = mode.reduce, c.micro_batch = micro;
      const double h = static_cast<double>(c.model.hidden), M = static_cast<double>(c.micro_batches());
      const double layers = static_cast<double>(c.model.layers) * 12 * h * h, positions = static_cast<double>(c.model.max_seq) * h,
                   table = static_cast<double>(c.model.vocab) * h;
      const double all = layers + positions + table;
      const std::string keep = mode.keep, reduce = mode.reduce;
      double gathered = all;  // once per step
      if (keep == "layer") gathered = 2 * M * layers + (M + 1) * positions + (M + 1 + M) * table;
      // The table's two readers: from the embedding's forward to its backward pass it is there, and so it is for the head.
      if (keep == "micro_batch") gathered = M * layers + positions + table;
      const double reduced = reduce == "micro_batch" ? M * all : all;
      const std::string name = "zero " + std::to_string(mode.stage) + ", keep " + keep + ", reduce " + reduce + ", " + std::to_string(c.micro_batches()) + " micro-batches";
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      // Over all W ranks: W f = W - 1 times the whole.
      EXPECT_EQ(sent(*trainer, TrafficClass::param_all_gather), 3 * 8 * gathered) << name;
      EXPECT_EQ(sent(*trainer, TrafficClass::grad_reduce_scatter), 3 * 8 * reduced) << name;
    }
}

// Two stages hold the tied table. Each reduce-scatters its gradient over its replicas as any matrix's, and the owners of the same rows add up what arrived (class `embedding`).
TEST(ShardedTraining, ATiedTableOfAPipelineIsSharedOut) {
  for (const char* layout : {"rows", "flat"})
    for (const int stage : {1, 2, 3}) {
      TrainConfig c = config_of({1, 2, 2}, stage);
      c.zero_layout = layout;
      const double h = static_cast<double>(c.model.hidden), table = static_cast<double>(c.model.vocab) * h, layers = static_cast<double>(c.model.layers) * 12 * h * h,
                   positions = static_cast<double>(c.model.max_seq) * h, vectors = std::string(layout) == "flat" ? static_cast<double>(c.model.layers) * 13 * h + 2 * h : 0;
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      double mine[3] = {}, sum[3];
      for (const TrafficRecord& r : trainer->step().traffic)
        for (const auto& [traffic, at] : {std::pair{TrafficClass::embedding, 0}, std::pair{TrafficClass::grad_reduce_scatter, 1}, std::pair{TrafficClass::param_all_gather, 2}})
          if (r.traffic == traffic) mine[at] += static_cast<double>(r.total.link_bytes);
      world().all_reduce(mine, sum, 3, DType::f64, ReduceOp::sum)->wait();
      const std::string name = std::string(layout) + ", zero " + std::to_string(stage);
      // Of each row one sum over two stages: both owners send it once. f = 1/2 of two replicas, twice the table.
      EXPECT_EQ(sum[0], 8 * 2 * table) << name;
      EXPECT_EQ(sum[1], 8 * (layers + vectors + positions + 2 * table)) << name << ", reduced once per step";
      EXPECT_EQ(sum[2], 8 * (layers + vectors + positions + 2 * table)) << name << ", gathered once per step";
    }
}

/// Of all ranks, the table that the first stage's keep in full precision less the last stage's, and its largest element.
std::pair<double, double> tables_apart(ParallelTrainer& trainer, const TrainConfig& c) {
  const bool first = trainer.mesh().first_stage();
  const auto size = static_cast<std::size_t>(c.model.vocab * c.model.hidden);
  std::vector<float> mine(2 * size), all(mine.size());
  for (const StateSlot& slot : trainer.state_slots()) {
    const bool wanted = slot.name == (c.zero_stage == 3 ? "weights" : "full_precision_weights") && slot.layout.name() == "embedding.token";
    if (!wanted) continue;
    const auto values = slot.value.as<float>();
    const std::int64_t from = slot.first_row * c.model.hidden + slot.first_column;
    for (std::size_t i = 0; i < values.size(); ++i) mine[(first ? 0 : size) + static_cast<std::size_t>(from) + i] = values[i];
  }
  world().all_reduce(mine.data(), all.data(), static_cast<std::int64_t>(all.size()), DType::f32, ReduceOp::sum)->wait();
  double apart = 0, largest = 0;
  for (std::size_t i = 0; i < size; ++i) apart = std::max(apart, std::abs(double{all[i]} - all[size + i])), largest = std::max(largest, std::abs(double{all[i]}));
  return {apart, largest};
}

// Both owners of a row see the same sum and update alike, coded or not.
TEST(ShardedTraining, BothCopiesOfATiedTableStayEqualBits) {
  for (const char* layout : {"rows", "flat"})
    for (const int stage : {1, 2, 3})
      for (const char* codec : {"none", "group:bits=8,group=32,round=stochastic"}) {
        TrainConfig c = config_of({1, 2, 2}, stage);
        c.dtype = DType::f32, c.zero_layout = layout;
        for (const TrafficClass traffic : {TrafficClass::grad_reduce_scatter, TrafficClass::param_all_gather}) c.compress[traffic] = {.codec = codec};
        c.check();
        const auto trainer = ParallelTrainer::make(world(), c, corpus());
        for (std::int64_t s = 0; s < c.steps; ++s) trainer->step();
        const auto [apart, largest] = tables_apart(*trainer, c);
        EXPECT_EQ(apart, 0) << layout << stage << codec;
        EXPECT_GT(largest, 0.01) << "a table that was never looked at";
      }
}

TEST(ShardedTraining, ARankHoldsLessTheMoreShareAndNeverTheWholeModel) {
  TrainConfig c = config_of({1, 1, 1}, 3);
  c.dtype = DType::f32;
  c.model.hidden = 128, c.model.layers = 8, c.model.dropout = 0;
  c.global_batch = 4, c.seq = 8;
  c.messages_at_once = 1;  // what those under way hold does not shrink with the share
  const auto peak = [&](int ranks, int stage) {
    const auto group = world().split(world().rank() / ranks, world().rank());
    c.mesh.dp = ranks, c.zero_stage = stage;
    c.micro_batch = c.global_batch / ranks;
    const std::int64_t before = buffer_bytes();
    reset_buffer_bytes_peak();
    const auto trainer = ParallelTrainer::make(*group, c, corpus());
    for (int s = 0; s < 2; ++s) trainer->step();
    trainer->validate();
    return static_cast<double>(buffer_bytes_peak() - before);
  };
  const double whole = peak(1, 0), two = peak(2, 3), four = peak(4, 3);
  const double parameters = 4 * (8.0 * 12 * 128 * 128 + (16 + 53) * 128);  // bytes of all matrices
  EXPECT_GT(whole, 4 * parameters);  // weights, gradients, two moments
  // Of four times the parameters a rank has its share; two layers' values and gradients come and go.
  const double layer = parameters / 8;
  EXPECT_LT(two, whole - 4 * parameters / 2 + 4.5 * layer);
  EXPECT_LT(four, whole - 4 * parameters * 3 / 4 + 4.5 * layer);
  EXPECT_LT(four, two - parameters / 2);
  EXPECT_LT(four, peak(4, 2));
  EXPECT_LT(peak(4, 2), peak(4, 1));
}

TEST(ShardedTraining, AStaleGatherIsRefused) {
  ProcessMesh mesh(world(), {1, 1, world().size()});
  const TrainConfig c = config_of({1, 1, world().size()}, 3);
  ChannelPairOptions options;
  options.comm_dtype = DType::f64;
  ChannelPair pair(mesh.dp(), TrafficClass::param_all_gather, {}, options);
  const NamedChannels named = {{"param_all_gather", &pair}};
  ComputeClock clock;
  Parameter<double> p(ParameterLayout::whole("matrix", {8, 3}), true);
  p.fill(world().rank() == 0 ? 1.0 : 2.0);  // rows of rank 0 are 1, others 2
  const Unit<double> unit{"layer0", 0, {&p}};
  const StoreContext<double> context{c, mesh, {{&p, 0}}, {unit}, nullptr, named, clock};
  const auto store = make_store<double>(store_info(3), context);
  EXPECT_FALSE(p.has_value());
  EXPECT_THROW(store->wait_unshard(0), RuntimeFailure) << "nothing was gathered";
  store->unshard(0);
  store->wait_unshard(0);
  EXPECT_EQ(p.w()[0], 1.0);
  EXPECT_EQ(p.w()[23], world().size() > 1 ? 2.0 : 1.0);
  store->updated(1);
  EXPECT_THROW(store->wait_unshard(0), RuntimeFailure) << "gathered before the update";
  store->reshard(0);
  store->unshard(0);
  store->wait_unshard(0);
  store->reshard(0);
  EXPECT_FALSE(p.has_value());
}

TEST(ShardedTraining, DeferredMatricesBeginAsWholeOnesDo) {
  const auto rows = [](const ParameterLayout& layout, std::int64_t first, TensorView to) { initialise_normal(layout, 5, 0.02, to, first); };
  const Parameter<float> whole(ParameterLayout::whole("matrix", {9, 5}), true, rows);
  const DeferredMatrices deferred(true);
  Parameter<float> later(ParameterLayout::whole("matrix", {9, 5}), true, rows), vector(ParameterLayout::whole("vector", {5}), true, rows);
  EXPECT_FALSE(later.has_value());
  EXPECT_TRUE(vector.has_value());
  for (const RowBlock part : {RowBlock{0, 9}, RowBlock{4, 3}, RowBlock{8, 1}, RowBlock{9, 0}}) {
    Tensor to({part.count, 5});
    later.initialise(later.layout, part.first, to.view());
    for (std::int64_t e = 0; e < part.count * 5; ++e) EXPECT_EQ(data_of<float>(to)[e], whole.w()[part.first * 5 + e]);
  }
}

// In bf16 on the host a weight is packed for all products of a step (kernels/nn/gemm/packed_weight.h), where its values stay in their place between two updates: a store that lends
// gradients alone moves no values.
TEST(ShardedTraining, WeightsAreKeptPackedUnlessTheirValuesAreLent) {
  ProcessMesh mesh(world(), {1, 1, world().size()});
  ChannelPairOptions options;
  options.comm_dtype = DType::f32;
  for (const char* layout : {"rows", "flat"})
    for (const int stage : {1, 2, 3}) {
      const std::string name = std::string(layout) + ", zero " + std::to_string(stage);
      const TrainConfig c = config_of({1, 1, world().size()}, stage);
      ChannelPair pair(mesh.dp(), TrafficClass::param_all_gather, {}, options);
      const NamedChannels named = {{"param_all_gather", &pair}};
      ComputeClock clock;
      const DeferredMatrices deferred(true);
      LinearLayouts layouts;
      layouts.weight = ParameterLayout::whole("weight", {16, 24}), layouts.bias = ParameterLayout::whole("bias", {24});
      Linear<float> linear(layouts, 1, 0.02, nn::ComputeType::bf16);
      const Unit<float> unit{"layer0", 0, {&linear.weight, &linear.bias}};
      StoreContext<float> context{c, mesh, {{&linear.weight, 0}, {&linear.bias, 0}}, {unit}, nullptr, named, clock};
      if (std::string(layout) == "flat") context.flat = FlatOptions{};
      const auto store = make_store_in_layout<float>(store_info(stage), context);
      EXPECT_EQ(static_cast<bool>(linear.weight.initialise), stage == 3) << name;
      if (!nn::detail::onednn_has_bf16()) continue;  // needs AVX-512
      setenv("THINWIRE_SLOW_BF16", "1", 1);
      store->unshard(0), store->wait_unshard(0);
      const std::vector<float> x(4 * 16, 1.0f);
      std::vector<float> first(4 * 24), second(first);
      nn::PackedWeights packed;
      {
        const nn::PackedWeightsScope scope(packed);
        linear.forward(4, x.data(), first.data());
        linear.forward(4, x.data(), second.data());
      }
      EXPECT_EQ(packed.packed(), stage == 3 ? 0 : 1) << name;
      EXPECT_EQ(first, second) << name;
      EXPECT_NE(first[0], 0) << name;
      store->reshard(0);
      unsetenv("THINWIRE_SLOW_BF16");
    }
}

// Nodes: sums and gathers in two steps, and blocks that stay in the node.
TEST(TwoLevels, FollowWholeParameters) {
  const auto narrow = [](const MeshShape& mesh, int stage) {
    TrainConfig c = config_of(mesh, stage);
    c.model.hidden = 24;  // 24, 72, 96 rows, 53 and 16: some do not divide by nodes and ranks
    return c;
  };
  const RunCurve whole = one_rank_curve(narrow({1, 1, 1}, 0), corpus());
  for (const int stage : {1, 2, 3})
    for (const bool node_shards : {false, true}) {
      if (node_shards && stage != 3) continue;
      TrainConfig c = narrow({1, 1, 4}, stage);
      c.mesh.dp_nodes = 2;
      c.zero_node_shards = node_shards;
      for (const char* keep : {"layer", "step"}) {
        if (stage == 3) c.zero_keep = keep;
        EXPECT_LT(distance(parallel_curve(world(), c, corpus()), whole), 1e-10) << stage << node_shards << keep;
      }
    }
}

TEST(TwoLevels, OwnersHoldEveryRowOnce) {
  for (const DataAxis& axis : {DataAxis{1, 2, 2}, DataAxis{1, 3, 4}, DataAxis{2, 2, 3}, DataAxis{1, 1, 4}, DataAxis{1, 4, 1}})
    for (const std::int64_t rows : {0, 1, 5, 12, 53}) {
      std::vector<int> owners(static_cast<std::size_t>(rows), 0);
      for (int n = 0; n < axis.nodes; ++n)
        for (int l = 0; l < axis.inside; ++l) {
          const RowOwners rank{axis, {0, n, l, n * axis.inside + l}};
          const RowBlock own = rank.own(rows), block = rank.of_node(rows);
          for (std::int64_t r = own.first; r < own.first + own.count; ++r) ++owners[static_cast<std::size_t>(r)];
          if (rank.two_levels()) {
            EXPECT_EQ(block.first, shard_rows(rows, l, axis.inside).first);
            EXPECT_TRUE(own.first >= block.first && own.first + own.count <= block.first + block.count);
          }
        }
      EXPECT_TRUE(std::ranges::all_of(owners, [](int count) { return count == 1; })) << rows;
    }
}

// W = N x L. Inside a node a gradient's L - 1 other blocks leave a rank, across nodes N - 1 parts of its own; gathers the other way round, and with copies in the node only the
// first of a step crosses.
TEST(TwoLevels, SendInsideAndAcrossWhatTheClosedFormsSay) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.mesh.dp_nodes = 2;
  c.micro_batch = 1;
  const double h = static_cast<double>(c.model.hidden), M = static_cast<double>(c.micro_batches());
  const double layers = static_cast<double>(c.model.layers) * 12 * h * h, positions = static_cast<double>(c.model.max_seq) * h, table = static_cast<double>(c.model.vocab) * h;
  const double all = layers + positions + table, gathered = 2 * M * layers + (M + 1) * positions + (2 * M + 1) * table;
  for (const bool node_shards : {false, true}) {
    c.zero_node_shards = node_shards;
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    double mine[4] = {}, sum[4];
    for (const TrafficRecord& r : trainer->step().traffic)
      for (const auto& [traffic, at] : {std::pair{TrafficClass::grad_reduce_scatter, 0}, std::pair{TrafficClass::param_all_gather, 2}})
        if (r.traffic == traffic) mine[at + (r.level == ChannelLevel::across)] += static_cast<double>(r.total.link_bytes);
    world().all_reduce(mine, sum, 4, DType::f64, ReduceOp::sum)->wait();
    // Of all 4 ranks: 2 nodes x (L - 1) times the tensor inside; (N - 1) times across.
    EXPECT_EQ(sum[0], 8 * M * 2 * all);
    EXPECT_EQ(sum[1], 8 * M * all);
    EXPECT_EQ(sum[2], 8 * 2 * gathered) << node_shards;
    EXPECT_EQ(sum[3], 8 * (node_shards ? all : gathered)) << node_shards;
  }
}

TEST(TwoLevels, ACopyInTheNodeIsAsNewAsTheWeightsOrNotUsed) {
  ProcessMesh mesh(world(), {1, 1, 4, "tp-pp-dp", 1, 2});
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.mesh.dp_nodes = 2;
  ChannelPairOptions options;
  options.comm_dtype = DType::f64;
  ChannelPair inside(*mesh.group("inside"), TrafficClass::param_all_gather, {}, options), across(*mesh.group("node"), TrafficClass::param_all_gather, {}, options);
  const NamedChannels named = {{"param_all_gather.inside", &inside}, {"param_all_gather.across", &across}};
  ComputeClock clock;
  Parameter<double> p(ParameterLayout::whole("matrix", {8, 3}), true);
  p.fill(1);
  const Unit<double> unit{"layer0", 0, {&p}};
  const StoreContext<double> context{c, mesh, {{&p, 0}}, {unit}, nullptr, named, clock, true};
  const auto store = make_store<double>(store_info(3), context);
  const auto seen = [&] {
    store->unshard(0);
    store->wait_unshard(0);
    const std::vector<double> values(p.w(), p.w() + 24);
    store->reshard(0);
    return values;
  };
  const auto set = [&](double value) {
    const TensorView rows = store->parts()[0].weights;
    std::ranges::fill(rows.as<double>(), value);
  };
  EXPECT_EQ(seen(), std::vector<double>(24, 1.0));
  set(2);  // behind the store's back: what is in the node is still of this version
  EXPECT_EQ(seen(), std::vector<double>(24, 1.0)) << "a second gather crossed nodes";
  store->updated(1);
  EXPECT_EQ(seen(), std::vector<double>(24, 2.0));
  set(3);
  store->updated(1);  // other weights under the same number: an evaluation
  EXPECT_EQ(seen(), std::vector<double>(24, 3.0));
  set(4);
  store->loaded(1);
  EXPECT_EQ(seen(), std::vector<double>(24, 4.0));
}

// SDP4Bit's and ZeRO++'s form: 8 bits inside, 4 across. It learns, and what the second step codes is the sum of the first.
TEST(TwoLevels, CodedGradientsAndWeightsLearn) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.dtype = DType::f32, c.mesh.dp_nodes = 2, c.steps = 12;
  const RunCurve dense = parallel_curve(world(), c, corpus());
  c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "group:bits=4,group=32+hadamard:block=32", .inside = "group:bits=8,group=32"};
  c.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=8,group=32"};
  c.check();
  const RunCurve coded = parallel_curve(world(), c, corpus());
  EXPECT_NE(coded.loss.back(), dense.loss.back());
  EXPECT_NEAR(coded.loss.back(), dense.loss.back(), 0.05 * dense.loss.back());
  EXPECT_LT(coded.loss.back(), dense.loss.front());
}

// A rule may code what stays inside a node and nothing else.
TEST(TwoLevels, ACodecInsideAloneActsThere) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.dtype = c.comm_dtype = DType::f32, c.mesh.dp_nodes = 2;
  const auto gradients = [&] {
    std::map<ChannelLevel, std::int64_t> bytes;
    for (const TrafficRecord& r : ParallelTrainer::make(world(), c, corpus())->step().traffic)
      if (r.traffic == TrafficClass::grad_reduce_scatter) bytes[r.level] += r.total.link_bytes;
    return bytes;
  };
  const auto dense = gradients();
  c.compress[TrafficClass::grad_reduce_scatter] = {.inside = "group:bits=8,group=32"};
  c.check();
  const auto coded = gradients();
  EXPECT_LT(coded.at(ChannelLevel::inside), dense.at(ChannelLevel::inside) / 2);
  EXPECT_EQ(coded.at(ChannelLevel::across), dense.at(ChannelLevel::across));
}

TEST(ShardedTraining, GoesOnBitEqualFromACheckpoint) {
  const std::string path = scratch_file();
  for (const int stage : {2, 3}) {
    TrainConfig c = config_of({1, 1, 4}, stage);
    c.dtype = DType::f32;
    c.mesh.dp_nodes = stage == 3 ? 2 : 1;
    c.zero_node_shards = stage == 3;
    EXPECT_EQ(difference(interrupted(c, corpus(), 2, 2, path, c), straight(c, corpus(), 4)), "") << stage;
  }
}

// What was trained in one stage goes on in another, on another mesh.
TEST(ShardedTraining, ACheckpointMovesBetweenStagesAndSplits) {
  const std::string path = scratch_file();
  TrainConfig c = config_of({1, 1, 4}, 0);
  const RunCurve reference = parallel_curve(world(), c, corpus());
  struct Move {
    MeshShape mesh;
    int stage;
    MeshShape to_mesh;
    int to;
  };
  for (const Move& move : {Move{{1, 1, 4}, 0, {2, 1, 2}, 3}, Move{{1, 1, 4}, 3, {1, 2, 2}, 2}, Move{{1, 2, 2}, 3, {1, 1, 4}, 1}, Move{{2, 1, 2}, 3, {1, 1, 4}, 3},
                           Move{{1, 1, 4}, 1, {1, 2, 2}, 3}, Move{{1, 1, 4}, 3, {1, 1, 4}, 0}}) {
    const Outcome o = interrupted(config_of(move.mesh, move.stage), corpus(), 2, 2, path, config_of(move.to_mesh, move.to));
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(o.losses[i], reference.loss[i], 1e-9) << move.stage << " on " << describe_mesh(move.mesh) << " to " << move.to << " on " << describe_mesh(move.to_mesh);
  }
}

TEST(ShardedTraining, CodedWeightsAreEncodedOncePerUpdate) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.dtype = DType::f32;
  c.compress[TrafficClass::param_all_gather] = {.codec = "quantize:bits=8"};
  c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "quantize:bits=8"};
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  std::int64_t gathers = 0, reused = 0;
  for (const TrafficRecord& r : trainer->step().traffic)
    if (r.traffic == TrafficClass::param_all_gather && r.codec != uncompressed) gathers += r.operations, reused += r.total.reused_payloads;
  // Per layer 4 matrices, table and positions: one of their gathers encodes.
  EXPECT_EQ(gathers - reused, 4 * c.model.layers + 2);
  EXPECT_GT(reused, 0);
  // The same bits in training and in validation: nothing is drawn or rounded anew.
  const double once = trainer->validate(), again = trainer->validate();
  EXPECT_EQ(once, again);
}

// TAGC: the sketch on large matrices alone, its residual beside it. What peels is the sum of what was kept, so training follows the dense run.
TEST(ShardedTraining, SketchesOfLargeMatricesFollowTheDenseRun) {
  TrainConfig c = config_of({1, 1, 4}, 3);
  c.dtype = c.comm_dtype = DType::f32, c.steps = 12;
  c.model.hidden = 128, c.model.layers = 2, c.model.dropout = 0;
  c.zero_reduce = "step";
  const RunCurve dense = parallel_curve(world(), c, corpus());
  c.compress[TrafficClass::grad_reduce_scatter] = {.codec = "sketch:ratio=2,target=0.9+ef", .min_elements = 128 * 512};
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
  EXPECT_EQ(plain, 12 * (2 * 2 + 2)) << "qkv and projection of each attention, table, positions";
  // Twelve steps on a text that is nearly random move the loss by little: sketched training goes where dense training goes.
  EXPECT_NE(loss.back(), dense.loss.back());
  EXPECT_LT(loss.back(), loss.front());
  EXPECT_NEAR(loss.back(), dense.loss.back(), 0.05 * dense.loss.back());
}

TEST(ShardedTraining, WhatDoesNotGoTogetherIsRefusedWithTheMend) {
  const auto refused = [](const char* part, auto change) {
    TrainConfig c = config_of({1, 2, 2}, 3);
    c.dtype = DType::f32;
    change(c);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("--embedding-sync fused does not go with --zero-stage 3", [](TrainConfig& c) { c.embedding_sync = "fused"; });
  refused("does not go with --zero-stage 2", [](TrainConfig& c) { c.zero_stage = 2, c.zero_keep = "auto", c.mesh = {4, 1, 1}, c.tensor_parallel = "2d", c.micro_batch = 2; });
  refused("weights are gathered several times", [](TrainConfig& c) { c.compress[TrafficClass::param_all_gather] = {.codec = "quantize:bits=4+ef"}; });
  refused("4 bytes per parameter beside the 16 / W = 8 that this stage keeps on W = 2 ranks", [](TrainConfig& c) { c.compress[TrafficClass::param_all_gather] = {.codec = "group:bits=4+ef21"}; });
  refused("--zero-keep layer", [](TrainConfig& c) { c.zero_stage = 2, c.zero_keep = "layer"; });
  refused("--zero-reduce step", [](TrainConfig& c) { c.zero_stage = 1, c.zero_reduce = "step"; });
  refused("--zero-node-shards true", [](TrainConfig& c) { c.zero_node_shards = true; });
  refused("--dp-nodes 2", [](TrainConfig& c) { c.zero_stage = 0, c.mesh = {1, 1, 4, "tp-pp-dp", 1, 2}; });
  refused("there are no nodes of several ranks", [](TrainConfig& c) { c.compress[TrafficClass::grad_reduce_scatter] = {.inside = "quantize:bits=8"}; });
  refused("zero-prefetch", [](TrainConfig& c) { c.zero_prefetch = -1; });
  refused("--zero-stage 4 does not exist", [](TrainConfig& c) { c.zero_stage = 4; });
  for (const int stage : {1, 2, 3}) {
    for (const char* one : {"0", "1"})
      refused("one of the two stages that hold the tied table, 0 and 1", [&](TrainConfig& c) { c.zero_stage = stage, c.compress[TrafficClass::param_all_gather] = {.codec = "quantize:bits=8", .stages = one}; });
    refused("validation reads the weights that passes were trained with", [&](TrainConfig& c) { c.zero_stage = stage, c.compress[TrafficClass::param_all_gather] = {.codec = "quantize:bits=8", .at_evaluation = false}; });
  }
}

// Of stages that a rule of the weights may name: both that hold the tied table, neither, or any where none is tied.
TEST(ShardedTraining, ARuleOfWeightsMayLeaveOutStagesThatShareNothing) {
  const auto accepted = [](const char* stages, MeshShape mesh, const char* model) {
    TrainConfig c = config_of(mesh, 3);
    c.dtype = DType::f32, c.model_kind = model;
    c.compress[TrafficClass::param_all_gather] = {.codec = "quantize:bits=8", .stages = stages};
    EXPECT_NO_THROW(c.check()) << stages << model;
  };
  accepted("0-1", {1, 2, 2}, "gpt");
  accepted("0,3", {1, 4, 2}, "gpt");
  accepted("1-2", {1, 4, 2}, "gpt");
  accepted("0", {1, 2, 2}, "gpt:head=own");
  accepted("0", {1, 2, 1}, "gpt");  // nobody to share with
}

}  // namespace
}  // namespace thinwire
