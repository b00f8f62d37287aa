// labels: mpi, resume
// ranks: 4
// timeout: 300
// Activations whose change since the last epoch is sent (delta, AQ-SGD): the first epoch is that of a dense run, later ones send the codec's payload, a run goes on
// bit-equal from a checkpoint, with micro-batches and with parts of boundary tensors.
#include <gtest/gtest.h>

#include "models/data/batches.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t windows = 8, steps_of_an_epoch = 2;
constexpr int steps = 8;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "sample caches");
  return text;
}

TrainConfig config(MeshShape mesh, const std::string& codec) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.mesh = mesh;
  c.model.layers = 4;
  c.global_batch = 4;
  c.micro_batch = mesh.tp;  // of which tensor ranks send whole samples
  c.scatter_gather = mesh.tp > 1;
  c.error_interval = 0;
  c.compress[TrafficClass::pp_forward].codec = codec;
  return c;
}

std::unique_ptr<ParallelTrainer> trainer(const TrainConfig& c) {
  return ParallelTrainer::make(world(), c, text_data(corpus(), c.model.seed, {.windows = windows, .global_batch = c.global_batch}));
}

struct Course {
  Outcome outcome;
  std::vector<std::int64_t> bytes;  ///< of pp_forward, by step, over all ranks
};

Course run(const TrainConfig& c, int save_after = 0) {
  Course r;
  auto mine = trainer(c);
  for (int s = 0; s < steps; ++s) {
    const StepRecord step = mine->step();
    r.outcome.losses.push_back(step.loss);
    std::int64_t sent = 0, all = 0;
    for (const TrafficRecord& record : step.traffic)
      if (record.traffic == TrafficClass::pp_forward) sent += record.total.payload_bytes;
    world().all_reduce(&sent, &all, 1, DType::i64, ReduceOp::sum)->wait();
    r.bytes.push_back(all);
    if (s + 1 != save_after) continue;
    const std::string path = scratch_file();
    save_checkpoint(world(), *mine, c, path);
    mine = trainer(c);
    load_checkpoint(world(), *mine, c, path);
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove(path);
  }
  finish(*mine, r.outcome);
  return r;
}

TEST(SampleCaches, TheFirstEpochIsDenseLaterOnesSendChangesAndResumingIsBitEqual) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  for (const MeshShape& mesh : {MeshShape{1, 4, 1}, MeshShape{2, 2, 1}, MeshShape{1, 2, 2}}) {
    SCOPED_TRACE(std::to_string(mesh.tp) + " x " + std::to_string(mesh.pp) + " x " + std::to_string(mesh.dp));
    const Course dense = run(config(mesh, "none"));
    const TrainConfig coded = config(mesh, "quantize:bits=2,packing=neighbour+delta");
    const Course delta = run(coded);
    for (int s = 0; s < steps; ++s) {
      const auto at = static_cast<std::size_t>(s);
      if (s < steps_of_an_epoch) {
        EXPECT_EQ(delta.outcome.losses[at], dense.outcome.losses[at]) << "f32 travels, step " << s;
        EXPECT_GT(delta.bytes[at], dense.bytes[at]) << "a byte each more";
        EXPECT_LT(delta.bytes[at], dense.bytes[at] + 100);
      } else {
        EXPECT_NE(delta.outcome.losses[at], dense.outcome.losses[at]) << "step " << s;
        const std::int64_t gathered = mesh.tp > 1 ? dense.bytes[at] / 2 : 0;  // tensor ranks put the parts together, uncompressed
        EXPECT_LT(delta.bytes[at], gathered + dense.bytes[at] / 8) << "2 bits and scales of 32, step " << s;
      }
    }
    for (const int after : {1, 5}) EXPECT_EQ(difference(run(coded, after).outcome, delta.outcome), "") << "saved after step " << after;
  }
}

TEST(SampleCaches, SamplesThatNeverComeAgainOrAreTooManyAreRefusedBeforeTheFirstStep) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const auto refusal = [](const TrainConfig& c, std::int64_t samples) {
    try {
      ParallelTrainer::make(world(), c, text_data(corpus(), c.model.seed, {.windows = samples, .global_batch = c.global_batch}));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const TrainConfig c = config({1, 4, 1}, "quantize:bits=4+delta"), few = config({1, 4, 1}, "quantize:bits=4+delta:samples=6+hadamard");
  EXPECT_NE(refusal(c, 0).find("--data text:windows=N"), std::string::npos) << refusal(c, 0);
  EXPECT_EQ(refusal(c, 8), "");
  EXPECT_EQ(refusal(few, 4), "");
  for (const char* says : {"has 8 of them", "remembers 6", "samples=8"}) EXPECT_NE(refusal(few, 8).find(says), std::string::npos) << refusal(few, 8);
  EXPECT_EQ(refusal(config({1, 4, 1}, "quantize:bits=4"), 0), "") << "who remembers no samples needs none again";
}

// The sender says so at once, where a run is too short for anything to come again.
TEST(SampleCaches, ARunOfLessThanTwoEpochsIsWarnedOf) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  TrainConfig c = config({1, 4, 1}, "quantize:bits=4+delta");
  for (const std::int64_t run : {3, 4}) {
    c.steps = run;  // epochs of two steps
    ::testing::internal::CaptureStderr();
    trainer(c);
    const bool warned = ::testing::internal::GetCapturedStderr().find("most messages travel whole") != std::string::npos;
    EXPECT_EQ(warned, run == 3 && world().rank() == 0) << run << " steps";
  }
}

TEST(SampleCaches, PartsOfSamplesAreRefusedWhenTheConfigurationIsRead) {
  TrainConfig c = config({2, 2, 1}, "quantize+delta");
  EXPECT_NO_THROW(c.check());
  c.micro_batch = 1;
  EXPECT_THROW(c.check(), UsageError);
  c.scatter_gather = false;
  EXPECT_NO_THROW(c.check());
  c.sequence_parallel = true;
  EXPECT_THROW(c.check(), UsageError);
  TrainConfig sums = config({1, 2, 2}, "none");
  sums.compress[TrafficClass::dp_gradient].codec = "quantize+delta";
  EXPECT_THROW(sums.check(), UsageError);
}

}  // namespace
}  // namespace thinwire
