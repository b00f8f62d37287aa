// labels: mpi, resume
// ranks: 4
// timeout: 900
// A subspace network trains as one device does whose weights are projected by hand, on every split; its boundaries send everything in few coordinates; the whole space is dense training; a run goes on
// bit-equal; what would leave the subspace is refused. And a GPT whose head has a table of its own trains alike on every split.
#include "core/half.h"
#include "kernels/codec/wrappers/row_subspace.h"
#include "kernels/codec/wrappers/token_table.h"
#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t hidden = 16, layers = 4, vocab = 53;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "subspace");
  return text;
}

TrainConfig config_of(MeshShape mesh, const std::string& optimizer, const std::string& model = "gpt:head=own", DType dtype = DType::f64) {
  TrainConfig c = parity_config();
  c.mesh = mesh;
  c.model_kind = model;
  c.dtype = dtype;
  c.model.layers = layers, c.model.hidden = hidden, c.model.heads = 4, c.model.dropout = 0;
  c.steps = 8;
  c.trainer.schedule = {3e-3, 3e-4, 2, 8};
  c.optimizer = optimizer;
  c.check();
  return c;
}

/// U U^T [hidden, hidden] from the columns that the codec draws, made orthonormal by Gram and Schmidt.
std::vector<double> projector(std::int64_t k, std::uint64_t seed) {
  const RowSubspace drawn = RowSubspace::random(hidden, k, seed);
  std::vector<std::vector<double>> columns;
  for (std::int64_t j = 0; j < k; ++j) {
    std::vector<double>& u = columns.emplace_back();
    for (std::int64_t i = 0; i < hidden; ++i) u.push_back(static_cast<double>(drawn.basis()[static_cast<std::size_t>(i * k + j)]));
    for (int again = 0; again < 2; ++again)
      for (std::int64_t before = 0; before < j; ++before) {
        const std::vector<double>& v = columns[static_cast<std::size_t>(before)];
        double common = 0;
        for (std::size_t i = 0; i < u.size(); ++i) common += u[i] * v[i];
        for (std::size_t i = 0; i < u.size(); ++i) u[i] -= common * v[i];
      }
    double square = 0;
    for (const double x : u) square += x * x;
    for (double& x : u) x /= std::sqrt(square);
  }
  std::vector<double> p(hidden * hidden);
  for (const std::vector<double>& u : columns)
    for (std::size_t i = 0; i < u.size(); ++i)
      for (std::size_t j = 0; j < u.size(); ++j) p[i * hidden + j] += u[i] * u[j];
  return p;
}

/// What writes the activations between layers, by name: all layers but the last.
bool writes(const std::string& name) {
  if (name == "embedding.token" || name == "embedding.position") return true;
  for (std::int64_t l = 0; l + 1 < layers; ++l)
    for (const char* part : {".attention.projection.weight", ".attention.projection.bias", ".mlp.projection.weight", ".mlp.projection.bias"})
      if (name == "layer" + std::to_string(l) + part) return true;
  return false;
}

void project_by_hand(Gpt<double>& model, const std::vector<double>& p, double deviation, std::uint64_t seed) {
  TokenTable table(hidden, deviation, seed);
  for (Parameter<double>* parameter : model.parameters()) {
    if (!writes(parameter->name())) continue;
    for (std::int64_t row = 0; row < parameter->elements() / hidden; ++row) {
      double* const w = parameter->w() + row * hidden;
      std::vector<double> fixed(hidden), from(hidden);
      if (parameter->name() == "embedding.token") {
        const std::vector<std::int32_t> token = {static_cast<std::int32_t>(row)};
        std::vector<const BFloat16*> known(1);
        table.rows_of(token, known);
        for (std::int64_t i = 0; i < hidden; ++i) fixed[static_cast<std::size_t>(i)] = static_cast<double>(to_float(known[0][i]));
      }
      for (std::int64_t i = 0; i < hidden; ++i) from[static_cast<std::size_t>(i)] = w[i] - fixed[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < hidden; ++j) {
        w[j] = fixed[static_cast<std::size_t>(j)];
        for (std::int64_t i = 0; i < hidden; ++i) w[j] += from[static_cast<std::size_t>(i)] * p[static_cast<std::size_t>(i * hidden + j)];
      }
    }
  }
}

