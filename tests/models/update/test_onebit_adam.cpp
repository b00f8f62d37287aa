// labels: mpi
// ranks: 4
// timeout: 300
// 1-bit Adam: AdamW to the bit before the freeze; after it the written recursion, on every split, and each
// replica's gradient clipped by its own norm; a message for each matrix and one for all vectors; with signs
// and both errors it learns on, and a resumed run is bit-equal.
#include <cmath>

#include "models/layout/parameter.h"
#include "tests/models/training/messages.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"
#include "tests/models/update/outer/by_hand.h"

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
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}, 3), corpus());
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{2, 1, 2}, MeshShape{4, 1, 1}}) {
    const RunCurve curve = parallel_curve(world(), config_of(mesh, 3), corpus());
    for (std::size_t i = 0; i < curve.loss.size(); ++i) EXPECT_NEAR(curve.loss[i], reference.loss[i], 1e-10) << describe_mesh(mesh);
  }
}

/// Numbers of state, one parameter behind the other.
std::vector<double> joined(const std::vector<std::vector<double>>& all) {
  std::vector<double> values;
  for (const std::vector<double>& one : all) values.insert(values.end(), one.begin(), one.end());
  return values;
}

/// What m gains from its share of before, over 1 - beta1: a gradient as it went into the momentum.
std::vector<double> gradient_in(const std::vector<double>& before, const std::vector<double>& after,
                                double beta1) {
  std::vector<double> g(after.size());
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = (after[i] - beta1 * before[i]) / (1 - beta1);
  return g;
}

/// Weights do not move within the precision of f64, so that every run has the gradients of the first ones.
TrainConfig standing_still(MeshShape mesh, double max_norm) {
  TrainConfig c = config_of(mesh, 1);
  c.trainer.schedule = {1e-30, 0, 4, 20};
  c.trainer.max_norm = max_norm;
  return c;
}

// The norms of the four replicas' own gradients, each trained alone on its samples, say who is clipped and by
// how much.
TEST(OnebitAdam, AfterTheFreezeEachReplicaClipsItsOwnGradient) {
  TrainConfig c = standing_still({1, 1, 4}, 1e9);
  const double beta1 = c.trainer.adamw.beta1;
  std::vector<double> own;
  {
    TrainConfig one = standing_still({1, 1, 1}, 1e9);
    one.global_batch /= 4;
    DataSource data = text_data(corpus(), one.model.seed);
    data.training = std::make_unique<OfReplica>(std::move(data.training), world().rank(), one.global_batch);
    const auto alone = world().split(world().rank(), 0);
    const auto trainer = ParallelTrainer::make(*alone, one, std::move(data));
    trainer->step();
    const std::vector<double> before = joined(state_of(*trainer, "first_moment"));
    trainer->step();
    own = gradient_in(before, joined(state_of(*trainer, "first_moment")), beta1);
  }
  double squares = 0;
  for (const double g : own) squares += g * g;
  const double norm = std::sqrt(squares);
  std::vector<double> norms(4);
  world().all_gather(&norm, sizeof norm, norms.data())->wait();
  double square_sum = 0;
  for (const double one : norms) square_sum += one * one;
  const auto [least, most] = std::minmax({norms[0], norms[1], norms[2], norms[3]});
  ASSERT_LT(least, 0.999 * most);
  // Two times this is between the norms: the longest is clipped, the shortest is not.
  const double some = (least + most) / 4;
  for (const double max_norm : {some, least / 20})
    for (const bool clips : {true, false}) {
      c.trainer.max_norm = max_norm;
      c.optimizer = std::string("onebit_adam:freeze=1") + (clips ? "" : ",clip=false");
      const double factor = clips ? std::min(1.0, max_norm * 2 / norm) : 1;
      std::vector<double> share = own, mean(own.size());
      for (double& g : share) g *= factor / 4;
      world()
          .all_reduce(share.data(), mean.data(), static_cast<std::int64_t>(mean.size()), DType::f64,
                      ReduceOp::sum)
          ->wait();
      const auto trainer = ParallelTrainer::make(world(), c, corpus());
      trainer->step();
      const std::vector<double> before = joined(state_of(*trainer, "first_moment"));
      EXPECT_NEAR(trainer->step().gradient_norm, std::sqrt(square_sum / 4), 1e-10)
          << "recorded is the root mean square, of what came before clipping";
      const std::vector<double> arrived =
          gradient_in(before, joined(state_of(*trainer, "first_moment")), beta1);
      ASSERT_EQ(arrived.size(), mean.size());
      double farthest = 0;
      for (std::size_t i = 0; i < mean.size(); ++i)
        farthest = std::max(farthest, std::abs(arrived[i] - mean[i]));
      EXPECT_LT(farthest, 1e-12) << max_norm << " " << clips;
    }
}

