// labels: mpi
// ranks: 4
// timeout: 300
// Deep gradient compression: momentum on the mean gradient where nothing is dropped, on every split; each rank clips its own gradient; a run that sends a twentieth learns, and goes on bit-equal
// from a checkpoint with what it had not sent; what its maths does not allow is refused.
#include <cmath>
#include <numeric>

#include "tests/models/training/messages.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "dgc");
  return text;
}

TrainConfig config_of(MeshShape mesh, const std::string& optimizer, DType dtype = DType::f64) {
  TrainConfig c = parity_config();
  c.dtype = dtype;
  c.mesh = mesh;
  c.model.layers = 2;
  c.steps = 6;
  c.trainer.schedule = {0.5, 0.05, 2, 6};
  c.trainer.max_norm = 1e9;  // sgd clips by the norm of the mean, dgc each rank by its own
  c.optimizer = optimizer;
  return c;
}

TEST(Dgc, WhereNothingIsDroppedItIsMomentumOnTheMeanGradientOnEverySplit) {
  for (const bool nesterov : {false, true}) {
    const char* const options = nesterov ? "momentum=0.8,nesterov=true" : "momentum=0.8";
    const RunCurve reference = one_rank_curve(config_of({1, 1, 1}, std::string("sgd:") + options), corpus());
    std::vector<TrainConfig> cases = {config_of({1, 1, 4}, std::string("dgc:") + options)};
    if (!nesterov) {
      for (const MeshShape& mesh : {MeshShape{2, 1, 2}, MeshShape{4, 1, 1}}) cases.push_back(config_of(mesh, std::string("dgc:") + options));
      cases.push_back(cases.back());
      cases.back().tensor_parallel = "2d", cases.back().micro_batch = 2;
    }
    for (const TrainConfig& c : cases) {
      const RunCurve curve = parallel_curve(world(), c, corpus());
      for (std::size_t i = 0; i < curve.loss.size(); ++i) EXPECT_NEAR(curve.loss[i], reference.loss[i], 1e-10) << describe_mesh(c.mesh) << " " << c.tensor_parallel;
    }
  }
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

// Full density through the codec: without masking the sum of all that was sent has the momentum; with it no sent element has any.
TEST(Dgc, FullDensityIsDenseMomentumWithoutMaskingAlone) {
  const TrainConfig dense = config_of({1, 1, 4}, "dgc", DType::f32);
  const std::vector<double> reference = parallel_curve(world(), dense, corpus()).loss;
  for (const bool masking : {false, true}) {
    TrainConfig c = config_of({1, 1, 4}, masking ? "dgc" : "dgc:masking=false", DType::f32);
    c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=1,values=f32";
    const double distance = relative_distance(parallel_curve(world(), c, corpus()).loss, reference);
    if (masking)
      EXPECT_GT(distance, 1e-3);
    else
      EXPECT_LT(distance, 1e-5);
  }
}

double squares_of(ParallelTrainer& trainer, const std::string& kind) {
  double squares = 0;
  for (const StateSlot& slot : trainer.state_slots())
    if (slot.name == kind && slot.layout.counts_in_norm())
      for (const double value : TensorView(slot.value).as<double>()) squares += value * value;
  double all = 0;
  const auto group = world().split(trainer.mesh().coordinates().dp, world().rank());
  group->all_reduce(&squares, &all, 1, DType::f64, ReduceOp::sum)->wait();
  return all;
}

TEST(Dgc, EachRankClipsItsOwnGradientToItsShare) {
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{2, 1, 2}}) {
    TrainConfig c = config_of(mesh, "dgc");
    c.trainer.max_norm = 0.01;
    const double share = 0.01 * std::sqrt(mesh.dp);
    const auto clipped = ParallelTrainer::make(world(), c, corpus());
    EXPECT_GT(clipped->step().gradient_norm, share);
    EXPECT_NEAR(std::sqrt(squares_of(*clipped, "momentum")), share, 1e-9) << describe_mesh(mesh);
    c.optimizer = "dgc:clip=false";
    const auto whole = ParallelTrainer::make(world(), c, corpus());
    const double norm = whole->step().gradient_norm, own = std::sqrt(squares_of(*whole, "momentum"));
    EXPECT_GT(own, share) << describe_mesh(mesh);
    double mean_square = own * own / mesh.ranks(), all = 0;
    world().all_reduce(&mean_square, &all, 1, DType::f64, ReduceOp::sum)->wait();
    EXPECT_NEAR(norm, std::sqrt(all), 1e-10) << "recorded is the root mean square";
  }
}

TEST(Dgc, AMatrixIsAMessageAndAllVectorsAreOne) {
  TrainConfig c = config_of({1, 1, 4}, "dgc", DType::f32);
  const auto sent = [&] {
    return messages_of(ParallelTrainer::make(world(), c, corpus())->step(), TrafficClass::dp_gradient);
  };
  EXPECT_EQ(sent(), (Messages{11, 0}));
  c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.5";
  EXPECT_EQ(sent(), (Messages{1, 10}));
}