RunCurve by_hand_here(const TrainConfig& c, bool own_head, std::int64_t k, double deviation, std::uint64_t seed) {
  GptConfig sizes = c.model;
  sizes.own_head = own_head;
  Gpt<double> model(sizes);
  Trainer<double> trainer(model, c.trainer);
  const std::vector<double> p = k > 0 ? projector(k, seed) : std::vector<double>();
  const auto project = [&] {
    if (k > 0) project_by_hand(model, p, deviation, seed);
  };
  project();
  const BatchSampler training(corpus().training(), c.model.seed, "data.training"), validation(corpus().validation(), validation_seed, "data.validation");
  RunCurve curve;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const Batch batch = training.batch(static_cast<std::uint64_t>(s), 0, c.global_batch, c.seq);
    const StepReport report = trainer.step({&batch, 1});
    project();
    curve.loss.push_back(report.loss), curve.norm.push_back(report.gradient_norm);
  }
  Gpt<double>::Activations saved;
  curve.validation = model.forward(validation.batch(0, 0, c.global_batch, c.seq), 0, false, 1.0, saved);
  return curve;
}
RunCurve by_hand(const TrainConfig& c, bool own_head, std::int64_t k, double deviation = 0.02, std::uint64_t seed = 0) {
  return curve_made_once([&] { return by_hand_here(c, own_head, k, deviation, seed); });
}

const std::vector<MeshShape> splits = {{1, 4, 1}, {4, 1, 1}, {1, 1, 4}, {2, 2, 1}, {1, 2, 2}, {2, 1, 2}};

TEST(OwnHead, EverySplitFollowsOneDevice) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const RunCurve own = by_hand(config_of({1, 1, 4}, "adamw"), true, 0);
  for (const MeshShape& mesh : splits) EXPECT_LT(distance(parallel_curve(world(), config_of(mesh, "adamw"), corpus()), own), 1e-10) << describe_mesh(mesh);
  EXPECT_GT(distance(by_hand(config_of({1, 1, 4}, "adamw"), false, 0), own), 1e-6) << "another model than the tied one";
  TrainConfig sharded = config_of({1, 2, 2}, "adamw");
  sharded.zero_stage = 3;
  sharded.check();
  EXPECT_LT(distance(parallel_curve(world(), sharded, corpus()), own), 1e-10);
}

TEST(OwnHead, ResumingIsBitEqualAlsoOnAnotherSplit) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const TrainConfig c = config_of({1, 4, 1}, "adamw", "gpt:head=own", DType::f32);
  EXPECT_EQ(difference(interrupted(c, corpus(), 3, 3, scratch_file(), c), straight(c, corpus(), 6)), "");
  const TrainConfig before = config_of({2, 2, 1}, "adamw"), after = config_of({1, 4, 1}, "adamw");  // the vocabulary is padded on two tensor ranks
  const Outcome moved = interrupted(before, corpus(), 3, 3, scratch_file(), after), stayed = straight(after, corpus(), 6);
  for (std::size_t s = 0; s < stayed.losses.size(); ++s) EXPECT_NEAR(moved.losses[s] / stayed.losses[s], 1, 1e-10) << s;
}

TEST(SubspaceNetwork, EverySplitFollowsOneDeviceThatIsProjectedByHand) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  for (const bool own_head : {true, false}) {
    const std::string model = own_head ? "gpt:head=own" : "gpt", optimizer = "adamw+subspace:k=4,deviation=0.1,seed=7";
    const RunCurve reference = by_hand(config_of({1, 1, 4}, optimizer, model), own_head, 4, 0.1, 7);
    for (const MeshShape& mesh : own_head ? splits : std::vector<MeshShape>{{1, 4, 1}, {2, 2, 1}})
      EXPECT_LT(distance(parallel_curve(world(), config_of(mesh, optimizer, model), corpus()), reference), 1e-10) << model << describe_mesh(mesh);
    EXPECT_GT(distance(parallel_curve(world(), config_of({1, 1, 4}, "adamw", model), corpus()), reference), 1e-6) << "a dense run is another";
  }
}

TEST(SubspaceNetwork, TheWholeSpaceIsDenseTraining) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  EXPECT_LT(distance(parallel_curve(world(), config_of({1, 4, 1}, "adamw+subspace:k=16"), corpus()), by_hand(config_of({1, 1, 4}, "adamw"), true, 0)), 1e-10);
}

double apart(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (std::size_t i = 0; i < b.losses.size(); ++i) most = std::max(most, std::abs(a.losses[i] / b.losses[i] - 1));
  return most;
}

