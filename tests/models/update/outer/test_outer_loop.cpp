// labels: mpi
// ranks: 4
// timeout: 900
// Outer loops: local SGD and DiLoCo are what they are by hand, on every split; degenerate cases are dense
// training; replicas are equal bits after every outer step; a run goes on bit-equal from the middle of a
// round; bytes are the closed form's, and what no rule covers is one message; SparseLoCo is a rule.
#include "core/statistics.h"
#include "tests/models/training/messages.h"
#include "tests/models/training/resume_run.h"
#include "tests/models/update/outer/by_hand.h"
#include "tests/models/update/outer/one_table.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "outer loops");
  return text;
}

/// As many replicas as `mesh.dp` unless it says otherwise.
TrainConfig config_of(MeshShape mesh, const std::string& optimizer, DType dtype = DType::f64) {
  TrainConfig c = parity_config();
  if (mesh.dp_replicas == 1) mesh.dp_replicas = mesh.dp;
  c.mesh = mesh;
  c.dtype = dtype;
  c.model.layers = 2, c.model.hidden = 16;
  c.steps = 8;
  c.trainer.schedule = {3e-3, 3e-4, 2, 8};
  c.trainer.max_norm = 0.5;  // below every replica's norm: all are clipped, each by its own
  c.optimizer = optimizer;
  return c;
}

const char* const diloco = "adamw+diloco:inner_steps=3,rate=0.6,momentum=0.8";
const OuterByHand diloco_by_hand{.inner_steps = 3, .rate = 0.6, .momentum = 0.8, .nesterov = true};

// Eight steps of rounds of three: the validation loss is that of the global weights after the sixth.
TEST(OuterLoop, FourReplicasAreWhatTheyAreByHand) {
  struct Case {
    const char* optimizer;
    OuterByHand by_hand;
  };
  for (const Case& one : {Case{diloco, diloco_by_hand},
                          {"adamw+diloco:inner_steps=2,nesterov=false", {.inner_steps = 2, .rate = 0.7, .momentum = 0.9}},
                          {"sgd:momentum=0.9+local_sgd:inner_steps=2,rate=0.5", {.inner = "sgd:momentum=0.9", .inner_steps = 2, .rate = 0.5}}}) {
    const TrainConfig c = config_of({1, 1, 4}, one.optimizer);
    c.check();
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), by_hand(c, one.by_hand, corpus())), 1e-10) << one.optimizer;
  }
}

TEST(OuterLoop, ASplitOfTheReplicasChangesNothing) {
  std::vector<TrainConfig> cases = {config_of({2, 1, 2}, diloco), config_of({1, 2, 2}, diloco), config_of({1, 1, 4, "tp-pp-dp", 2}, diloco), config_of({4, 1, 1}, diloco)};
  cases.push_back(cases[0]);
  cases.back().sequence_parallel = true;
  cases.push_back(cases[3]);
  cases.back().tensor_parallel = "2d", cases.back().micro_batch = 2;
  for (const int stage : {1, 3}) {
    cases.push_back(cases[2]);
    cases.back().zero_stage = stage;
  }
  const RunCurve two = by_hand(cases[0], diloco_by_hand, corpus()), one = by_hand(cases[3], diloco_by_hand, corpus());
  for (const TrainConfig& c : cases) {
    c.check();
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), c.mesh.dp_replicas == 2 ? two : one), 1e-10) << describe_mesh(c.mesh) << c.tensor_parallel << c.zero_stage;
  }
}

