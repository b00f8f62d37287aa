// labels: mpi, resume
// ranks: 4
// timeout: 600
// alignment=true tells the mean cosine of what two replicas moved, as it is by hand from their weights; it changes nothing of the run, and is refused where no replica is one rank.
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "alignment");
  return text;
}

TrainConfig config_of(const std::string& loop, DType dtype = DType::f64) {
  TrainConfig c = parity_config();
  c.mesh = {1, 1, 4};
  c.mesh.dp_replicas = 4;
  c.dtype = dtype;
  c.model.layers = 2, c.model.hidden = 16;
  c.steps = 8;
  c.trainer.schedule = {3e-3, 3e-4, 2, 8};
  c.optimizer = "adamw+" + loop;
  c.check();
  return c;
}

/// Weights less local weights, of this rank's replica.
std::vector<double> moved(ParallelTrainer& trainer) {
  std::vector<double> d;
  const auto add = [&](const std::string& kind, double sign) {
    std::size_t at = 0;
    for (const StateSlot& slot : trainer.state_slots()) {
      if (slot.name != kind) continue;
      for (const double x : TensorView(slot.value).as<double>()) {
        if (at == d.size()) d.push_back(0);
        d[at++] += sign * x;
      }
    }
  };
  add("weights", 1), add("local_weights", -1);
  return d;
}

/// Mean over pairs of replicas.
double mean_cosine(const std::vector<double>& own) {
  const int ranks = world().size();
  std::vector<double> all(own.size() * static_cast<std::size_t>(ranks));
  world().all_gather(own.data(), static_cast<std::int64_t>(own.size() * sizeof(double)), all.data())->wait();
  const auto product = [&](int a, int b) {
    double sum = 0;
    for (std::size_t i = 0; i < own.size(); ++i) sum += all[static_cast<std::size_t>(a) * own.size() + i] * all[static_cast<std::size_t>(b) * own.size() + i];
    return sum;
  };
  double sum = 0;
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < a; ++b) sum += product(a, b) / std::sqrt(product(a, a) * product(b, b));
  return sum / (ranks * (ranks - 1) / 2);
}

/// What the validation after so many steps tells; NaN: nothing.
double told(ParallelTrainer& trainer) {
  for (const Evaluation::Metric& m : trainer.evaluate().metrics)
    if (m.name == "outer_alignment") return m.value;
  return std::numeric_limits<double>::quiet_NaN();
}

// A loop of longer rounds takes the same three steps and is still apart after them.
TEST(Alignment, IsTheMeanCosineOfTwoReplicasByHand) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  for (const char* loop : {"diloco:inner_steps=3", "local_sgd:inner_steps=3"}) {
    const auto trainer = ParallelTrainer::make(world(), config_of(std::string(loop) + ",alignment=true"), corpus()), apart = ParallelTrainer::make(world(), config_of("diloco:inner_steps=4"), corpus());
    for (int s = 0; s < 3; ++s) trainer->step(), apart->step();
    const double by_hand = mean_cosine(moved(*apart));
    EXPECT_GT(std::abs(by_hand), 0.001);
    EXPECT_LT(by_hand, 0.99);
    EXPECT_NEAR(told(*trainer), by_hand, 1e-12);
    EXPECT_TRUE(std::isnan(told(*trainer))) << "each is told once";
  }
}

TEST(Alignment, LeavesTheRunAsItIsAlsoWhenResumed) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const TrainConfig plain = config_of("diloco:inner_steps=2", DType::f32), aligned = config_of("diloco:inner_steps=2,alignment=true", DType::f32);
  EXPECT_EQ(difference(straight(aligned, corpus(), 6), straight(plain, corpus(), 6)), "");
  EXPECT_EQ(difference(interrupted(aligned, corpus(), 3, 3, scratch_file(), aligned), straight(plain, corpus(), 6)), "");
}

TEST(Alignment, IsToldOnceAlsoWhereARunIsSavedBeforeItsValidation) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const TrainConfig c = config_of("diloco:inner_steps=3,alignment=true", DType::f32);
  const std::string path = scratch_file();
  double expected = 0;
  {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    for (int s = 0; s < 4; ++s) trainer->step();
    save_checkpoint(world(), *trainer, c, path);  // after the exchange, before the validation
    expected = told(*trainer);
    EXPECT_FALSE(std::isnan(expected));
  }
  for (const bool again : {false, true}) {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    load_checkpoint(world(), *trainer, c, path);
    if (again)
      EXPECT_TRUE(std::isnan(told(*trainer)));
    else
      EXPECT_EQ(told(*trainer), expected);
    world().barrier();
    save_checkpoint(world(), *trainer, c, path);  // now it was told
  }
  world().barrier();
  if (world().rank() == 0) std::filesystem::remove(path);
}

TEST(Alignment, IsRefusedWhereAReplicaIsNotOneRank) {
  for (const MeshShape& mesh : {MeshShape{2, 1, 2}, MeshShape{1, 1, 4}}) {
    TrainConfig c = config_of("diloco:inner_steps=2,alignment=true");
    c.mesh = mesh;
    c.mesh.dp_replicas = mesh.dp / 2;
    if (mesh.tp == 2) c.mesh.dp_replicas = 2;
    EXPECT_THROW(c.check(), UsageError) << describe_mesh(c.mesh);
  }
}

}  // namespace
}  // namespace thinwire
