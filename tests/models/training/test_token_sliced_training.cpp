// labels: mpi, parity
// ranks: 4
// timeout: 120
// Token-sliced training (TeraPipe) is training: gradients, losses and validation equal those of the single device, which knows no slices,
// over stages, tensor ranks and replicas; with dropout, padding, recomputation and scattered boundaries.
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parity");
  return text;
}

TrainConfig config() {
  TrainConfig c = parity_config();
  c.model.layers = 4;
  c.global_batch = 4, c.micro_batch = 1;
  c.steps = 6;
  c.trainer.schedule = {3e-3, 3e-4, 2, 6};
  c.eval_sequences = 4;
  c.schedule = "terapipe";
  return c;
}

/// The first moment of AdamW without memory is the gradient itself.
TrainConfig keeping_gradients(TrainConfig c) {
  c.trainer.adamw.beta1 = 0;
  c.trainer.max_norm = 1e9;
  c.steps = 1;
  return c;
}

/// Gradients of the first step on one device, by parameter.
std::map<std::string, std::vector<double>> reference_gradients(const TrainConfig& c) {
  Gpt<double> model(c.model);
  const BatchSampler sampler(corpus().training(), c.model.seed, "data.training");
  const Batch batch = sampler.batch(0, 0, c.global_batch, c.seq);
  Gpt<double>::Activations saved;
  model.zero_gradients();
  model.forward(batch, 0, true, 1.0, saved);
  model.backward(batch, saved);
  std::map<std::string, std::vector<double>> all;
  for (const Parameter<double>* p : model.parameters()) all[p->name()] = {p->g(), p->g() + p->elements()};
  return all;
}

/// Relative L2 distance over all gradients of the model.
double gradient_distance(Communicator& group, const TrainConfig& c, const std::map<std::string, std::vector<double>>& reference) {
  const auto trainer = ParallelTrainer::make(group, c, corpus());
  trainer->step();
  double sums[2] = {0, 0}, all[2];
  for (const StateSlot& t : trainer->state_slots()) {
    if (t.name != "first_moment" || t.copy || !t.layout.counts_in_norm()) continue;
    const auto gradient = t.value.as<double>();
    const std::vector<double>& expected = reference.at(t.layout.name());
    const std::int64_t offset = t.first_row * t.value.shape().columns();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto at = static_cast<std::size_t>(t.layout.global_index(offset + static_cast<std::int64_t>(i)));
      if (at >= expected.size()) continue;  // padding of the vocabulary
      sums[0] += (gradient[i] - expected[at]) * (gradient[i] - expected[at]);
      sums[1] += expected[at] * expected[at];
    }
  }
  group.all_reduce(sums, all, 2, DType::f64, ReduceOp::sum)->wait();
  return std::sqrt(all[0] / all[1]);
}

std::string describe(const TrainConfig& c) {
  return "tp" + std::to_string(c.mesh.tp) + " pp" + std::to_string(c.mesh.pp) + " dp" + std::to_string(c.mesh.dp) + ", slices " + c.token_slices +
         ", micro-batch " + std::to_string(c.micro_batch);
}

TEST(TokenSlicedTraining, GradientsOfAllParametersAreThoseOfTheUnslicedModel) {
  const auto reference = reference_gradients(keeping_gradients(config()));
  const auto pair = world().split(world().rank() / 2, world().rank());
  double worst = 0;
  for (const MeshShape& mesh : {MeshShape{1, 2, 1}, MeshShape{1, 4, 1}, MeshShape{2, 2, 1}, MeshShape{1, 2, 2}})
    for (const char* slices : {"1", "2", "4", "16", "8,4,4", "1,14,1", "3,5,7,1"}) {
      TrainConfig c = keeping_gradients(config());
      c.mesh = mesh;
      c.token_slices = slices;
      c.micro_batch = mesh.dp == 2 ? 2 : 1;
      const double d = gradient_distance(mesh.ranks() == 2 ? *pair : world(), c, reference);
      EXPECT_LT(d, 1e-10) << describe(c);
      worst = std::max(worst, d);
    }
  if (world().rank() == 0) std::printf("largest relative distance of the gradients %.2e\n", worst);
}

TEST(TokenSlicedTraining, LossesNormsAndValidationFollowTheSingleDevice) {
  const RunCurve reference = single_device_curve(config(), corpus());
  std::vector<TrainConfig> cases;
  const auto add = [&](MeshShape mesh, const char* slices, const std::function<void(TrainConfig&)>& change) {
    TrainConfig c = config();
    c.mesh = mesh, c.token_slices = slices;
    change(c);
    c.check();
    cases.push_back(c);
  };
  add({1, 4, 1}, "4", [](TrainConfig&) {});
  add({1, 4, 1}, "6,4,3,2,1", [](TrainConfig& c) { c.micro_batch = 2; });
  add({1, 4, 1}, "4", [](TrainConfig& c) { c.recompute = true; });
  add({2, 2, 1}, "8,6,2", [](TrainConfig& c) { c.recompute = true; });
  add({2, 2, 1}, "8", [](TrainConfig& c) { c.scatter_gather = true, c.micro_batch = 2; });
  add({1, 2, 2}, "2", [](TrainConfig& c) { c.zero_stage = 1, c.embedding_sync = "fused"; });
  add({4, 1, 1}, "5,5,6", [](TrainConfig& c) { c.micro_batch = 4; });
  add({2, 1, 2}, "4", [](TrainConfig& c) { c.blocking_sends = true; });
  for (const TrainConfig& c : cases) EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10) << describe(c);
}