TEST(OnebitAdam, TheNormOfAReplicaIsThatOverItsTensorRanks) {
  TrainConfig c = config_of({1, 1, 2}, 2);
  c.trainer.max_norm = 0.05;
  const auto pair = world().split(world().rank() / 2, world().rank());
  const RunCurve reference = parallel_curve(*pair, c, corpus());
  for (const double norm : reference.norm)
    EXPECT_GT(norm, 0.08) << "all are clipped: to 0.05, and to the root of 2 times that";
  c.mesh = {2, 1, 2};
  EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10);
  c.optimizer += ",clip=false";
  EXPECT_GT(distance(parallel_curve(world(), c, corpus()), reference), 1e-6) << "clipping changes nothing";
}

// Ten matrices: two tables and four of each layer.
TEST(OnebitAdam, AMatrixIsAMessageAndAllVectorsAreOne) {
  TrainConfig c = config_of({1, 1, 4}, 1, DType::f32);
  const auto sent = [&] {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    EXPECT_EQ(messages_of(trainer->step(), TrafficClass::optimizer), (Messages{0, 0}));
    return messages_of(trainer->step(), TrafficClass::optimizer);
  };
  EXPECT_EQ(sent(), (Messages{11, 0}));
  CompressRule& rule = c.compress[TrafficClass::optimizer];
  rule = {.codec = "sign:scale=l2+ef", .protocol = Protocol::two_shot};
  EXPECT_EQ(sent(), (Messages{1, 10}));
  rule.layers = "0";
  EXPECT_EQ(sent(), (Messages{7, 4}));
  rule.layers = "all";
  rule.min_elements = 32 * 32 * 4;
  EXPECT_EQ(sent(), (Messages{7, 4})) << "the matrices of an MLP are larger than the others";
}

TEST(OnebitAdam, AShareOfTheScheduleIsAsManySteps) {
  const auto curve = [](const std::string& options) {
    TrainConfig c = config_of({1, 1, 4}, 3);
    c.steps = 5;
    c.trainer.schedule.total = 100;  // longer than the run
    c.optimizer = "onebit_adam:" + options;
    c.check();
    return parallel_curve(world(), c, corpus()).loss;
  };
  const std::vector<double> three = curve("freeze=3"), one = curve("freeze=1");
  EXPECT_NE(three, one);
  EXPECT_EQ(curve("freeze_fraction=0.03"), three);
  EXPECT_EQ(curve("freeze_fraction=0.039"), three) << "rounded down";
  EXPECT_EQ(curve("freeze_fraction=0.001"), one) << "one at least";
  EXPECT_EQ(curve("freeze=3,freeze_fraction=0"), three);
  // 0.29 x 100 is below 29 in f64.
  TrainConfig many = config_of({1, 1, 4}, 29), share = many;
  many.steps = share.steps = 30;
  many.trainer.schedule.total = share.trainer.schedule.total = 100;
  share.optimizer = "onebit_adam:freeze_fraction=0.29";
  EXPECT_EQ(parallel_curve(world(), share, corpus()).loss, parallel_curve(world(), many, corpus()).loss);
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
  const Outcome by_steps = straight(c, corpus(), 7);
  EXPECT_EQ(difference(interrupted(c, corpus(), 4, 3, path, c), by_steps), "");
  // 0.1 of 24 steps; a run that stops early knows the whole schedule.
  c.optimizer = "onebit_adam:freeze_fraction=0.1";
  TrainConfig first = c;
  first.steps = 5;
  for (const int before : {1, 4})
    EXPECT_EQ(difference(interrupted(first, corpus(), before, 7 - before, path, c), by_steps), "") << before;
}

TEST(OnebitAdam, AScheduleOfAnotherLengthIsToldToARunThatResumes) {
  const std::string path = scratch_file();
  TrainConfig c = config_of({1, 1, 4}, 2);
  c.optimizer = "onebit_adam:freeze_fraction=0.1";
  {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    trainer->step();
    save_checkpoint(world(), *trainer, c, path);
  }
  c.trainer.schedule.total *= 2;
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  const ResumeReport report = load_checkpoint(world(), *trainer, c, path);
  world().barrier();
  if (world().rank() != 0) return;
  std::filesystem::remove(path);
  ASSERT_EQ(report.remarks.size(), 1u);
  EXPECT_NE(report.remarks[0].find("schedule-steps is 20 there, 40 here"), std::string::npos)
      << report.remarks[0];
}

TEST(OnebitAdam, RefusesWhatItsMathsDoesNotAllow) {
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
  refused("freeze=5 and freeze_fraction=0.2 both say",
          [](TrainConfig& c) { c.optimizer = "onebit_adam:freeze=5,freeze_fraction=0.2"; });
  refused("freeze=100 and freeze_fraction=0.2 both say",
          [](TrainConfig& c) { c.optimizer = "onebit_adam:freeze_fraction=0.2,freeze=100"; });
  refused("leave one of them out",
          [](TrainConfig& c) { c.optimizer = "onebit_adam:freeze=5,freeze_fraction=0.2+subspace:k=4"; });
  refused("freeze_fraction", [](TrainConfig& c) { c.optimizer = "onebit_adam:freeze_fraction=1.5"; });
}

}  // namespace
}  // namespace thinwire
