// labels: gpu, mpi
// ranks: 1
// devices: cuda, emulated, lazy
// slow: lazy
// timeout: 180
// A trainer whose tensors lie on a device follows the one on the host step by step, and goes on bit-equal from its own checkpoints and from
// the host's.
#include <numeric>

#include "tests/models/training/device_run.h"

namespace thinwire {
namespace {

using namespace testing;

/// Bytes that mostly follow from the one before: something to learn in few steps.
std::string chains() {
  const Random random(78, "chains");
  std::string text;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    at = random.below(2 * i, 5) == 0 ? random.below(2 * i + 1, 53) : (at + 7) % 53;
    text += static_cast<char>(at);
  }
  return text;
}

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(chains(), "chains");
  return text;
}

TrainConfig tiny() {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.model.hidden = 16, c.model.layers = 2, c.model.heads = 2;
  c.global_batch = 2;
  c.eval_sequences = 2;
  c.trainer.schedule = {1e-2, 1e-3, 10, 100};
  return c;
}

struct Course {
  std::vector<double> loss, norm;
  std::map<std::string, std::vector<double>> weights;
  double validation = 0;
};

Course course_of(const TrainConfig& c, int steps) {
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  Course r;
  for (int s = 0; s < steps; ++s) {
    const StepRecord record = trainer->step();
    r.loss.push_back(record.loss);
    r.norm.push_back(record.gradient_norm);
  }
  r.validation = trainer->validate();
  r.weights = weights_of(*trainer, c.model.vocab);
  return r;
}

// Sums run in other orders: rounding of 6e-8 per operation, amplified by 100 steps of AdamW.
TEST_F(DeviceTraining, HundredStepsInSinglePrecisionFollowTheHostsStepByStep) {
  const Course host = course_of(tiny(), 100), device = course_of(on_device(tiny()), 100);
  const auto mean_of_ten = [&](std::size_t first) { return std::accumulate(host.loss.begin() + first, host.loss.begin() + first + 10, 0.0) / 10; };
  ASSERT_LT(mean_of_ten(90), mean_of_ten(0) - 0.1) << "a reference that does not learn proves little";
  double worst_loss = 0, worst_norm = 0;
  for (std::size_t s = 0; s < host.loss.size(); ++s) {
    worst_loss = std::max(worst_loss, std::abs(device.loss[s] / host.loss[s] - 1));
    worst_norm = std::max(worst_norm, std::abs(device.norm[s] / host.norm[s] - 1));
    ASSERT_NEAR(device.loss[s], host.loss[s], 1e-4 * host.loss[s]) << "step " << s;
    ASSERT_NEAR(device.norm[s], host.norm[s], 1e-2 * host.norm[s]) << "step " << s;
  }
  EXPECT_NEAR(device.validation, host.validation, 1e-4 * host.validation);
  const auto [distance, name] = largest_distance(device.weights, host.weights);
  EXPECT_LT(distance, 1e-2) << name;
  std::printf("100 steps: losses within %.1e, norms within %.1e, weights within %.1e (%s)\n", worst_loss, worst_norm, distance, name.c_str());
}

// Against f32 on the host, where few processors multiply in bf16: operands of 8 bits.
TEST_F(DeviceTraining, WithProductsInBf16LossesStayNearThoseInF32) {
  TrainConfig c = on_device(tiny());
  c.model.compute = nn::ComputeType::bf16;
  const Course rounded = course_of(c, 10), exact = course_of(tiny(), 10);
  EXPECT_NE(rounded.loss, exact.loss);
  for (std::size_t s = 0; s < exact.loss.size(); ++s) EXPECT_NEAR(rounded.loss[s], exact.loss[s], 1e-2 * exact.loss[s]) << "step " << s;
}

TEST_F(DeviceTraining, SettingsThatKeepLessOrCutOtherwiseFollowTheHost) {
  for (int which = 0; which < 3; ++which) {
    TrainConfig c = tiny();
    if (which == 0) c.recompute = true;
    if (which == 1) c.schedule = "gpipe", c.global_batch = 4, c.micro_batch = 2;
    if (which == 2) c.schedule = "terapipe", c.token_slices = "8,5,3";
    c.check();
    const Course host = course_of(c, 4), device = course_of(on_device(c), 4);
    for (std::size_t s = 0; s < host.loss.size(); ++s) EXPECT_NEAR(device.loss[s], host.loss[s], 1e-5 * host.loss[s]) << "setting " << which << ", step " << s;
    EXPECT_LT(largest_distance(device.weights, host.weights).first, 1e-3) << "setting " << which;
  }
}

