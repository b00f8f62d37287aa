// labels: mpi
// ranks: 8
// timeout: 300
// What a training step sends: bytes of every class against closed forms, for dense and coded traffic; a codec that changes nothing
// changes nothing; compressed training is finite, learns, and every class is metered under its own name.
#include <map>

#include "models/data/batches.h"
#include "models/layers/embedding.h"
#include "models/training/parallel_trainer.h"
#include "support/temporary_folder.h"
#include "tests/collectives/world.h"
#include "tests/models/training/parity_cases.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "traffic");
  return text;
}

TrainConfig small(MeshShape mesh = {2, 2, 2, "tp-pp-dp"}) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.comm_dtype = DType::bf16;
  c.mesh = mesh;
  c.model.layers = 4;
  c.steps = 3;
  return c;
}

struct Totals {
  double link = 0, payload = 0, dense = 0, operations = 0;
};

/// Sums over ranks of the second step, by class and codec.
std::map<std::string, Totals> totals_of_a_step(const TrainConfig& c) {
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  trainer->step();
  const StepRecord record = trainer->step();
  std::map<std::string, Totals> result;
  for (TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::tp_backward, TrafficClass::pp_forward, TrafficClass::pp_backward,
                               TrafficClass::dp_gradient, TrafficClass::embedding, TrafficClass::grad_reduce_scatter, TrafficClass::param_all_gather})
    for (const bool coded : {false, true}) {
      double mine[4] = {0, 0, 0, 0}, sum[4];
      for (const TrafficRecord& r : record.traffic)
        if (r.traffic == traffic && (r.codec != "none") == coded) {
          mine[0] += static_cast<double>(r.total.link_bytes);
          mine[1] += static_cast<double>(r.total.payload_bytes);
          mine[2] += static_cast<double>(r.total.dense_bytes);
          mine[3] += static_cast<double>(r.operations);
        }
      world().all_reduce(mine, sum, 4, DType::f64, ReduceOp::sum)->wait();
      if (sum[2] > 0) result[name_of(traffic) + (coded ? " coded" : "")] = {sum[0], sum[1], sum[2], sum[3]};
    }
  return result;
}

/// Closed forms for a mesh without scattering or sharding; bytes summed over all ranks.
struct Expected {
  explicit Expected(const TrainConfig& c) : config(c) {
    const auto& m = c.model;
    const double h = static_cast<double>(m.hidden), rows = static_cast<double>(c.micro_batch * c.seq);
    const double micro = static_cast<double>(c.micro_batches()), t = c.mesh.tp, p = c.mesh.pp, d = c.mesh.dp, ranks = c.mesh.ranks();
    const double activation = 2 * rows * h;  // bytes on a 2-byte wire
    const double ring_t = 2 * (t - 1) / t, ring_d = 2 * (d - 1) / d;
    // Two row-parallel sums per layer forward; two column-parallel sums per layer backward and one of the head, all micro-batches.
    tp_forward = t > 1 ? ring_t * activation * 2 * static_cast<double>(m.layers) / p * micro * ranks : 0;
    tp_backward = t > 1 ? ring_t * activation * (2 * static_cast<double>(m.layers) / p * ranks + ranks / p) * micro : 0;
    boundary = (p - 1) * activation * micro * t * d;
    const double per_layer = (12 * h * h + 7 * h) / t + 6 * h;  // split: matrices and their column biases; whole: norms, row biases
    const double table = static_cast<double>(padded_vocabulary(m.vocab, c.mesh.tp)) * h / t;
    const double replicated = static_cast<double>(m.layers) / p * per_layer * ranks +  // on every rank
                              ranks / p * (static_cast<double>(m.max_seq) * h + 2 * h);  // positions; last norm
    dp_gradient = d > 1 ? ring_d * 2 * (replicated + (p == 1 ? table * ranks : 0)) : 0;
    const double holders = 2 * t * d;  // ranks with a copy of the table
    embedding = p > 1 ? 2 * table * holders * ((d > 1 ? ring_d : 0) + 1.0) : 0;
  }
  const TrainConfig& config;
  double tp_forward, tp_backward, boundary, dp_gradient, embedding;
};