// What arrives is what was sent, up to f32's rounding; of a dense model most of it is lost. What comes back lacks the gradient's part outside the span, which a projected step of plain descent would drop
// anyway; AdamW, which sees it in its moments, is another run by a little, and so is clipping.
TEST(SubspaceNetwork, ItsBoundariesSendEverythingInFewCoordinates) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const auto losses = [](const std::string& optimizer, const std::string& codec) {
    TrainConfig c = config_of({1, 4, 1}, optimizer, "gpt:head=own", DType::f32);
    c.trainer.schedule = {0.3, 0.03, 2, 8};
    c.trainer.max_norm = 1e9;
    c.compress[TrafficClass::pp_forward].codec = codec;
    c.check();
    return straight(c, corpus(), 8);
  };
  const std::string within = "sgd:momentum=0+subspace:k=4,deviation=0.1,seed=7", codec = "none+subspace:k=4,deviation=0.1,seed=7";
  const Outcome whole = losses(within, "none");
  EXPECT_LT(apart(losses(within, codec), whole), 1e-5);
  EXPECT_GT(apart(losses(within, "none+subspace:k=4,deviation=0.1,seed=8"), whole), 1e-4) << "another subspace than the weights'";
  EXPECT_GT(apart(losses("sgd:momentum=0", codec), losses("sgd:momentum=0", "none")), 1e-4);
}

TEST(SubspaceNetwork, ResumingIsBitEqual) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  for (const char* optimizer : {"adamw+subspace:k=4", "muon+subspace:k=4,free=1"})
    for (const MeshShape& mesh : {MeshShape{1, 4, 1}, MeshShape{2, 2, 1}}) {
      TrainConfig c = config_of(mesh, optimizer, "gpt:head=own", DType::f32);
      c.compress[TrafficClass::pp_forward].codec = "cast:to=bf16+subspace:k=4,deviation=0.02";
      c.check();
      EXPECT_EQ(difference(interrupted(c, corpus(), 3, 3, scratch_file(), c), straight(c, corpus(), 6)), "") << optimizer << describe_mesh(mesh);
    }
}

std::string refusal(const std::function<void(TrainConfig&)>& change) {
  TrainConfig c = config_of({1, 4, 1}, "adamw+subspace:k=4");
  change(c);
  try {
    c.check();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SubspaceNetwork, WhatWouldLeaveTheSubspaceIsRefused) {
  const auto says = [](const char* what, const std::function<void(TrainConfig&)>& change) { EXPECT_NE(refusal(change).find(what), std::string::npos) << what << ": " << refusal(change); };
  says("--dropout", [](TrainConfig& c) { c.model.dropout = 0.1; });
  says("k <= hidden", [](TrainConfig& c) { c.optimizer = "adamw+subspace:k=17"; });
  says("give one of them", [](TrainConfig& c) { c.optimizer = "adamw+subspace:k=4,fraction=0.5"; });
  says("free=2", [](TrainConfig& c) { c.optimizer = "adamw+subspace:k=4,free=2"; });
  says("--zero-stage 1", [](TrainConfig& c) { c.mesh = {1, 2, 2}, c.zero_stage = 1; });
  says("--tensor-parallel 2d", [](TrainConfig& c) { c.mesh = {4, 1, 1}, c.model_kind = "gpt", c.tensor_parallel = "2d", c.micro_batch = 2; });
  says("--param-dtype bf16", [](TrainConfig& c) { c.dtype = DType::f32, c.param_dtype = DType::bf16; });
  says("name that first", [](TrainConfig& c) { c.optimizer = "subspace:k=4"; });
  EXPECT_EQ(refusal([](TrainConfig& c) { c.mesh = {1, 2, 2}, c.optimizer = "adamw+subspace:k=4,free=2"; }), "");
  EXPECT_EQ(refusal([](TrainConfig& c) { c.mesh = {1, 1, 4}, c.optimizer = "onebit_adam:freeze=2+subspace:k=4"; }), "") << "replicas stay together, so that any optimizer goes";
  EXPECT_EQ(refusal([](TrainConfig& c) { c.mesh = {1, 1, 4}, c.optimizer = "onebit_adam:freeze_fraction=0.5+subspace:k=4"; }), "") << "another option's name ends in `fraction`";
}

}  // namespace
}  // namespace thinwire
