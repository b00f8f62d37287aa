// labels: mpi
// ranks: 4
// timeout: 300
// Dion: ranks that send factors train as ranks that send gradients; on every split it is one device; bytes
// are the closed form's; a resumed run is bit-equal; what it does not go with is refused.
#include <cmath>

#include "models/layout/parameter.h"
#include "models/update/policies/low_rank_momentum.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "dion");
  return text;
}

TrainConfig config_of(MeshShape mesh, const std::string& optimizer = "dion") {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model.layers = 2;
  c.bucket_cap_mb = 1;
  c.steps = 5;
  c.trainer.schedule = {0.02, 0.002, 2, 50};
  c.optimizer = optimizer;
  return c;
}

std::vector<double> state_of(ParallelTrainer& trainer, const std::string& kind) {
  std::vector<double> all;
  for (const StateSlot& slot : trainer.state_slots())
    if (slot.name == kind) {
      const std::span<double> values = TensorView(slot.value).as<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

double largest(const std::vector<double>& values) {
  double found = 0;
  for (const double v : values) found = std::max(found, std::abs(v));
  return found;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) apart += (a[i] - b[i]) * (a[i] - b[i]), all += b[i] * b[i];
  return std::sqrt(apart / all);
}

// low_communication.C20 in the trainer: weights, and the mean of all M_r.
TEST(Dion, SendingFactorsLosesNothingOver50Steps) {
  const auto factors = ParallelTrainer::make(world(), config_of({1, 1, 4}), corpus()),
             gradients =
                 ParallelTrainer::make(world(), config_of({1, 1, 4}, "dion:reduction=gradients"), corpus());
  for (int step = 0; step < 50; ++step) factors->step(), gradients->step();
  EXPECT_LT(relative_distance(state_of(*factors, "weights"), state_of(*gradients, "weights")), 1e-8);
  const std::vector<double> own = state_of(*factors, "momentum"), together = state_of(*gradients, "momentum");
  std::vector<double> mean(own.size());
  world()
      .all_reduce(own.data(), mean.data(), static_cast<std::int64_t>(own.size()), DType::f64, ReduceOp::sum)
      ->wait();
  for (double& value : mean) value /= 4;
  ASSERT_EQ(mean.size(), together.size());
  EXPECT_LT(relative_distance(mean, together), 1e-8);
  EXPECT_GT(relative_distance(own, together), 1e-2) << "each rank's is its own";
}

TEST(Dion, DoesNotDependOnTheSplit) {
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}), corpus());
  std::vector<TrainConfig> cases = {config_of({1, 1, 4}),
                                    config_of({4, 1, 1}),
                                    config_of({1, 2, 2}),
                                    config_of({2, 1, 2}),
                                    config_of({2, 1, 2}, "dion:reduction=gradients"),
                                    config_of({4, 1, 1})};
  cases[3].sequence_parallel = true;
  cases[5].tensor_parallel = "2d", cases[5].micro_batch = 2;
  for (const TrainConfig& c : cases) {
    c.check();
    const RunCurve curve = parallel_curve(world(), c, corpus());
    for (std::size_t s = 0; s < curve.loss.size(); ++s)
      EXPECT_NEAR(curve.loss[s] / reference.loss[s], 1, 1e-10) << describe_mesh(c.mesh) << c.tensor_parallel;
    EXPECT_NEAR(curve.validation / reference.validation, 1, 1e-10) << describe_mesh(c.mesh);
  }
  EXPECT_GT(
      distance(one_rank_curve(config_of({1, 1, 1}, "dion:rank_fraction=0.5"), corpus()), reference),
      1e-6)
      << "the rank is read";
}

// docs/papers/low_communication.md, "Cost": a ring of both factors, and of what is no layer's matrix.
TEST(Dion, BytesAreTheClosedForm) {
  for (const int ranks : {2, 4}) {
    const auto group = world().split(world().rank() / ranks, world().rank());
    TrainConfig c = config_of({1, 1, ranks}, "dion:rank_fraction=0.25");
    c.dtype = DType::f32, c.comm_dtype = DType::f32;
    const auto trainer = ParallelTrainer::make(*group, c, corpus());
    double own = 0, all = 0;
    for (const TrafficRecord& r : trainer->step().traffic) {
      EXPECT_NE(r.traffic, TrafficClass::optimizer);
      if (r.traffic == TrafficClass::dp_gradient) own += static_cast<double>(r.total.link_bytes);
    }
    group->all_reduce(&own, &all, 1, DType::f64, ReduceOp::sum)->wait();
    std::int64_t numbers = 0;
    for (const StateSlot& slot : trainer->state_slots()) {
      const Shape& shape = slot.layout.global();
      if (slot.name == "first_moment") numbers += shape.elements();
      if (slot.name == "momentum")
        numbers += rank_of_fraction(shape, 0.25) * (shape.rows() + shape.columns());
    }
    EXPECT_EQ(static_cast<std::int64_t>(all), 2 * (ranks - 1) * 4 * numbers) << ranks;
  }
}

TEST(Dion, GoesOnBitEqualFromACheckpoint) {
  const std::string path = scratch_file();
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{2, 1, 2}}) {
    TrainConfig c = config_of(mesh);
    c.dtype = DType::f32;
    EXPECT_EQ(difference(interrupted(c, corpus(), 2, 2, path, c), straight(c, corpus(), 4)), "")
        << describe_mesh(mesh);
  }
}

// Alone a replica sends no factors, and its momentum is the run's; that of four is each one's.
TEST(Dion, MomentumOfReplicasIsNotThatOfOneNorTheReverse) {
  const std::string path = scratch_file();
  const TrainConfig four = config_of({1, 1, 4}), one = config_of({4, 1, 1});
  for (const auto& [from, to] : {std::pair(four, one), std::pair(one, four)}) {
    {
      const auto trainer = ParallelTrainer::make(world(), from, corpus());
      for (int s = 0; s < 2; ++s) trainer->step();
      EXPECT_GT(largest(state_of(*trainer, "momentum")), 0);
      save_checkpoint(world(), *trainer, from, path);
    }
    TrainConfig goes_on = to;
    expect_not_resumed(goes_on, corpus(), path, {"momentum", "4", "one for all", "--replica-state reset"});
    goes_on.reset_replica_state = true;
    const auto trainer = ParallelTrainer::make(world(), goes_on, corpus());
    EXPECT_EQ(load_checkpoint(world(), *trainer, goes_on, path).steps, 2);
    EXPECT_EQ(largest(state_of(*trainer, "momentum")), 0);
    EXPECT_TRUE(std::isfinite(trainer->step().loss));
    EXPECT_GT(largest(state_of(*trainer, "momentum")), 0);
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove(path);
  }
}

TEST(Dion, RefusesWhatItsMathsDoesNotAllow) {
  const auto refused = [](const char* part, const char* optimizer, auto change) {
    TrainConfig c = config_of({1, 1, 4}, optimizer);
    change(c);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("use --zero-stage 0", "dion", [](TrainConfig& c) { c.zero_stage = 1; });
  refused("dion:reduction=gradients", "dion",
          [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "powersgd"; });
  refused("exchanges with all data-parallel ranks by itself", "dion+diloco",
          [](TrainConfig& c) { c.mesh.dp_replicas = 4; });
  TrainConfig dense = config_of({1, 1, 4}, "dion:reduction=gradients");
  dense.dtype = DType::f32;
  dense.compress[TrafficClass::dp_gradient].codec = "powersgd";
  EXPECT_NO_THROW(dense.check());
}

}  // namespace
}  // namespace thinwire