// P 4, M 8: stage s sends its last 4 - s gradients compressed, 6 of 24 in all, a share of P / (2 M).
TEST(TrainingTraffic, EpilogueOnlyCompressesTheLastBackwardMessagesOfEachStage) {
  TrainConfig c = small({1, 4, 2, "tp-pp-dp"});
  c.global_batch = 8 * c.mesh.dp * c.micro_batch;
  c.compress[TrafficClass::pp_backward] = {.codec = "powersgd:rank=2+lep"};
  const auto everywhere = totals_of_a_step(c);
  c.compress[TrafficClass::pp_backward].epilogue_only = true;
  const auto epilogue = totals_of_a_step(c);
  const double rows = static_cast<double>(c.micro_batch * c.seq), h = static_cast<double>(c.model.hidden);
  const double message = 4 * 2 * (rows + h), raw = 2 * rows * h;  // factors in f32; dense in bf16
  EXPECT_EQ(everywhere.at("pp_backward coded").payload, 24 * c.mesh.dp * message);
  EXPECT_EQ(everywhere.count("pp_backward"), 0u);
  EXPECT_EQ(epilogue.at("pp_backward coded").payload, 6 * c.mesh.dp * message);
  EXPECT_EQ(epilogue.at("pp_backward").payload, 18 * c.mesh.dp * raw);
}

// Each of two stages holds two layers: two matrices of each of four shapes; the first stage also the positions, [16, 32] as half a projection is.
TEST(TrainingTraffic, StackedMatricesSendTheSameBytesInHalfAsManyMessages) {
  TrainConfig c = small({2, 2, 2, "tp-pp-dp"});
  c.compress[TrafficClass::dp_gradient].codec = "powersgd:rank=2+ef";
  const Totals apart = totals_of_a_step(c).at("dp_gradient coded");
  c.compress[TrafficClass::dp_gradient].stacked = true;
  const Totals stacked = totals_of_a_step(c).at("dp_gradient coded");
  EXPECT_EQ(stacked.payload, apart.payload);
  EXPECT_EQ(stacked.dense, apart.dense);
  EXPECT_EQ(apart.operations, 4 * (4 * 2 + 1) + 4 * 4 * 2);
  EXPECT_EQ(stacked.operations, 8 * 4);
}

// The rank is that of the matrices, so nothing is lost: a factor of another matrix would be seen.
TEST(TrainingTraffic, StackedMatricesAtFullRankTrainAsUncompressedOnesDo) {
  const auto losses = [](const TrainConfig& c) {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    std::vector<double> all;
    for (int i = 0; i < 3; ++i) all.push_back(trainer->step().loss);
    return all;
  };
  TrainConfig c = small({2, 2, 2, "tp-pp-dp"});
  c.comm_dtype = DType::f32;
  // With sequence parallelism some matrices are summed late, over tensor ranks first: those are a stack apart, also where shapes agree (here positions and halves of projections).
  for (const bool sequence_parallel : {false, true}) {
    c.sequence_parallel = sequence_parallel;
    c.compress.clear();
    const std::vector<double> dense = losses(c);
    c.compress[TrafficClass::dp_gradient] = {.codec = "powersgd:rank=32", .stacked = true};
    const std::vector<double> stacked = losses(c);
    for (std::size_t i = 0; i < dense.size(); ++i) EXPECT_NEAR(stacked[i], dense[i], 1e-4 * dense[i]) << "step " << i << (sequence_parallel ? ", sequence parallel" : "");
  }
}

