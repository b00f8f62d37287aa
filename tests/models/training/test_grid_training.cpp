// labels: mpi, parity
// ranks: 8
// timeout: 300
// Training with 2-D, 2.5-D and 3-D tensor parallelism follows the single-device trainer, alone and with pipeline and data parallelism,
// recomputation and a sharded optimizer; with codecs on its traffic it still learns and sends less.
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parity");
  return text;
}

TrainConfig config_of(const std::string& grid, int tp, int pp, int dp) {
  TrainConfig c = parity_config();
  c.model.layers = 2;
  c.steps = 10;
  c.trainer.schedule = {1e-2, 1e-3, 1, 10};
  c.tensor_parallel = grid;
  c.mesh.tp = tp, c.mesh.pp = pp, c.mesh.dp = dp;
  c.micro_batch = 4;
  return c;
}

std::vector<TrainConfig> every_case() {
  std::vector<TrainConfig> cases = {config_of("2d", 4, 2, 1), config_of("2d", 4, 1, 2), config_of("2.5d:depth=2", 8, 1, 1),
                                    config_of("3d", 8, 1, 1), config_of("3d:sides=1x2x2", 4, 2, 1), config_of("3d:sides=2x1x2", 4, 1, 2)};
  cases.push_back(config_of("3d", 8, 1, 1));
  cases.back().recompute = true;
  cases.push_back(config_of("2d", 4, 1, 2));
  cases.back().zero_stage = 1, cases.back().embedding_sync = "fused";
  return cases;
}

std::string name_of(const TrainConfig& c) {
  return c.tensor_parallel + ", pp " + std::to_string(c.mesh.pp) + ", dp " + std::to_string(c.mesh.dp) + (c.recompute ? ", recompute" : "") +
         (c.zero_stage > 0 ? ", sharded" : "") + ", " + c.schedule;
}

TEST(GridTraining, FollowsTheSingleDeviceInDoublePrecision) {
  const RunCurve reference = single_device_curve(config_of("1d", 1, 1, 1), corpus());
  ASSERT_LT(reference.loss.back(), reference.loss.front());
  for (const TrainConfig& c : every_case()) {
    const double d = distance(parallel_curve(world(), c, corpus()), reference);
    EXPECT_LT(d, 1e-10) << name_of(c);
    if (world().rank() == 0) std::printf("%8.2e  %s\n", d, name_of(c).c_str()), std::fflush(stdout);
  }
}

TEST(GridTraining, SinglePrecisionStaysWithinItsBound) {
  const RunCurve reference = single_device_curve(config_of("1d", 1, 1, 1), corpus());
  for (TrainConfig c : {config_of("2d", 4, 2, 1), config_of("3d", 8, 1, 1)}) {
    c.dtype = DType::f32;
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-5) << name_of(c);
  }
}

std::int64_t sent(const std::vector<TrafficRecord>& records, TrafficClass traffic) {
  std::int64_t bytes = 0;
  for (const TrafficRecord& r : records)
    if (r.traffic == traffic) bytes += r.total.link_bytes;
  return bytes;
}

TEST(GridTraining, CompressedTrafficIsSmallerAndTheModelStillLearns) {
  for (TrainConfig c : {config_of("2d", 4, 2, 1), config_of("3d", 8, 1, 1)}) {
    c.dtype = DType::f32;
    c.steps = 12;
    const auto dense = ParallelTrainer::make(world(), c, corpus());
    const std::vector<TrafficRecord> plain = dense->step().traffic;
    const std::vector<TrafficClass> classes = {TrafficClass::tp_forward, TrafficClass::tp_backward, TrafficClass::tp_weight, TrafficClass::tp_weight_gradient};
    for (const TrafficClass traffic : classes) c.compress[traffic].codec = "quantize:bits=8";
    const auto coded = ParallelTrainer::make(world(), c, corpus());
    const StepRecord first = coded->step();
    for (const TrafficClass traffic : classes) {
      EXPECT_GT(sent(plain, traffic), 0) << thinwire::name_of(traffic);
      EXPECT_LT(sent(first.traffic, traffic), sent(plain, traffic) / 2) << thinwire::name_of(traffic) << ", " << name_of(c);
    }
    double last = first.loss;
    for (int s = 1; s < c.steps; ++s) last = coded->step().loss;
    EXPECT_LT(last, first.loss - 0.02) << name_of(c);
  }
}

TEST(GridTraining, EveryWeightIsEncodedOncePerStepHoweverOftenItIsGathered) {
  for (TrainConfig c : {config_of("2d", 4, 2, 1), config_of("2.5d:depth=2", 8, 1, 1), config_of("3d", 8, 1, 1)}) {
    c.dtype = DType::f32;
    c.recompute = true;
    c.compress[TrafficClass::tp_weight].codec = "quantize:bits=8";
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    const bool box = c.tensor_parallel == "3d", last_stage = trainer->mesh().last_stage();
    for (int s = 0; s < 3; ++s) {
      std::int64_t messages = 0, reused = 0;
      for (const TrafficRecord& r : trainer->step().traffic)
        if (r.traffic == TrafficClass::tp_weight && r.codec != "none") messages += r.operations, reused += r.total.reused_payloads;
      // Of the linears of a layer, of the table for the head, which in 3-D is that of the look-up: forward, twice with recomputation, and
      // backward, for each of the micro-batches. In 2-D a rank encodes one in q of the messages that it takes part in.
      const std::int64_t layers = c.model.layers / c.mesh.pp, micros = c.micro_batches(), q = box ? 1 : 2;
      const std::int64_t weights = 4 * layers + (last_stage ? 1 : 0);
      EXPECT_EQ(messages, micros * q * (3 * 4 * layers + (last_stage ? 2 : 0) + (box ? 1 : 0))) << name_of(c) << ", step " << s;
      EXPECT_EQ(messages / q - reused, weights) << name_of(c) << ", step " << s;
    }
  }
}

TEST(GridTraining, WhatAGridCannotDoIsRefusedWithItsReason) {
  const auto refusal = [](TrainConfig c) -> std::string {
    try {
      c.check();
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  const auto expect = [&](const TrainConfig& c, std::initializer_list<const char*> parts) {
    const std::string text = refusal(c);
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  };
  expect(config_of("2d", 8, 1, 1), {"square", "8", "4 (2x2)", "9 (3x3)"});
  TrainConfig c = config_of("3d", 8, 1, 1);
  c.micro_batch = 2;
  expect(c, {"micro-batch 2", "4"});
  c = config_of("2d", 4, 1, 1);
  c.sequence_parallel = true;
  expect(c, {"--sequence-parallel", "2d"});
  c = config_of("2d", 4, 1, 1);
  c.dtype = DType::f32;
  c.compress[TrafficClass::tp_forward].codec = "topk:fraction=0.1";
  expect(c, {"tp_forward", "straight-through"});
  c.compress[TrafficClass::tp_forward].codec = "quantize:bits=8+ef";
  expect(c, {"tp_forward", "without wrappers"});
}

}  // namespace
}  // namespace thinwire