// The same kernels on the same numbers, launched as a whole from the third step on.
TEST_F(DeviceTraining, RecordedPassesChangeNoBit) {
  for (const int micro_batches : {1, 3}) {
    TrainConfig c = on_device(tiny());
    c.model.dropout = 0, c.micro_batch = 2, c.global_batch = 2 * micro_batches;
    const Course plain = course_of(c, 6);
    c.graphs = true;
    c.check();
    const Course recorded = course_of(c, 6);
    EXPECT_EQ(recorded.loss, plain.loss) << micro_batches;
    EXPECT_EQ(recorded.norm, plain.norm) << micro_batches;
    EXPECT_EQ(recorded.validation, plain.validation) << micro_batches;
    EXPECT_EQ(recorded.weights, plain.weights) << micro_batches;
  }
}

TEST_F(DeviceTraining, RecordedPassesAreLaunchedAsAWhole) {
  TrainConfig c = on_device(tiny());
  c.model.dropout = 0, c.graphs = true;
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  std::vector<std::size_t> sections;
  for (int s = 0; s < 4; ++s) {
    Trace::start();
    const StepRecord record = trainer->step();
    sections.push_back(Trace::stop().size());
    EXPECT_GT(record.forward_us, 0) << s;
  }
  EXPECT_GT(sections[0], 20u);
  EXPECT_LT(sections[3], 12u) << "zeros, two micro-batches forward and backward, norm, optimizer";
}

TEST_F(DeviceTraining, IsRepeatedBitForBit) {
  const Course a = course_of(on_device(tiny()), 5), b = course_of(on_device(tiny()), 5);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.weights, b.weights);
}

TEST_F(DeviceTraining, AResumedRunIsBitEqualToAnUninterruptedOne) {
  const TrainConfig c = on_device(tiny());
  EXPECT_EQ(difference(straight(c, corpus(), 6), interrupted(c, corpus(), 3, 3, scratch_file(), c)), "");
}

TEST_F(DeviceTraining, ACheckpointGoesFromTheHostToTheDeviceAndBackUnchanged) {
  const std::string path = scratch_file();
  const TrainConfig host = tiny(), device = on_device(host);
  const auto first = ParallelTrainer::make(world(), host, corpus());
  for (int s = 0; s < 3; ++s) first->step();
  const auto sent = weights_of(*first, host.model.vocab);
  save_checkpoint(world(), *first, host, path);
  const auto second = ParallelTrainer::make(world(), device, corpus());
  load_checkpoint(world(), *second, device, path);
  EXPECT_EQ(second->steps_taken(), 3);
  EXPECT_EQ(weights_of(*second, host.model.vocab), sent);
  save_checkpoint(world(), *second, device, path);
  const auto third = ParallelTrainer::make(world(), host, corpus());
  load_checkpoint(world(), *third, host, path);
  EXPECT_EQ(weights_of(*third, host.model.vocab), sent);
  // Moments came along: the host's next step is the same.
  EXPECT_EQ(third->step().loss, first->step().loss);
  EXPECT_EQ(weights_of(*third, host.model.vocab), weights_of(*first, host.model.vocab));
  std::filesystem::remove(path);
}

TEST_F(DeviceTraining, TimesOfAStepAreTheDevicesOwn) {
  const auto trainer = ParallelTrainer::make(world(), on_device(tiny()), corpus());
  trainer->step();
  Trace::start();
  const StepRecord record = trainer->step();
  double traced = 0;
  for (const TraceSpan& span : Trace::stop())
    if (span.category == TraceCategory::compute) {
      EXPECT_LE(span.begin_ns, span.end_ns);
      traced += static_cast<double>(span.end_ns - span.begin_ns) * 1e-3;
    }
  EXPECT_GT(record.forward_us, 0);
  EXPECT_GT(record.backward_us, 0);
  EXPECT_GE(record.compute_us, record.forward_us + record.backward_us);
  EXPECT_NEAR(traced, record.compute_us, 1e-6 * record.compute_us + 1e-3 * static_cast<double>(record.tokens));
}

TEST_F(DeviceTraining, RefusesWhatADeviceDoesNotDo) {
  TrainConfig c = on_device(tiny());
  c.dtype = DType::f64;
  EXPECT_THROW(c.check(), UsageError);
  c = on_device(tiny());
  c.compute = ComputeMode::replay;
  EXPECT_THROW(c.check(), UsageError);
  c = on_device(tiny());  // with dropout
  c.graphs = true;
  EXPECT_THROW(c.check(), UsageError);
  const auto trainer = ParallelTrainer::make(world(), on_device(tiny()), corpus());
  EXPECT_THROW(trainer->set_compute(ComputeMode::serial), UsageError);
}

TEST_F(DeviceTraining, ATokenOutsideTheVocabularyIsReportedAtTheEndOfTheStep) {
  TrainConfig c = on_device(tiny());
  c.model.vocab = 20;  // of 53 that the text has
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  EXPECT_THROW(trainer->step(), CorruptData);
}

}  // namespace
}  // namespace thinwire
