// labels: mpi
// ranks: 4
// timeout: 300
// One process that codes the boundary gradients of a whole model loses what a pipeline of ranks loses
// (docs/papers/optimus_cc.md, "Worked examples" 10), and refuses what it cannot repeat.
#include "models/training/boundary_compression.h"

#include "models/data/batches.h"
#include "models/gpt/trainer.h"
#include "models/parallel/pipeline/boundary_key.h"
#include "support/codec_rounds.h"
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

TrainConfig small(MeshShape mesh, const std::string& codec, bool epilogue_only) {
  TrainConfig c = parity_config();
  c.dtype = c.comm_dtype = DType::f32;
  c.mesh = mesh;
  c.model.layers = 4;
  c.steps = 20;
  c.micro_batch = 2, c.global_batch = 2 * 8 * mesh.dp;
  c.compress[TrafficClass::pp_backward].codec = codec;
  c.compress[TrafficClass::pp_backward].epilogue_only = epilogue_only;
  return c;
}

/// The single-device trainer over the micro-batches of all replicas, in the order of the global batch. `coded`: with compression.
std::vector<double> in_process(const TrainConfig& c, const Corpus& corpus, bool coded = true) {
  Gpt<float> model(c.model);
  Trainer<float> trainer(model, c.trainer);
  BoundaryCompression boundaries(c);
  if (coded) model.at_boundaries(boundaries.hook());
  const BatchSampler training(corpus.training(), c.model.seed, "data.training");
  std::vector<double> losses;
  for (std::int64_t s = 0; s < c.steps; ++s) {
    std::vector<Batch> micro_batches;
    for (std::int64_t first = 0; first < c.global_batch; first += c.micro_batch)
      micro_batches.push_back(training.batch(static_cast<std::uint64_t>(s), first, c.micro_batch, c.seq));
    losses.push_back(trainer.step(micro_batches).loss);
  }
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return most;
}

// Lazy error propagation of rank 2 over all messages makes training chaotic here: a difference in the last bit grows about threefold per
// step. With one replica there is none: all sums are made in one order. Over two they are not, so the comparison ends early there.
TEST(BoundaryCompression, InOneProcessTheLossIsThatOfTheRanks) {
  const Corpus corpus = Corpus::from_text(parity_text(), "boundaries");
  world();
  for (const MeshShape& mesh : {MeshShape{1, 4, 1}, MeshShape{1, 2, 2}})
    for (const bool epilogue_only : {false, true})
      for (const char* codec : {"powersgd:rank=2,seed=0+lep", "powersgd:rank=2,seed=0+lep:leftover=drop", "powersgd:rank=2,seed=0", "topk:fraction=0.1+lep", "group:bits=2,group=32,round=stochastic"}) {
        TrainConfig c = small(mesh, codec, epilogue_only);
        if (mesh.dp > 1 && !epilogue_only) c.steps = 5;
        const std::vector<double> ranks = parallel_curve(world(), c, corpus).loss;
        if (world().rank() != 0) continue;
        const std::vector<double> single = in_process(c, corpus);
        const double apart = largest_difference(single, ranks);
        const double effect = largest_difference(single, in_process(c, corpus, false));
        EXPECT_LE(apart, 1e-5) << codec << ", stages " << mesh.pp << ", replicas " << mesh.dp << (epilogue_only ? ", epilogue only" : "");
        EXPECT_GT(effect, 3e-4) << codec << ": the bound is of no use where the codec hardly matters";
        std::printf("%.1e apart, %.1e from uncompressed: %d stages, %d replicas, %s%s\n", apart, effect, mesh.pp, mesh.dp, codec,
                    epilogue_only ? ", epilogue only" : "");
      }
}

TEST(BoundaryCompression, ShowsEveryCoveredMessageOnce) {
  const Corpus corpus = Corpus::from_text(parity_text(), "boundaries");
  TrainConfig c = small({1, 4, 2}, "powersgd:rank=2", true);
  c.compress[TrafficClass::pp_backward].warmup_steps = 1;
  Gpt<float> model(c.model);
  Trainer<float> trainer(model, c.trainer);
  BoundaryCompression boundaries(c);
  std::vector<std::vector<int>> seen;
  boundaries.watch([&](const BoundaryMessage& m) {
    seen.push_back({static_cast<int>(m.step), m.replica, m.micro, m.sender, m.boundary});
    EXPECT_GT(relative_difference(m.arrived.as<float>(), m.gradient.as<float>()), 1e-3);
  });
  model.at_boundaries(boundaries.hook());
  const BatchSampler training(corpus.training(), c.model.seed, "data.training");
  std::vector<std::vector<int>> expected;
  for (int step = 0; step < 2; ++step) {
    std::vector<Batch> micro_batches;
    for (std::int64_t first = 0; first < c.global_batch; first += c.micro_batch) micro_batches.push_back(training.batch(0, first, c.micro_batch, c.seq));
    trainer.step(micro_batches);
  }
  for (int replica = 0; replica < 2; ++replica)
    for (int micro = 5; micro < 8; ++micro)
      for (int sender = 3; sender > 0; --sender)
        if (micro >= 8 - (4 - sender)) expected.push_back({1, replica, micro, sender, sender});
  EXPECT_EQ(seen, expected);
}

TEST(BoundaryCompression, RefusesWhatOneProcessCannotRepeat) {
  const std::vector<void (*)(TrainConfig&)> changes = {
      [](TrainConfig& c) { c.mesh.tp = 2; },        [](TrainConfig& c) { c.schedule = "gpipe"; },
      [](TrainConfig& c) { c.comm_dtype = DType::bf16; }, [](TrainConfig& c) { c.compress[TrafficClass::pp_forward].codec = "quantize:bits=8"; },
      [](TrainConfig& c) { c.form = Form::released; },
      [](TrainConfig& c) { c.compress.clear(); },   [](TrainConfig& c) { c.mesh.pp = 3; }};
  for (const auto change : changes) {
    TrainConfig c = small({1, 4, 1}, "powersgd:rank=2+lep", false);
    change(c);
    EXPECT_THROW(BoundaryCompression{c}, UsageError);
  }
}

// Gradients of replicas are averaged: errors of rounding by chance must not be the same in all of them.
TEST(BoundaryCompression, ReplicasDrawWhatTheyRoundApartAndTheirMasksTogether) {
  PassContext pass{.batch = 2, .seq = 4, .step = 3, .micro = 1};
  const MessageKey first = boundary_key(2, pass, {0, pass.rows()});
  pass.replica = 1;
  const MessageKey second = boundary_key(2, pass, {0, pass.rows()});
  EXPECT_NE(first.rounding_stream(), second.rounding_stream());
  EXPECT_EQ(first.random_stream(), second.random_stream());
}

}  // namespace
}  // namespace thinwire