TEST(TrainingTraffic, DenseBytesOfEveryClassAreTheClosedForm) {
  for (const MeshShape& mesh : {MeshShape{2, 2, 2}, MeshShape{8, 1, 1}, MeshShape{1, 8, 1}, MeshShape{1, 1, 8}, MeshShape{4, 1, 2}}) {
    TrainConfig c = small(mesh);
    if (mesh.pp == 8) c.model.layers = 8;
    const auto totals = totals_of_a_step(c);
    const Expected expected(c);
    const auto check = [&](const char* name, double bytes) {
      const auto found = totals.find(name);
      const double counted = found == totals.end() ? 0 : found->second.link;
      // The ring cuts a tensor into blocks that may differ by an element.
      EXPECT_NEAR(counted, bytes, 2e-3 * bytes + 1) << name << " on tp" << mesh.tp << " pp" << mesh.pp << " dp" << mesh.dp;
    };
    check("tp_forward", expected.tp_forward);
    check("tp_backward", expected.tp_backward);
    check("pp_forward", expected.boundary);
    check("pp_backward", expected.boundary);
    check("dp_gradient", expected.dp_gradient);
    check("embedding", expected.embedding);
  }
}

TEST(TrainingTraffic, FusedEmbeddingSendsTheOptimusRatioOfTwoSteps) {
  // Ring all-reduces of V bytes on 2D ranks: two steps send (3D - 2)/D V, fused (2D - 1)/D V per rank.
  TrainConfig c = small();
  const double two_step = totals_of_a_step(c).at("embedding").link;
  c.embedding_sync = "fused";
  const double fused = totals_of_a_step(c).at("embedding").link;
  constexpr double d = 2;
  EXPECT_NEAR(fused / two_step, (2 * d - 1) / (3 * d - 2), 2e-3);
}

TEST(TrainingTraffic, ScatteredBoundariesSendTheTensorOnce) {
  TrainConfig c = small({4, 2, 1, "tp-pp-dp"});
  const auto whole = totals_of_a_step(c);
  c.scatter_gather = true;
  const auto scattered = totals_of_a_step(c);
  // A quarter over the boundary, and an all-gather of three quarters per rank inside the tensor group.
  const double boundary = whole.at("pp_forward").link;
  EXPECT_NEAR(scattered.at("pp_forward").link, boundary / 4 + boundary * 0.75, 1e-3 * boundary);
}

TEST(TrainingTraffic, ShardedOptimizerSendsAsMuchAsAnAllReduce) {
  TrainConfig c = small({1, 1, 8, "tp-pp-dp"});
  const double dense = totals_of_a_step(c).at("dp_gradient").link;
  c.zero_stage = 1;
  const auto sharded = totals_of_a_step(c);
  const double sum = sharded.at("grad_reduce_scatter").link + sharded.at("param_all_gather").link + sharded.at("dp_gradient").link;
  EXPECT_NEAR(sum, dense, 0.03 * dense);  // rows of small matrices do not divide evenly
  EXPECT_NEAR(sharded.at("grad_reduce_scatter").link, sharded.at("param_all_gather").link, 1e-6 * dense);
}

TEST(TrainingTraffic, CodedPayloadsAreWhatTheCodecDeclares) {
  TrainConfig c = small();
  const std::string codec = "quantize:bits=4";
  for (TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::pp_forward, TrafficClass::pp_backward, TrafficClass::tp_backward})
    c.compress[traffic].codec = codec;
  const auto totals = totals_of_a_step(c);
  const std::int64_t rows = c.micro_batch * c.seq, h = c.model.hidden;
  const auto payload = static_cast<double>(make_codec(codec).codec->max_payload_bytes({rows, h}));
  const double micro = static_cast<double>(c.micro_batches());
  EXPECT_EQ(totals.at("tp_forward coded").payload, payload * 2 * 2 * micro * 8);   // two sums in each of two layers on eight ranks
  EXPECT_EQ(totals.at("tp_forward coded").link, payload * 2 * 2 * micro * 8);      // all-gather in pairs: every rank sends its own once
  EXPECT_EQ(totals.at("pp_forward coded").link, payload * micro * 4);
  EXPECT_EQ(totals.at("pp_backward coded").link, payload * micro * 4);
  EXPECT_EQ(totals.at("tp_backward coded").link, payload * micro * (2 * 2 * 8 + 4));
  EXPECT_EQ(totals.count("pp_forward"), 0u) << "nothing of a coded class travels dense";
}

