// labels: mpi
// ranks: 4
// timeout: 300
// 1-bit Adam: AdamW to the bit before the freeze; after it the written recursion, on every split; with signs and both errors it learns on, and a resumed run
// is bit-equal.
#include <cmath>

#include "models/layout/parameter.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "onebit adam");
  return text;
}

TrainConfig config_of(MeshShape mesh, int freeze, DType dtype = DType::f64) {
  TrainConfig c = parity_config();
  c.dtype = dtype;
  c.mesh = mesh;
  c.model.layers = 2;
  c.steps = 6;
  c.trainer.max_norm = 1e9;  // nothing is clipped after the freeze
  c.optimizer = "onebit_adam:freeze=" + std::to_string(freeze);
  return c;
}

TEST(OnebitAdam, IsAdamWUntilTheFreeze) {
  TrainConfig adamw = config_of({1, 1, 4}, 100);
  adamw.optimizer = "adamw";
  const RunCurve reference = parallel_curve(world(), adamw, corpus()), same = parallel_curve(world(), config_of({1, 1, 4}, 100), corpus());
  EXPECT_EQ(same.loss, reference.loss);
  EXPECT_EQ(same.norm, reference.norm);
  const RunCurve frozen = parallel_curve(world(), config_of({1, 1, 4}, 3), corpus());
  for (std::size_t step = 0; step < 4; ++step) EXPECT_EQ(frozen.loss[step], reference.loss[step]);
  EXPECT_NE(frozen.loss[5], reference.loss[5]) << "the variance went on";
}

/// Weights, first and second moments of a rank, by parameter.
std::vector<std::vector<double>> state_of(ParallelTrainer& trainer, const std::string& kind) {
  std::vector<std::vector<double>> all;
  for (const StateSlot& slot : trainer.state_slots())
    if (slot.name == kind) {
      const std::span<double> values = TensorView(slot.value).as<double>();
      all.emplace_back(values.begin(), values.end());
    }
  return all;
}

// w_t+1 and v_t+1 from m_t+1, v_t and w_t, in the formula's own order; and m_t+1 - beta1 m_t is (1 - beta1) times the mean gradient: that of one rank with the whole batch.
TEST(OnebitAdam, FollowsTheWrittenRecursionAfterTheFreeze) {
  const auto alone = world().split(world().rank(), 0);
  const TrainConfig c = config_of({1, 1, 4}, 2);
  const auto trainer = ParallelTrainer::make(world(), c, corpus()), single = ParallelTrainer::make(*alone, config_of({1, 1, 1}, 2), corpus());
  const nn::AdamW& adamw = c.trainer.adamw;
  for (int step = 0; step < 6; ++step) {
    const auto w = state_of(*trainer, "weights"), v = state_of(*trainer, "second_moment"), m = state_of(*trainer, "first_moment");
    const StepRecord record = trainer->step();
    single->step();
    const auto w_next = state_of(*trainer, "weights"), v_next = state_of(*trainer, "second_moment"), m_next = state_of(*trainer, "first_moment"),
               m_single = state_of(*single, "first_moment");
    ASSERT_EQ(w.size(), m.size());
    if (step < 2) continue;
    EXPECT_EQ(v_next, v) << "the variance is frozen";
    for (std::size_t p = 0; p < w.size(); ++p)
      for (std::size_t i = 0; i < w[p].size(); ++i) {
        const double direction = m_next[p][i] / (1 - std::pow(adamw.beta1, step + 1)) / (std::sqrt(v[p][i] / (1 - std::pow(adamw.beta2, 2))) + adamw.epsilon);
        const double undecayed = w[p][i] - record.learning_rate * direction, decayed = undecayed - record.learning_rate * adamw.weight_decay * w[p][i];
        EXPECT_LT(std::min(std::abs(w_next[p][i] - undecayed), std::abs(w_next[p][i] - decayed)), 1e-12) << step;
        EXPECT_NEAR(m_next[p][i], m_single[p][i], 1e-12) << step;
      }
  }
}

TEST(OnebitAdam, ADenseExchangeDoesNotDependOnTheSplit) {
  const auto alone = world().split(world().rank(), 0);
  const RunCurve reference = parallel_curve(*alone, config_of({1, 1, 1}, 3), corpus());
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{2, 1, 2}, MeshShape{4, 1, 1}}) {
    const RunCurve curve = parallel_curve(world(), config_of(mesh, 3), corpus());
    for (std::size_t i = 0; i < curve.loss.size(); ++i) EXPECT_NEAR(curve.loss[i], reference.loss[i], 1e-10) << describe_mesh(mesh);
  }
}

TrainConfig with_signs() {
  TrainConfig c = config_of({1, 1, 4}, 8, DType::f32);
  c.steps = 24;
  c.trainer.schedule = {3e-3, 3e-4, 4, 24};
  c.compress[TrafficClass::optimizer] = {.codec = "sign:scale=l2+ef", .protocol = Protocol::two_shot};
  return c;
}

TEST(OnebitAdam, LearnsOnWithOneBitOfMomentum) {
  TrainConfig dense = with_signs();
  dense.compress.clear();
  const RunCurve reference = parallel_curve(world(), dense, corpus());
  const TrainConfig c = with_signs();
  c.check();
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  std::vector<double> loss;
  std::int64_t dense_bytes = 0, payload = 0;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    loss.push_back(record.loss);
    for (const TrafficRecord& r : record.traffic) {
      if (r.traffic == TrafficClass::optimizer && r.codec != uncompressed) dense_bytes += 2 * r.total.dense_bytes, payload += r.total.payload_bytes;
      if (r.traffic == TrafficClass::dp_gradient) {
        EXPECT_LT(s, 8) << "gradients travelled after the freeze";
      }
    }
  }
  EXPECT_GT(payload, 0);
  EXPECT_LT(16 * payload, dense_bytes) << "a bit and scales for 32 bits, two shots";
  for (std::size_t s = 0; s < 9; ++s) EXPECT_EQ(loss[s], reference.loss[s]);
  EXPECT_LT(loss.back(), loss[8]);
  EXPECT_NEAR(loss.back(), reference.loss.back(), 0.1 * reference.loss.back());
}

TEST(OnebitAdam, GoesOnBitEqualFromACheckpointWithItsErrors) {
  const std::string path = scratch_file();
  TrainConfig c = with_signs();
  c.optimizer = "onebit_adam:freeze=2";
  EXPECT_EQ(difference(interrupted(c, corpus(), 4, 3, path, c), straight(c, corpus(), 7)), "");
}

TEST(OnebitAdam, RefusesSplitsThatItsMathsDoesNotAllow) {
  const auto refused = [](const char* part, auto change) {
    TrainConfig c = config_of({1, 1, 4}, 2);
    change(c);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("--zero-stage 1", [](TrainConfig& c) { c.zero_stage = 1; });
  refused("--pp 2", [](TrainConfig& c) { c.mesh = {1, 2, 2}; });
  refused("--sequence-parallel true", [](TrainConfig& c) { c.mesh = {2, 1, 2}, c.sequence_parallel = true; });
}

}  // namespace
}  // namespace thinwire