TEST(OuterLoop, OneStepApartWithPlainDescentInsideIsDenseDescent) {
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{1, 2, 2}}) {
    TrainConfig apart = config_of(mesh, "sgd:momentum=0+local_sgd:inner_steps=1"), dense = config_of(mesh, "sgd:momentum=0");
    dense.mesh.dp_replicas = 1;
    for (TrainConfig* c : {&apart, &dense}) c->trainer.max_norm = 1e9, c->trainer.schedule = {0.5, 0.05, 2, 8};
    const RunCurve a = parallel_curve(world(), apart, corpus()), b = parallel_curve(world(), dense, corpus());
    for (std::size_t s = 0; s < b.loss.size(); ++s) EXPECT_NEAR(a.loss[s] / b.loss[s], 1, 1e-12) << s;
    EXPECT_NEAR(a.validation / b.validation, 1, 1e-12);
    apart.optimizer = "sgd:momentum=0+local_sgd:inner_steps=2";
    EXPECT_GT(std::abs(parallel_curve(world(), apart, corpus()).validation / b.validation - 1), 1e-6) << "two steps apart are another run";
  }
}

/// Largest difference of a kind of slot on any rank from that of its first replica.
double spread(ParallelTrainer& trainer, const std::string& kind) {
  const auto group = world().split(trainer.mesh().coordinates().tp + 8 * trainer.mesh().coordinates().pp, world().rank());
  double most = 0;
  for (const StateSlot& slot : trainer.state_slots()) {
    if (slot.name != kind) continue;
    const std::span<float> own = TensorView(slot.value).as<float>();
    std::vector<float> first(own.begin(), own.end());
    group->broadcast(first.data(), static_cast<std::int64_t>(own.size_bytes()), 0)->wait();
    for (std::size_t i = 0; i < own.size(); ++i) most = std::max<double>(most, std::abs(own[i] - first[i]));
  }
  double all = 0;
  world().all_reduce(&most, &all, 1, DType::f64, ReduceOp::max)->wait();
  return all;
}

std::vector<float> values_of(ParallelTrainer& trainer, const std::string& kind) {
  std::vector<float> all;
  for (const StateSlot& slot : trainer.state_slots())
    if (slot.name == kind) {
      const std::span<float> values = TensorView(slot.value).as<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

TEST(OuterLoop, ReplicasAreEqualBitsAfterEveryOuterStepAndApartBetween) {
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{2, 1, 2}})
    for (const char* codec : {"none", "quantize:bits=8", "group:bits=4+ef", "chunk_topk:k=64,values=codebook2+ef:beta=0.95", "powersgd:rank=2+ef"}) {
      TrainConfig c = config_of(mesh, diloco, DType::f32);
      c.compress[TrafficClass::outer_gradient].codec = codec;
      c.check();
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      for (int s = 1; s <= 6; ++s) {
        trainer->step();
        EXPECT_EQ(spread(*trainer, "weights"), 0) << codec;
        EXPECT_EQ(spread(*trainer, "outer_momentum"), 0) << codec;
        if (s % 3 == 0) {
          EXPECT_EQ(spread(*trainer, "local_weights"), 0) << codec;
          EXPECT_EQ(values_of(*trainer, "local_weights"), values_of(*trainer, "weights")) << codec;
        } else {
          EXPECT_GT(spread(*trainer, "local_weights"), 1e-5) << codec;
        }
        EXPECT_GT(spread(*trainer, "first_moment"), 1e-6) << "inner state is each replica's own";
      }
    }
}

/// The tied table on first and last stage.
TEST(OuterLoop, BothEndsOfAPipelineKeepOneTable) {
  TrainConfig c = config_of({1, 2, 2}, diloco, DType::f32);
  c.compress[TrafficClass::outer_gradient].codec = "group:bits=4+ef";
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  for (int s = 0; s < 6; ++s) trainer->step();
  expect_one_table(*trainer, {"weights", "local_weights"});
}

struct Bytes {
  std::int64_t link = 0, coded = 0, elements = 0;
  std::set<std::int64_t> steps;  ///< with outer gradients
};