TEST(TokenSlicedTraining, ASliceIsAMessageOfItsOwnToCodecsWithState) {
  // PowerSGD keeps its factors and lazy error propagation its residual by message: slices of different lengths must not meet.
  TrainConfig c = config();
  c.dtype = DType::f32;
  c.mesh = {2, 2, 1};
  c.token_slices = "8,5,3";
  c.micro_batch = 2;
  const RunCurve dense = parallel_curve(world(), c, corpus());
  c.compress[TrafficClass::pp_backward].codec = "powersgd:rank=6+lep";
  c.compress[TrafficClass::pp_forward].codec = "quantize:bits=8";
  c.compress[TrafficClass::tp_forward].codec = "topk:fraction=0.9";
  c.check();
  const RunCurve coded = parallel_curve(world(), c, corpus());
  const double d = distance(coded, dense);
  EXPECT_GT(d, 1e-6) << "nothing was lost";
  EXPECT_LT(std::abs(coded.loss.back() - dense.loss.back()), 0.05);
}

TEST(TokenSlicedTraining, TimedStepsKeepTheTimesOfSlicesApart) {
  TrainConfig c = config();
  c.mesh = {1, 4, 1};
  c.token_slices = "15,1";
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  trainer->step();
  trainer->set_compute(ComputeMode::serial);
  trainer->step();
  trainer->set_compute(ComputeMode::replay);
  const StepRecord record = trainer->step();
  ASSERT_EQ(record.slice_forward_us.size(), 2u);
  ASSERT_EQ(record.slice_backward_us.size(), 2u);
  for (std::size_t slice = 0; slice < 2; ++slice) {
    EXPECT_GT(record.slice_forward_us[slice], 0) << slice;
    EXPECT_GT(record.slice_backward_us[slice], 0) << slice;
  }
  EXPECT_NEAR(record.slice_forward_us[0] + record.slice_forward_us[1], record.forward_us, 1e-6 * record.forward_us);
  EXPECT_NEAR(record.slice_backward_us[0] + record.slice_backward_us[1], record.backward_us, 1e-6 * record.backward_us);
}

TEST(TokenSlicedTraining, WhatCannotBeCutIsRefusedWithTheReason) {
  const auto message = [](const std::function<void(TrainConfig&)>& change) {
    TrainConfig c = config();
    c.mesh = {2, 2, 1};
    c.token_slices = "4";
    change(c);
    try {
      c.check();
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([](TrainConfig&) {}), "");
  const auto refuses = [&](const std::function<void(TrainConfig&)>& change, const std::string& words) {
    EXPECT_NE(message(change).find(words), std::string::npos) << words << " is not in: " << message(change);
  };
  refuses([](TrainConfig& c) { c.token_slices = "3"; }, "16 tokens cannot be cut into 3");
  refuses([](TrainConfig& c) { c.token_slices = "8,4"; }, "make up 12 tokens");
  refuses([](TrainConfig& c) { c.schedule = "1f1b"; }, "use schedule terapipe");
  refuses([](TrainConfig& c) { c.schedule = "interleaved", c.virtual_stages = 2; }, "use schedule terapipe");
  refuses([](TrainConfig& c) { c.virtual_stages = 2; }, "use schedule interleaved, or 1 virtual stage");
  refuses([](TrainConfig& c) { c.sequence_parallel = true; }, "across sequences");
  refuses([](TrainConfig& c) { c.mesh.tp = 4, c.tensor_parallel = "2d", c.micro_batch = 2; }, "whole sequences; use 1d");
  refuses([](TrainConfig& c) { c.scatter_gather = true, c.token_slices = "16"; }, "splits the 1 rows of a slice");
  refuses([](TrainConfig& c) { c.compute = ComputeMode::replay, c.forward_us = c.backward_us = 10; }, "slices of one differ");
  refuses([](TrainConfig& c) { c.dtype = DType::f32, c.compress[TrafficClass::pp_forward].codec = "autoencoder:fraction=0.25"; }, "auto-encoder");
  refuses([](TrainConfig& c) { c.dtype = DType::f32, c.compress[TrafficClass::pp_backward].codec = "powersgd:rank=5"; }, "rank 5 is above 4");
  refuses([](TrainConfig& c) { c.dtype = DType::f32, c.compress[TrafficClass::pp_backward] = {.codec = "powersgd:rank=2", .epilogue_only = true}; }, "1f1b pipeline");
}

}  // namespace
}  // namespace thinwire