TrainConfig with_codec() {
  TrainConfig c = config_of({1, 1, 4}, "dgc", DType::f32);
  c.steps = 30;
  c.trainer.schedule = {0.5, 0.05, 4, 30};
  c.trainer.max_norm = 1;
  c.compress[TrafficClass::dp_gradient].codec = "sampled_topk:fraction=0.05,ramp_steps=10";
  return c;
}

TEST(Dgc, LearnsFromATwentieth) {
  std::string text;  // each byte says the next
  for (int i = 0; i < 6000; ++i) text += static_cast<char>(7 * i % 53);
  const Corpus simple = Corpus::from_text(text, "dgc, simple");
  TrainConfig dense = with_codec();
  dense.compress.clear();
  const RunCurve reference = parallel_curve(world(), dense, simple);
  const TrainConfig c = with_codec();
  c.check();
  const auto trainer = ParallelTrainer::make(world(), c, simple);
  std::vector<double> loss;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord record = trainer->step();
    loss.push_back(record.loss);
    double payload = 0, elements = 0;
    for (const TrafficRecord& r : record.traffic)
      if (r.traffic == TrafficClass::dp_gradient && r.codec != uncompressed) payload += static_cast<double>(r.total.payload_bytes), elements += static_cast<double>(r.total.dense_bytes) / 4;
    ASSERT_GT(elements, 0);
    // Values in f16 and less than 16 bits for a position; densities of the five stages and after them.
    const double density = std::pow(0.05, std::min(6.0, std::floor(static_cast<double>(s) / 2) + 1) / 6);
    EXPECT_LT(payload, 4.2 * density * elements + 2000) << s;
    EXPECT_GT(payload, 1.6 * density * elements) << s;
  }
  const auto fall = [](const std::vector<double>& l) { return l.front() - std::accumulate(l.end() - 5, l.end(), 0.0) / 5; };
  const double sparse = fall(loss), whole = fall(reference.loss);
  EXPECT_GT(sparse, 1);
  EXPECT_LT(sparse, whole) << "what is sent late is late";
  // What was not sent is there, and has its momentum.
  std::int64_t late = 0, moved = 0, all = 0;
  for (const StateSlot& slot : trainer->state_slots()) {
    if (slot.layout.local().rank() != 2 || (slot.name != "late" && slot.name != "momentum")) continue;
    for (const float value : TensorView(slot.value).as<float>()) (slot.name == "late" ? late : moved) += value != 0 ? 1 : 0, ++all;
  }
  EXPECT_GT(late, all / 2 * 9 / 10);
  EXPECT_GT(moved, all / 2 * 9 / 10);
}

TEST(Dgc, ARulesWarmUpLeadsIntoIt) {
  TrainConfig c = with_codec(), dense = with_codec();
  c.steps = dense.steps = 6;
  c.compress[TrafficClass::dp_gradient].warmup_steps = 3;
  dense.compress.clear();
  const RunCurve coded = parallel_curve(world(), c, corpus()), reference = parallel_curve(world(), dense, corpus());
  for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(coded.loss[s], reference.loss[s]) << s;
  EXPECT_NE(coded.loss[4], reference.loss[4]);
}

TEST(Dgc, GoesOnBitEqualFromACheckpointWithWhatItHadNotSent) {
  const std::string path = scratch_file();
  for (const MeshShape& mesh : {MeshShape{1, 1, 4}, MeshShape{2, 1, 2}}) {
    TrainConfig c = with_codec();
    c.mesh = mesh;
    EXPECT_EQ(difference(interrupted(c, corpus(), 4, 3, path, c), straight(c, corpus(), 7)), "") << describe_mesh(mesh);
  }
}

TEST(Dgc, RefusesWhatItsMathsDoesNotAllow) {
  const auto refused = [](const char* part, auto change) {
    TrainConfig c = with_codec();
    change(c);
    try {
      c.check();
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused("use --zero-stage 0", [](TrainConfig& c) { c.compress.clear(), c.zero_stage = 2; });
  refused("use --pp 1", [](TrainConfig& c) { c.mesh = {1, 2, 2}; });
  refused("--sequence-parallel true", [](TrainConfig& c) { c.mesh = {2, 1, 2}, c.sequence_parallel = true; });
  refused("leave +ef out", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "topk+ef"; });
  refused("such as sampled_topk", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "powersgd"; });
  refused("no sum of what the ranks sent", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "sign:vote=majority"; });
  refused("use automatic or gather", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].protocol = Protocol::two_shot; });
  refused("use --error-interval 0", [](TrainConfig& c) { c.error_interval = 2; });
  refused("--dp-replicas 2", [](TrainConfig& c) { c.mesh.dp_replicas = 2; });
}

}  // namespace
}  // namespace thinwire