/// Of all ranks together, over c.steps steps; elements of all weights.
Bytes bytes_of(Communicator& group, const TrainConfig& c) {
  const auto trainer = ParallelTrainer::make(group, c, corpus());
  Bytes b;
  for (std::int64_t s = 0; s < c.steps; ++s)
    for (const TrafficRecord& r : trainer->step().traffic) {
      EXPECT_NE(r.traffic, TrafficClass::dp_gradient) << "replicas of one rank have nobody to sum with";
      if (r.traffic != TrafficClass::outer_gradient) continue;
      b.link += r.total.link_bytes;
      if (r.codec != uncompressed) b.coded += r.total.link_bytes;
      b.steps.insert(s);
    }
  for (const StateSlot& slot : trainer->state_slots())
    if (slot.name == "weights") b.elements += slot.value.elements();
  double own[2] = {static_cast<double>(b.link), static_cast<double>(b.coded)}, all[2] = {};
  group.all_reduce(own, all, 2, DType::f64, ReduceOp::sum)->wait();
  b.link = static_cast<std::int64_t>(all[0]), b.coded = static_cast<std::int64_t>(all[1]);
  return b;
}

TEST(OuterLoop, BytesAreTheClosedForm) {
  for (const int replicas : {2, 4}) {
    const auto group = world().split(world().rank() / replicas, world().rank());
    TrainConfig c = config_of({1, 1, replicas}, diloco, DType::f32);
    c.comm_dtype = DType::f32;
    const Bytes dense = bytes_of(*group, c);
    EXPECT_EQ(dense.link, 2 * 2 * (replicas - 1) * dense.elements * 4) << "two outer steps of a ring";
    EXPECT_EQ(dense.steps, (std::set<std::int64_t>{2, 5}));
    // What SparseLoCo sends: 14 bits for each of 64 values of a chunk, and a book of four f32 for a matrix; matrices alone are coded.
    c.optimizer = "adamw+local_sgd:inner_steps=4";
    c.model.hidden = 64;
    c.compress[TrafficClass::outer_gradient].codec = "chunk_topk:k=64,values=codebook2+ef:beta=0.95";
    const Bytes sparse = bytes_of(*group, c);
    EXPECT_EQ(sparse.steps, (std::set<std::int64_t>{3, 7}));
    std::int64_t payload = 0;
    const auto add = [&](std::int64_t rows, std::int64_t columns) {
      std::int64_t kept = 0;
      for (std::int64_t y = 0; y < rows; y += 64)
        for (std::int64_t x = 0; x < columns; x += 64) kept += std::min<std::int64_t>(64, std::min<std::int64_t>(64, rows - y) * std::min<std::int64_t>(64, columns - x));
      payload += (kept * 2 + 7) / 8 + (kept * 12 + 7) / 8 + 16;
    };
    for (int layer = 0; layer < 2; ++layer) add(192, 64), add(64, 64), add(256, 64), add(64, 256);
    add(53, 64), add(parity_seq, 64);
    EXPECT_EQ(sparse.coded, 2 * replicas * (replicas - 1) * payload) << replicas;
  }
}

/// Of the outer steps, the third and the sixth.
std::vector<Messages> messages_of_rounds(const TrainConfig& c) {
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  std::vector<Messages> rounds;
  for (int s = 1; s <= 6; ++s) {
    const Messages m = messages_of(trainer->step(), TrafficClass::outer_gradient);
    if (s % 3 == 0)
      rounds.push_back(m);
    else
      EXPECT_EQ(m, Messages()) << s;
  }
  return rounds;
}