TEST(TrainingTraffic, RulesChooseLayersStagesAndSteps) {
  TrainConfig c = small();
  c.compress[TrafficClass::tp_forward] = {"quantize:bits=8", Protocol::automatic, "2-3", "all", 0, true};
  auto totals = totals_of_a_step(c);
  EXPECT_NEAR(totals.at("tp_forward coded").dense, totals.at("tp_forward").dense, 1);  // half of the layers each
  c.compress[TrafficClass::tp_forward] = {"quantize:bits=8", Protocol::automatic, "all", "all", 2, true};
  totals = totals_of_a_step(c);  // its second step is step 1: still dense
  EXPECT_EQ(totals.count("tp_forward coded"), 0u);
}

TEST(CompressedTraining, EveryClassWithEveryFamilyStaysFiniteAndClose) {
  TrainConfig c = small();
  c.steps = 6;
  const auto losses = [&](const TrainConfig& config) {
    const auto trainer = ParallelTrainer::make(world(), config, corpus());
    std::vector<double> curve;
    for (std::int64_t s = 0; s < config.steps; ++s) curve.push_back(trainer->step().loss);
    curve.push_back(trainer->validate());
    return curve;
  };
  const std::vector<double> dense = losses(c);
  const std::map<TrafficClass, std::vector<std::string>> plans = {
      {TrafficClass::tp_forward, {"quantize:bits=8", "topk:fraction=0.5", "randomk:fraction=0.5"}},
      {TrafficClass::tp_backward, {"quantize:bits=8", "topk:fraction=0.5"}},
      {TrafficClass::pp_forward, {"quantize:bits=8", "topk:fraction=0.5", "randomk:fraction=0.5"}},
      {TrafficClass::pp_backward, {"quantize:bits=8", "topk:fraction=0.5+ef"}},
      {TrafficClass::dp_gradient, {"powersgd:rank=4+ef", "topk:fraction=0.1+ef", "quantize:bits=8"}},
      {TrafficClass::embedding, {"powersgd:rank=4+ef", "quantize:bits=8"}}};
  for (const auto& [traffic, codecs] : plans)
    for (const std::string& codec : codecs) {
      TrainConfig coded = c;
      coded.compress[traffic].codec = codec;
      const std::vector<double> curve = losses(coded);
      EXPECT_NE(curve, dense) << name_of(traffic) << " by " << codec << " changed nothing: was it used?";
      for (std::size_t i = 0; i < curve.size(); ++i) EXPECT_NEAR(curve[i], dense[i], 0.15 * dense[i]) << name_of(traffic) << " " << codec;
      EXPECT_TRUE(equal_on_all_ranks(curve.data(), static_cast<std::int64_t>(curve.size() * sizeof(double))));
    }
}

// Intervals over seeds are to hold what codecs draw, too.
TEST(CompressedTraining, WhatCodecsDrawGoesByTheRunsSeedUnlessTheyNameOne) {
  const auto losses = [](TrafficClass traffic, const std::string& codec) {
    TrainConfig c = small();
    c.compress[traffic].codec = codec;
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    std::vector<double> curve;
    for (std::int64_t s = 0; s < c.steps; ++s) curve.push_back(trainer->step().loss);
    return curve;
  };
  const std::string runs = ",seed=" + std::to_string(small().model.seed);
  for (const auto& [traffic, codec] : std::map<TrafficClass, std::string>{{TrafficClass::pp_forward, "randomk:fraction=0.3"}, {TrafficClass::tp_forward, "autoencoder:fraction=0.25,init=xavier"},
                                                                         {TrafficClass::dp_gradient, "powersgd:rank=2"}}) {
    const std::vector<double> plain = losses(traffic, codec);
    EXPECT_EQ(plain, losses(traffic, codec + runs)) << codec;
    EXPECT_NE(plain, losses(traffic, codec + ",seed=0")) << codec;
  }
}

