// labels: mpi
// ranks: 4
// timeout: 300
// Muon: the written recursion in plain loops, on every split and from every store; what travels is the
// momentum of split matrices; with an outer loop it is MuLoCo; a resumed run is bit-equal.
#include <cmath>

#include "kernels/matrix/newton_schulz.h"
#include "models/layout/parameter.h"
#include "tests/models/training/resume_run.h"
#include "tests/models/update/outer/by_hand.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "muon");
  return text;
}

TrainConfig config_of(MeshShape mesh, const std::string& optimizer = "muon:momentum=0.8",
                      int zero_stage = 0) {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model.layers = 2;
  c.bucket_cap_mb = 1;
  c.steps = 5;
  c.trainer.schedule = {0.02, 0.002, 2, 5};
  c.optimizer = optimizer;
  c.zero_stage = zero_stage;
  return c;
}

struct Values {
  Shape shape{0};
  std::vector<double> of;
};

/// By parameter.
std::map<std::string, Values> state_of(ParallelTrainer& trainer, const std::string& kind) {
  std::map<std::string, Values> all;
  for (const StateSlot& slot : trainer.state_slots())
    if (slot.name == kind) {
      const std::span<double> values = TensorView(slot.value).as<double>();
      all[slot.layout.name()] = {slot.layout.global(), {values.begin(), values.end()}};
    }
  return all;
}

/// As written, tall matrices from the right.
std::vector<double> orthogonal(const Shape& shape, std::vector<double> x) {
  const auto rows = static_cast<std::size_t>(shape.rows()),
             columns = static_cast<std::size_t>(shape.columns());
  const bool tall = rows > columns;
  const std::size_t n = std::min(rows, columns), long_side = std::max(rows, columns);
  const auto index = [&](std::size_t i, std::size_t k) { return tall ? k * columns + i : i * columns + k; };
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::sqrt(squares) + 1e-7;
  for (const auto& [a, b, c] : newton_schulz("muloco").polynomials) {
    std::vector<double> gram(n * n), polynomial(n * n), next(x.size());
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < long_side; ++k) gram[i * n + j] += x[index(i, k)] * x[index(j, k)];
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        polynomial[i * n + j] = b * gram[i * n + j];
        for (std::size_t k = 0; k < n; ++k) polynomial[i * n + j] += c * gram[i * n + k] * gram[k * n + j];
      }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < long_side; ++k) {
        next[index(i, k)] = a * x[index(i, k)];
        for (std::size_t j = 0; j < n; ++j) next[index(i, k)] += polynomial[i * n + j] * x[index(j, k)];
      }
    x = next;
  }
  return x;
}

// On one rank. M_t+1 - m M_t is the clipped gradient; W_t+1 follows in the formula's own order.
TEST(Muon, FollowsTheWrittenRecursion) {
  const auto alone = world().split(world().rank(), 0);
  for (const bool nesterov : {false, true}) {
    const TrainConfig c =
        config_of({1, 1, 1}, std::string("muon:momentum=0.8,nesterov=") + (nesterov ? "true" : "false"));
    const auto trainer = ParallelTrainer::make(*alone, c, corpus());
    for (int step = 0; step < 3; ++step) {
      const auto w = state_of(*trainer, "weights"), m = state_of(*trainer, "momentum");
      const StepRecord record = trainer->step();
      const auto w_next = state_of(*trainer, "weights"), m_next = state_of(*trainer, "momentum");
      ASSERT_EQ(m.size(), 8u) << "four matrices of each of two layers";
      for (const auto& [name, after] : m_next) {
        std::vector<double> direction = after.of;
        if (nesterov)
          for (std::size_t i = 0; i < direction.size(); ++i)
            direction[i] = after.of[i] - 0.8 * m.at(name).of[i] + 0.8 * after.of[i];
        const std::vector<double> u = orthogonal(after.shape, direction);
        const double factor =
            std::sqrt(static_cast<double>(after.shape.columns()) / static_cast<double>(after.shape.rows()));
        for (std::size_t i = 0; i < u.size(); ++i)
          ASSERT_NEAR(
              w_next.at(name).of[i],
              w.at(name).of[i] -
                  record.learning_rate * (factor * u[i] + c.trainer.adamw.weight_decay * w.at(name).of[i]),
              1e-11)
              << name << " " << step;
      }
    }
  }
}

