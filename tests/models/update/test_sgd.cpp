// labels: mpi
// ranks: 4
// timeout: 300
// Gradient descent with momentum: the written recursion, on every split and from every store; a resumed run is bit-equal.
#include <cmath>

#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "sgd");
  return text;
}

TrainConfig config_of(MeshShape mesh, const std::string& optimizer, int zero_stage = 0) {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model.layers = 4;
  c.steps = 5;
  c.trainer.schedule = {0.5, 0.05, 2, 5};
  c.optimizer = optimizer;
  c.zero_stage = zero_stage;
  return c;
}

std::vector<std::vector<double>> state_of(ParallelTrainer& trainer, const std::string& kind) {
  std::vector<std::vector<double>> all;
  for (const StateSlot& slot : trainer.state_slots())
    if (slot.name == kind) {
      const std::span<double> values = TensorView(slot.value).as<double>();
      all.emplace_back(values.begin(), values.end());
    }
  return all;
}

// On one rank: u_t+1 - m u_t is the clipped gradient, whose norm is the recorded one or the largest allowed; w_t+1 follows from it in the formula's own order.
TEST(Sgd, FollowsTheWrittenRecursion) {
  const auto alone = world().split(world().rank(), 0);
  for (const auto& [nesterov, sign] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    TrainConfig c = config_of({1, 1, 1}, std::string("sgd:momentum=0.8,nesterov=") + (nesterov ? "true" : "false") + (sign ? ",sign=true" : ""));
    if (sign) c.trainer.schedule = {0.01, 0.001, 2, 5};
    const auto trainer = ParallelTrainer::make(*alone, c, corpus());
    bool clipped = false;
    for (int step = 0; step < 5; ++step) {
      const auto w = state_of(*trainer, "weights"), u = state_of(*trainer, "momentum");
      const StepRecord record = trainer->step();
      const auto w_next = state_of(*trainer, "weights"), u_next = state_of(*trainer, "momentum");
      ASSERT_EQ(w.size(), u.size());
      double squares = 0;
      for (std::size_t p = 0; p < w.size(); ++p)
        for (std::size_t i = 0; i < w[p].size(); ++i) {
          const double g = u_next[p][i] - 0.8 * u[p][i], sum = nesterov ? g + 0.8 * u_next[p][i] : u_next[p][i];
          if (sign && std::abs(sum) < 1e-12) continue;  // g is known to rounding only
          const double direction = sign ? std::copysign(1.0, sum) : sum;
          squares += g * g;
          const double undecayed = w[p][i] - record.learning_rate * direction, decayed = undecayed - record.learning_rate * c.trainer.adamw.weight_decay * w[p][i];
          EXPECT_LT(std::min(std::abs(w_next[p][i] - undecayed), std::abs(w_next[p][i] - decayed)), 1e-12) << step;
        }
      EXPECT_NEAR(std::sqrt(squares), std::min(record.gradient_norm, c.trainer.max_norm), 1e-10) << step;
      clipped |= record.gradient_norm > c.trainer.max_norm;
    }
    EXPECT_TRUE(clipped) << "clipping is seen";
  }
}

TEST(Sgd, DoesNotDependOnTheSplitOrTheStore) {
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}, "sgd:momentum=0.8"), corpus());
  std::vector<TrainConfig> cases;
  for (const int stage : {0, 1, 2, 3}) cases.push_back(config_of({1, 1, 4}, "sgd:momentum=0.8", stage));
  cases.push_back(config_of({2, 1, 2}, "sgd:momentum=0.8"));
  cases.back().sequence_parallel = true;
  cases.push_back(config_of({1, 2, 2}, "sgd:momentum=0.8", 3));
  for (const TrainConfig& c : cases) EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10) << describe_mesh(c.mesh) << ", zero " << c.zero_stage;
  EXPECT_GT(distance(one_rank_curve(config_of({1, 1, 1}, "sgd"), corpus()), reference), 1e-6) << "momentum is read";
}

TEST(Sgd, GoesOnBitEqualFromACheckpoint) {
  const std::string path = scratch_file();
  for (const int stage : {0, 2}) {
    TrainConfig c = config_of({1, 1, 4}, "sgd", stage);
    c.dtype = DType::f32;
    EXPECT_EQ(difference(interrupted(c, corpus(), 2, 3, path, c), straight(c, corpus(), 5)), "") << stage;
  }
}

}  // namespace
}  // namespace thinwire