// A rank has ten matrices: two tables, and four of each layer.
TEST(OuterLoop, WhatNoRuleCoversIsOneMessage) {
  using Rounds = std::vector<Messages>;
  TrainConfig c = config_of({1, 1, 4}, diloco, DType::f32);
  EXPECT_EQ(messages_of_rounds(c), (Rounds{{1, 0}, {1, 0}}));
  CompressRule& rule = c.compress[TrafficClass::outer_gradient];
  rule.codec = "group:bits=4+ef";
  EXPECT_EQ(messages_of_rounds(c), (Rounds{{1, 10}, {1, 10}}));
  rule.layers = "1";
  EXPECT_EQ(messages_of_rounds(c), (Rounds{{1, 4}, {1, 4}}));
  rule.warmup_steps = 3;  // the first outer step is in step 2
  EXPECT_EQ(messages_of_rounds(c), (Rounds{{1, 0}, {1, 4}}));
  c = config_of({1, 2, 2}, diloco, DType::f32);
  EXPECT_EQ(messages_of_rounds(c), (Rounds{{1, 0}, {1, 0}}));
}

// A codec that loses nothing, on some of the matrices, so that others lie between them where they travel.
TEST(OuterLoop, ARuleOnSomeMatricesLeavesTheOthersAsTheyAre) {
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{1, 1, 4, "tp-pp-dp", 2}, MeshShape{2, 1, 2}}) {
    TrainConfig c = config_of(mesh, diloco, DType::f32);
    const RunCurve whole = parallel_curve(world(), c, corpus());
    CompressRule& rule = c.compress[TrafficClass::outer_gradient];
    rule.codec = "topk:fraction=1,values=f32";
    for (const char* layers : {"0", "1", "all"}) {
      rule.layers = layers;
      EXPECT_LT(distance(parallel_curve(world(), c, corpus()), whole), 1e-3) << describe_mesh(mesh) << layers;
    }
    // Until the rule acts the run is the dense one, bit for bit.
    rule.warmup_steps = 3;
    const RunCurve late = parallel_curve(world(), c, corpus());
    for (std::size_t s = 0; s < 6; ++s) EXPECT_EQ(late.loss[s], whole.loss[s]) << s;
  }
}

TEST(OuterLoop, SparseLoCoIsARuleOnLocalSgdAndLearns) {
  std::string text;  // each byte says the next
  for (int i = 0; i < 6000; ++i) text += static_cast<char>(7 * i % 53);
  const Corpus simple = Corpus::from_text(text, "outer loops, simple");
  TrainConfig c = config_of({1, 1, 4}, "adamw+local_sgd:inner_steps=4", DType::f32);
  c.steps = 40;
  c.trainer.schedule = {1e-2, 1e-3, 4, 40};
  const RunCurve whole = parallel_curve(world(), c, simple);
  c.compress[TrafficClass::outer_gradient].codec = "chunk_topk:k=64,values=codebook2+ef:beta=0.95";
  c.check();
  const RunCurve sparse = parallel_curve(world(), c, simple);
  EXPECT_LT(sparse.validation, sparse.loss.front() - 0.3);
  EXPECT_GT(sparse.validation, whole.validation) << "what is sent late is late";
  // Everything kept, in full precision: nothing is lost, and the residual stays zero.
  c.compress[TrafficClass::outer_gradient].codec = "chunk_topk:k=4096,values=f32+ef:beta=0.95";
  EXPECT_NEAR(parallel_curve(world(), c, simple).validation, whole.validation, 1e-3);
}

TEST(OuterLoop, GoesOnBitEqualFromTheMiddleOfARound) {
  const std::string path = scratch_file();
  std::vector<TrainConfig> cases = {config_of({1, 1, 4}, diloco, DType::f32), config_of({1, 2, 2}, diloco, DType::f32)};
  for (const int stage : {1, 3}) {
    cases.push_back(config_of({1, 1, 4, "tp-pp-dp", 2}, diloco, DType::f32));
    cases.back().zero_stage = stage;
  }
  for (TrainConfig& c : cases) {
    c.compress[TrafficClass::outer_gradient].codec = "group:bits=4+ef";
    EXPECT_EQ(difference(interrupted(c, corpus(), 4, 3, path, c), straight(c, corpus(), 7)), "") << describe_mesh(c.mesh) << c.zero_stage;
  }
}