// After one step from one state: equal gradients, clipped alike.
TEST(Muon, LeavesEmbeddingsHeadAndVectorsToAdamW) {
  const auto alone = world().split(world().rank(), 0);
  const auto muon = ParallelTrainer::make(*alone, config_of({1, 1, 1}), corpus()),
             adamw = ParallelTrainer::make(*alone, config_of({1, 1, 1}, "adamw"), corpus());
  muon->step(), adamw->step();
  const auto by_muon = state_of(*muon, "weights"), by_adamw = state_of(*adamw, "weights"),
             momentum = state_of(*muon, "momentum"), moments = state_of(*muon, "second_moment");
  for (const auto& [name, values] : by_adamw) {
    EXPECT_NE(momentum.contains(name), moments.contains(name)) << name;
    EXPECT_EQ(values.of == by_muon.at(name).of, moments.contains(name)) << name;
  }
  EXPECT_TRUE(moments.contains("embedding.token"));
  EXPECT_TRUE(moments.contains("embedding.position"));
}

TEST(Muon, DoesNotDependOnTheSplitOrTheStore) {
  const RunCurve reference = one_rank_curve(config_of({1, 1, 1}), corpus());
  std::vector<TrainConfig> cases;
  for (const int stage : {0, 1, 2, 3}) cases.push_back(config_of({1, 1, 4}, "muon:momentum=0.8", stage));
  cases.push_back(config_of({1, 1, 4, "tp-pp-dp", 1, 2}, "muon:momentum=0.8", 1));
  for (const int stage : {0, 3}) {
    cases.push_back(config_of({2, 1, 2}, "muon:momentum=0.8", stage));
    cases.back().sequence_parallel = true;
  }
  cases.push_back(config_of({1, 2, 2}, "muon:momentum=0.8", 2));
  cases.push_back(config_of({4, 1, 1}));
  cases.back().tensor_parallel = "2d", cases.back().micro_batch = 2;
  for (const TrainConfig& c : cases) {
    c.check();
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), reference), 1e-10)
        << describe_mesh(c.mesh) << ", zero " << c.zero_stage << c.tensor_parallel;
  }
  EXPECT_GT(
      distance(one_rank_curve(config_of({1, 1, 1}, "muon:momentum=0.8,newton_schulz=muon"), corpus()),
               reference),
      1e-6)
      << "the polynomials are read";
}

/// Bytes that all ranks sent as `optimizer` in a step, and elements of the layers' matrices.
std::pair<std::int64_t, std::int64_t> gathered(TrainConfig c) {
  c.dtype = DType::f32;
  const auto trainer = ParallelTrainer::make(world(), c, corpus());
  double own = 0, all = 0;
  for (const TrafficRecord& r : trainer->step().traffic)
    if (r.traffic == TrafficClass::optimizer) own += static_cast<double>(r.total.link_bytes);
  world().all_reduce(&own, &all, 1, DType::f64, ReduceOp::sum)->wait();
  std::int64_t elements = 0;
  for (const StateSlot& slot : trainer->state_slots())
    if (slot.name == "momentum") elements += slot.layout.global().elements();
  return {static_cast<std::int64_t>(all), elements};
}

// Every piece goes to every other rank once.
TEST(Muon, SendsTheMomentumOfSplitMatricesAlone) {
  EXPECT_EQ(gathered(config_of({1, 1, 4})).first, 0);
  for (const TrainConfig& c : {config_of({4, 1, 1}), config_of({1, 1, 4}, "muon", 1)}) {
    const auto [bytes, elements] = gathered(c);
    EXPECT_EQ(bytes, 3 * 4 * elements) << describe_mesh(c.mesh);
  }
}

TEST(Muon, WithAnOuterLoopIsMuLoCo) {
  const char* const muloco = "muon:momentum=0.8+diloco:inner_steps=2,rate=0.7,momentum=0.6";
  const OuterByHand by = {
      .inner = "muon:momentum=0.8", .inner_steps = 2, .rate = 0.7, .momentum = 0.6, .nesterov = true};
  for (const MeshShape& mesh : {MeshShape{1, 1, 4, "tp-pp-dp", 4}, MeshShape{2, 1, 2, "tp-pp-dp", 2},
                                MeshShape{1, 1, 4, "tp-pp-dp", 2}}) {
    const TrainConfig c = config_of(mesh, muloco, mesh.dp_replicas < mesh.dp ? 1 : 0);
    c.check();
    EXPECT_LT(distance(parallel_curve(world(), c, corpus()), by_hand(c, by, corpus())), 1e-10)
        << describe_mesh(mesh);
  }
}

TEST(Muon, GoesOnBitEqualFromACheckpoint) {
  const std::string path = scratch_file();
  std::vector<TrainConfig> cases = {config_of({1, 1, 4}), config_of({1, 1, 4}, "muon", 2),
                                    config_of({2, 1, 2}),
                                    config_of({1, 1, 4, "tp-pp-dp", 4}, "muon+diloco:inner_steps=3")};
  for (TrainConfig& c : cases) {
    c.dtype = DType::f32;
    EXPECT_EQ(difference(interrupted(c, corpus(), 2, 2, path, c), straight(c, corpus(), 4)), "")
        << describe_mesh(c.mesh) << c.zero_stage;
  }
}

}  // namespace
}  // namespace thinwire