TEST(CompressedTraining, RecomputationReplaysWhatTheFirstPassDecoded) {
  TrainConfig c = small();
  c.steps = 4;
  for (const char* codec : {"quantize:bits=4", "topk:fraction=0.2+ef", "randomk:fraction=0.3"}) {
    std::vector<std::vector<double>> curves;
    std::vector<double> bytes;
    for (const bool recompute : {false, true}) {
      c.recompute = recompute;
      c.compress[TrafficClass::tp_forward].codec = codec;
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      curves.emplace_back();
      bytes.push_back(0);
      for (std::int64_t s = 0; s < c.steps; ++s) {
        const StepRecord record = trainer->step();
        curves.back().push_back(record.loss);
        for (const TrafficRecord& r : record.traffic) bytes.back() += static_cast<double>(r.total.link_bytes);
      }
    }
    EXPECT_EQ(curves[0], curves[1]) << codec;
    EXPECT_EQ(bytes[0], bytes[1]) << codec;
  }
}

TEST(CompressedTraining, ValidationLeavesNoTrace) {
  TrainConfig c = small();
  for (TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::pp_forward}) c.compress[traffic].codec = "topk:fraction=0.2+ef";
  c.compress[TrafficClass::dp_gradient].codec = "powersgd:rank=2+ef";
  std::vector<std::vector<double>> curves;
  for (const bool validates : {false, true}) {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    curves.emplace_back();
    for (int s = 0; s < 4; ++s) {
      curves.back().push_back(trainer->step().loss);
      if (validates) trainer->validate();
    }
  }
  EXPECT_EQ(curves[0], curves[1]);
}

// Of activations as of gradients: dense before a step is dense in the validations before it, too.
TEST(CompressedTraining, AWarmUpHoldsInValidations) {
  const auto validations = [&](const std::string& codec, std::int64_t warm, bool at_evaluation) {
    TrainConfig c = small();
    for (TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::pp_forward}) c.compress[traffic] = {.codec = codec, .warmup_steps = warm, .at_evaluation = at_evaluation};
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    std::vector<double> losses = {trainer->validate()};
    for (int s = 0; s < 3; ++s) {
      trainer->step();
      losses.push_back(trainer->validate());
    }
    return losses;
  };
  const std::vector<double> dense = validations(uncompressed, 0, true), warm = validations("topk:fraction=0.02", 2, true), cold = validations("topk:fraction=0.02", 0, true);
  for (std::size_t after : {0u, 1u}) EXPECT_EQ(warm[after], dense[after]) << after;
  for (std::size_t after : {2u, 3u}) EXPECT_NE(warm[after], dense[after]) << after;
  EXPECT_NE(cold[0], dense[0]);
  EXPECT_EQ(validations("topk:fraction=0.02", 3, false), dense) << "what never codes in validations does not begin to";
}

TEST(CompressedTraining, AutoencodersLearnWithTheModel) {
  // A random projection that stays as it is against the same one trained: what it loses must become less.
  TrainConfig c = small();
  c.steps = 30;
  c.model.dropout = 0;
  c.error_interval = 29;
  for (TrafficClass traffic : {TrafficClass::tp_forward, TrafficClass::pp_forward}) {
    c.compress[traffic].codec = "autoencoder:fraction=0.25,init=orthonormal,steps=0";
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    const auto error = [&](const StepRecord& record) {
      double mine[2] = {0, 0}, sum[2];
      for (const TrafficRecord& r : record.traffic)
        if (r.traffic == traffic) mine[0] += r.error_squared, mine[1] += r.reference_squared;
      world().all_reduce(mine, sum, 2, DType::f64, ReduceOp::sum)->wait();
      return std::sqrt(sum[0] / sum[1]);
    };
    double first = 0, last = 0;
    for (int s = 0; s < 30; ++s) {
      const StepRecord record = trainer->step();
      if (s == 0) first = error(record);
      if (s == 29) last = error(record);
    }
    EXPECT_GT(first, 0.3) << name_of(traffic);
    EXPECT_LT(last, 0.9 * first) << name_of(traffic);
    c.compress.clear();
  }
}

