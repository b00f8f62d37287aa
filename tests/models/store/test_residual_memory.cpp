// labels: mpi
// ranks: 4
// timeout: 300
// What error feedback of sharded gradients keeps on a rank: 4 bytes per compressed parameter however many ranks there are, less by its type in memory and by sums inside nodes;
// the closed form counts it.
#include "kernels/codec/state.h"
#include "models/training/parallel_trainer.h"
#include "tests/collectives/world.h"
#include "tests/models/training/parity_cases.h"

namespace thinwire {
namespace {

using namespace testing;

TrainConfig config_of(int replicas, int nodes, const std::string& codec) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.model.layers = 2;
  c.model.dropout = 0;
  c.mesh = {1, 1, replicas};
  c.mesh.dp_nodes = nodes;
  c.zero_stage = 3, c.zero_reduce = "step";
  c.compress[TrafficClass::grad_reduce_scatter].codec = codec;
  return c;
}

/// Elements in the matrices of the model, without the embedding's two tables, whose rows four ranks do not share evenly.
double elements_of_layers(const TrainConfig& c) { return 12.0 * static_cast<double>(c.model.hidden * c.model.hidden * c.model.layers); }

/// Bytes that all channels' wrappers would write into a checkpoint.
double remembered(const ParallelTrainer& trainer) {
  double bytes = 0;
  for (const auto& [channel, state] : trainer.codec_state()) {
    StateReader reader(state);
    reader.set_scope("wrapper 0/");
    for (const char* name : {"residual", "residual steps", "sent", "received", "sum"})
      for (const StateEntry* entry : reader.take(name, DType::f32)) bytes += static_cast<double>(entry->bytes.size());
    for (const StateEntry* entry : reader.take("residual codes", DType::u8)) bytes += static_cast<double>(entry->bytes.size());
  }
  return bytes;
}

TEST(ResidualMemory, FallsWithTheTypeAndTheNodeAndNotWithTheRanks) {
  const Corpus corpus = Corpus::from_text(parity_text(), "residuals");
  struct Case {
    int replicas, nodes;
    const char* codec;
    double bytes;  ///< per compressed parameter
  };
  const std::vector<Case> cases = {{2, 1, "topk:fraction=0.1+ef", 4},
                                   {4, 1, "topk:fraction=0.1+ef", 4},
                                   {4, 1, "topk:fraction=0.1+ef:store=bf16", 2},
                                   {4, 1, "topk:fraction=0.1+ef:store=int8", 1 + 4.0 / 256},
                                   {4, 1, "group:bits=4+loco:store=int8", 1 + 4.0 / 256},
                                   {4, 2, "topk:fraction=0.1+ef", 4.0 / 2},
                                   {4, 2, "topk:fraction=0.1+ef:store=int8", (1 + 4.0 / 256) / 2},
                                   {4, 1, "topk:fraction=0.1+ef21", 4 + 4.0 / 4},
                                   {4, 1, "topk:fraction=0.1", 0}};
  for (const Case& one : cases) {
    TrainConfig c = config_of(one.replicas, one.nodes, one.codec);
    c.compress[TrafficClass::grad_reduce_scatter].layers = "0-1";
    const auto group = world().split(world().rank() / c.mesh.ranks(), world().rank());
    const auto trainer = ParallelTrainer::make(*group, c, corpus);
    trainer->step();
    const std::string name = std::to_string(one.replicas) + " ranks, " + std::to_string(one.nodes) + " nodes, " + one.codec;
    EXPECT_DOUBLE_EQ(remembered(*trainer), one.bytes * elements_of_layers(c)) << name;
    EXPECT_EQ(static_cast<double>(estimate_memory(c, trainer->mesh().coordinates()).codecs), remembered(*trainer)) << name;
  }
}

TEST(ResidualMemory, InsideANodeAFeedbackIsAsLargeAsTheMatrices) {
  const Corpus corpus = Corpus::from_text(parity_text(), "residuals");
  TrainConfig c = config_of(4, 2, "none");
  CompressRule& rule = c.compress[TrafficClass::grad_reduce_scatter];
  rule.inside = "topk:fraction=0.1+ef", rule.layers = "0-1";
  const auto trainer = ParallelTrainer::make(world(), c, corpus);
  trainer->step();
  EXPECT_DOUBLE_EQ(remembered(*trainer), 4 * elements_of_layers(c));
  EXPECT_EQ(static_cast<double>(estimate_memory(c, trainer->mesh().coordinates()).codecs), remembered(*trainer));
}

TEST(ResidualMemory, OfReducedGradientsCountsEveryCoveredMatrixOnce) {
  const Corpus corpus = Corpus::from_text(parity_text(), "residuals");
  for (const bool large : {false, true}) {
    TrainConfig c = config_of(4, 1, "none");
    c.zero_stage = 0, c.zero_reduce = "auto";
    c.compress.clear();
    c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.1+ef21";
    if (large) c.compress[TrafficClass::dp_gradient].min_elements = 4 * c.model.hidden * c.model.hidden;  // of a layer's twelve h^2 the eight of its MLP
    const auto trainer = ParallelTrainer::make(world(), c, corpus);
    trainer->step();
    const double tables = static_cast<double>((c.model.vocab + c.model.max_seq) * c.model.hidden);
    EXPECT_DOUBLE_EQ(remembered(*trainer), 8 * (large ? elements_of_layers(c) * 8 / 12 : elements_of_layers(c) + tables)) << large;
    EXPECT_EQ(static_cast<double>(estimate_memory(c, trainer->mesh().coordinates()).codecs), remembered(*trainer)) << large;
  }
}

// What changes of weights are sent to: the whole copy on every rank, and on two levels that of a node's rows besides.
TEST(ResidualMemory, OfWeightDifferencesCountsTheCopy) {
  const Corpus corpus = Corpus::from_text(parity_text(), "residuals");
  struct Case {
    int stage, nodes;
    const char *across, *inside;
    double bytes;  ///< per compressed parameter
  };
  for (const Case& one : {Case{1, 1, "group:bits=4+ef21", "none", 4}, Case{2, 1, "group:bits=4+ef21", "none", 4}, Case{2, 1, "group:bits=4", "none", 0},
                          Case{1, 2, "group:bits=4+ef21", "none", 4.0 / 2}, Case{2, 2, "group:bits=4+ef21", "group:bits=4+ef21", 4 + 4.0 / 2}, Case{1, 2, "none", "group:bits=4+ef21", 4}}) {
    TrainConfig c = config_of(4, one.nodes, "none");
    c.zero_stage = one.stage, c.zero_reduce = "auto";
    c.compress.clear();
    CompressRule& rule = c.compress[TrafficClass::param_all_gather];
    rule.codec = one.across, rule.inside = one.inside, rule.layers = "0-1";
    const auto trainer = ParallelTrainer::make(world(), c, corpus);
    trainer->step();
    const std::string name = "zero stage " + std::to_string(one.stage) + ", " + std::to_string(one.nodes) + " nodes, " + one.across + ", inside " + one.inside;
    EXPECT_DOUBLE_EQ(remembered(*trainer), one.bytes * elements_of_layers(c)) << name;
    EXPECT_EQ(static_cast<double>(estimate_memory(c, trainer->mesh().coordinates()).codecs), remembered(*trainer)) << name;
  }
}

// The second shot is a message of its own, of the sums of the rank's rows: its wrapper remembers for it, too.
TEST(ResidualMemory, OfTwoShotsCountsTheSecond) {
  const Corpus corpus = Corpus::from_text(parity_text(), "residuals");
  struct Case {
    const char* codec;
    double bytes;  ///< per compressed parameter
  };
  for (const bool outer : {false, true})
    for (const Case& one : {Case{"topk:fraction=0.1+ef", 4 * (1 + 1.0 / 4)}, Case{"topk:fraction=0.1+ef21", 4 * (1 + 1.0 / 4) + 4}}) {
      TrainConfig c = config_of(4, 1, "none");
      c.zero_stage = 0, c.zero_reduce = "auto";
      c.compress.clear();
      if (outer) c.mesh.dp_replicas = 4, c.optimizer = "adamw+local_sgd:inner_steps=1";
      CompressRule& rule = c.compress[outer ? TrafficClass::outer_gradient : TrafficClass::dp_gradient];
      rule.codec = one.codec, rule.protocol = Protocol::two_shot, rule.layers = "0-1";
      const auto trainer = ParallelTrainer::make(world(), c, corpus);
      trainer->step();
      EXPECT_DOUBLE_EQ(remembered(*trainer), one.bytes * elements_of_layers(c)) << one.codec << (outer ? ", outer" : "");
      EXPECT_EQ(static_cast<double>(estimate_memory(c, trainer->mesh().coordinates()).codecs), remembered(*trainer)) << one.codec << (outer ? ", outer" : "");
    }
}

}  // namespace
}  // namespace thinwire