TEST(OuterLoop, OtherReplicasAreRefusedOrBeginAtTheGlobalWeights) {
  const std::string path = scratch_file();
  const TrainConfig four = config_of({1, 1, 4}, diloco, DType::f32);
  TrainConfig two = config_of({1, 1, 4, "tp-pp-dp", 2}, diloco, DType::f32);
  std::vector<float> global, momentum;
  double validation = 0;
  {
    const auto trainer = ParallelTrainer::make(world(), four, corpus());
    for (int s = 0; s < 4; ++s) trainer->step();
    global = values_of(*trainer, "weights"), momentum = values_of(*trainer, "outer_momentum");
    EXPECT_NE(values_of(*trainer, "local_weights"), global);
    validation = trainer->validate();
    save_checkpoint(world(), *trainer, four, path);
  }
  expect_not_resumed(two, corpus(), path, {"local_weights", "4 replicas", "has 2", "--replica-state reset"});
  two.reset_replica_state = true;
  const auto trainer = ParallelTrainer::make(world(), two, corpus());
  EXPECT_EQ(load_checkpoint(world(), *trainer, two, path).steps, 4);
  EXPECT_EQ(values_of(*trainer, "weights"), global);
  EXPECT_EQ(values_of(*trainer, "local_weights"), global);
  EXPECT_EQ(values_of(*trainer, "outer_momentum"), momentum);
  EXPECT_NEAR(trainer->validate(), validation, 1e-6);
  EXPECT_TRUE(std::isfinite(trainer->step().loss));
  world().barrier();
  if (world().rank() == 0) std::filesystem::remove(path);
}

// Adam's first step moves every weight by the learning rate, whatever the gradient. Counted from the run's beginning its bias would be corrected as if
// there were moments already, and steps would be several times too long.
TEST(OuterLoop, MomentsThatBeginAnewAreCorrectedFromThere) {
  const std::string path = scratch_file();
  TrainConfig four = config_of({1, 1, 4}, "adamw+diloco:inner_steps=3", DType::f32);
  four.trainer.adamw.beta2 = 0.999, four.trainer.adamw.weight_decay = 0, four.trainer.adamw.epsilon = 1e-14, four.trainer.max_norm = 1e9;
  four.trainer.schedule = {3e-3, 3e-3, 0, 8};
  TrainConfig two = four;
  two.mesh.dp_replicas = 2;
  two.reset_replica_state = true;
  for (TrainConfig* c : {&two, &four}) {  // with as many replicas, too, if it is asked for
    {
      const auto trainer = ParallelTrainer::make(world(), four, corpus());
      for (int s = 0; s < 6; ++s) trainer->step();
      save_checkpoint(world(), *trainer, four, path);
    }
    c->reset_replica_state = true;
    const auto trainer = ParallelTrainer::make(world(), *c, corpus());
    load_checkpoint(world(), *trainer, *c, path);
    const auto before = values_of(*trainer, "local_weights");
    trainer->step();
    const auto after = values_of(*trainer, "local_weights");
    std::vector<double> moved;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (const double d = std::abs(static_cast<double>(after[i]) - static_cast<double>(before[i])); d > 1e-6) moved.push_back(d / 3e-3);
    ASSERT_GT(moved.size(), 500u);
    EXPECT_NEAR(*std::max_element(moved.begin(), moved.end()), 1, 2e-3);
    EXPECT_NEAR(median(moved), 1, 2e-3);
    // What is saved now goes on bit-equal: the number of the step that moments begin at is part of it.
    TrainConfig goes_on = *c;
    goes_on.reset_replica_state = false;
    save_checkpoint(world(), *trainer, goes_on, path);
    trainer->step();
    const auto resumed = ParallelTrainer::make(world(), goes_on, corpus());
    load_checkpoint(world(), *resumed, goes_on, path);
    resumed->step();
    EXPECT_EQ(values_of(*resumed, "local_weights"), values_of(*trainer, "local_weights"));
    c->reset_replica_state = false;
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove(path);
  }
}