TEST(TimedCompute, AReplayedStepTakesTheTimeOfItsParts) {
  TrainConfig c = small();
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  trainer->step();
  trainer->set_compute(ComputeMode::serial);
  trainer->step();
  trainer->step();
  trainer->set_compute(ComputeMode::replay);
  const StepRecord first = trainer->step(), second = trainer->step();
  EXPECT_GT(first.compute_us, 0);
  EXPECT_NEAR(first.compute_us, second.compute_us, 1e-6 * first.compute_us) << "waits are remembered, not measured";
  EXPECT_GE(second.seconds * 1e6, second.compute_us) << "a rank cannot be faster than its own waits";
}

StepRecord replayed_step(const TrainConfig& c) {
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  trainer->step();
  trainer->set_compute(ComputeMode::serial);
  trainer->step();
  trainer->set_compute(ComputeMode::replay);
  trainer->step();
  return trainer->step();
}

/// The slowest rank's, in microseconds: one that comes late to a step finds others further on, and has less of it.
double longest_us(const StepRecord& step) {
  double longest = 0;
  world().all_reduce(&step.seconds, &longest, 1, DType::f64, ReduceOp::max)->wait();
  return longest * 1e6;
}

TEST(TimedCompute, PassesTakeWhatIsStatedAndBlockingSendsComputeTheSame) {
  TrainConfig c = small();
  c.compute = ComputeMode::replay;
  c.forward_us = 2000;
  c.backward_us = 5000;
  const double micro = static_cast<double>(c.micro_batches());
  for (const bool blocking : {false, true}) {
    c.blocking_sends = blocking;
    const StepRecord step = replayed_step(c);
    EXPECT_DOUBLE_EQ(step.forward_us, 2000 * micro);
    EXPECT_DOUBLE_EQ(step.backward_us, 5000 * micro);
    EXPECT_GE(longest_us(step), (micro + c.mesh.pp - 1) * 7000) << "a stage waits for the one before it";
  }
}

TEST(TimedCompute, OmittedClassesSendNothingWhileStagesStillWaitForEachOther) {
  TrainConfig c = small();
  c.compute = ComputeMode::replay;
  c.recompute = true;
  c.forward_us = c.backward_us = 3000;
  c.compress[TrafficClass::tp_forward].codec = "topk:fraction=0.1";
  c.omit = "pp_forward,pp_backward,dp_gradient,embedding,tp_forward";
  const StepRecord step = replayed_step(c);
  for (const TrafficRecord& r : step.traffic)
    EXPECT_TRUE(r.traffic == TrafficClass::control || r.traffic == TrafficClass::tp_backward) << name_of(r.traffic);
  EXPECT_GE(longest_us(step), static_cast<double>(c.micro_batches() + c.mesh.pp - 1) * 6000) << "the pipeline's bubble is no communication";
  c.compute = ComputeMode::real;
  c.forward_us = c.backward_us = 0;
  EXPECT_NE(message_of<UsageError>([&] { c.check(); }).find("compute = timed"), std::string::npos);
  c.compute = ComputeMode::replay;
  c.omit = "control";
  EXPECT_THROW(c.check(), UsageError);
  c.omit = "dp_gradients";
  EXPECT_THROW(c.check(), UsageError);
}

}  // namespace
}  // namespace thinwire