// Moments of one replica are the run's: nothing of them begins again, whatever is asked for.
TEST(OuterLoop, WithoutAnOuterLoopMomentsGoOn) {
  const std::string path = scratch_file();
  TrainConfig c = config_of({1, 1, 4}, "adamw", DType::f32);
  c.mesh.dp_replicas = 1;
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  for (int s = 0; s < 4; ++s) trainer->step();
  save_checkpoint(world(), *trainer, c, path);
  trainer->step();
  c.reset_replica_state = true;
  const auto resumed = ParallelTrainer::make(world(), c, corpus());
  load_checkpoint(world(), *resumed, c, path);
  EXPECT_TRUE(resumed->update_numbers().empty());
  resumed->step();
  EXPECT_EQ(values_of(*resumed, "weights"), values_of(*trainer, "weights"));
  world().barrier();
  if (world().rank() == 0) std::filesystem::remove(path);
}

// Loss and norm are told for the record alone, and a timed step has none: on a link of a long latency it would be mostly that.
TEST(OuterLoop, ReplicasSendNothingInATimedStepBetweenTheirMeetings) {
  TrainConfig c = config_of({1, 1, 4}, diloco, DType::f32);
  const auto messages_of_three_steps = [&](TrafficClass traffic) {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    EXPECT_GT(messages_of(trainer->step(), TrafficClass::control).dense, 0) << "a step whose loss is known";
    trainer->set_compute(ComputeMode::serial);
    trainer->step();
    trainer->set_compute(ComputeMode::replay);
    std::int64_t dense = 0;
    for (int i = 0; i < 3; ++i) dense += messages_of(trainer->step(), traffic).dense;
    return dense;
  };
  EXPECT_EQ(messages_of_three_steps(TrafficClass::control), 0);
  EXPECT_EQ(messages_of_three_steps(TrafficClass::outer_gradient), 1) << "a meeting every three steps";
  c.optimizer = "adamw", c.mesh.dp_replicas = 1;
  EXPECT_EQ(messages_of_three_steps(TrafficClass::control), 0) << "each rank has the whole mean gradient";
  c.zero_stage = 1;
  EXPECT_EQ(messages_of_three_steps(TrafficClass::control), 3) << "control: a norm of shards, without which nothing is clipped";
}

TEST(OuterLoop, RefusesWhatItsMathsDoesNotAllow) {
  const auto refused = [](const char* part, auto change) {
    TrainConfig c = config_of({1, 1, 4}, diloco, DType::f32);
    change(c);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("replicas cannot train apart with it", [](TrainConfig& c) { c.optimizer = "onebit_adam+diloco"; });
  refused("replicas cannot train apart with it", [](TrainConfig& c) { c.optimizer = "dgc+local_sgd"; });
  refused("name that first: adamw+diloco", [](TrainConfig& c) { c.optimizer = "diloco"; });
  refused("unknown outer loop 'adamw'", [](TrainConfig& c) { c.optimizer = "adamw+adamw"; });
  refused("'diloco' has no parameter 'steps'", [](TrainConfig& c) { c.optimizer = "adamw+diloco:steps=3"; });
  refused("use two_step", [](TrainConfig& c) { c.mesh = {1, 2, 2, "tp-pp-dp", 2}, c.embedding_sync = "fused"; });
  refused("use --error-interval 0", [](TrainConfig& c) { c.error_interval = 2; });
  refused("no such traffic to compress", [](TrainConfig& c) { c.optimizer = "adamw", c.mesh.dp_replicas = 1, c.compress[TrafficClass::outer_gradient].codec = "group:bits=4"; });
  refused("take one without state", [](TrainConfig& c) { c.mesh.dp_replicas = 2, c.zero_stage = 1, c.compress[TrafficClass::param_all_gather].codec = "group:bits=8+ef"; });
}

}  // namespace
}  // namespace thinwire
