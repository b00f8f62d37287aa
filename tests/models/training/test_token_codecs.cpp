// labels: mpi, resume
// ranks: 4
// timeout: 600
// joined: no
// Codecs that go by token ids: messages between stages name those of their rows on both ends, however the rows are cut; subspace networks' codec trains with them;
// and what has no token ids is refused before the first step.
#include <gtest/gtest.h>

#include "kernels/codec/payload/wire_values.h"
#include "models/data/batches.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "token codecs");
  return text;
}

/// Each byte says the next one.
const Corpus& easy_text() {
  static const Corpus text = [] {
    std::string bytes;
    for (int i = 0; i < 6000; ++i) bytes += static_cast<char>(i % 29);
    return Corpus::from_text(bytes, "easy text");
  }();
  return text;
}

TrainConfig config(MeshShape mesh, const std::string& codec) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.mesh = mesh;
  c.model.layers = 4;
  c.global_batch = 4;
  c.scatter_gather = mesh.tp > 1;
  c.error_interval = 0;
  c.compress[TrafficClass::pp_forward].codec = codec;
  return c;
}

/// What was encoded on this rank in training.
struct Named {
  std::int64_t step;
  std::int32_t micro_batch, slice;
  std::vector<std::int32_t> tokens;
};
std::vector<Named>& named() {
  static std::vector<Named> all;
  return all;
}

/// f32 as it is, and the token ids of the rows, which the receiver compares with those that it was told.
class TokenEcho final : public Codec {
 public:
  TokenEcho() { traits_.by_token = true; }
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return static_cast<std::size_t>(shape.elements() + shape.rows()) * 4; }

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    check(x.shape(), key);
    std::memcpy(payload.data(), x.data(), x.bytes());
    std::memcpy(payload.data() + x.bytes(), key.tokens.data(), key.tokens.size_bytes());
    if (key.pass == Pass::train) named().push_back({key.step, key.micro_batch, key.slice, {key.tokens.begin(), key.tokens.end()}});
    return max_payload_bytes(x.shape());
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    check(out.shape(), key);
    check_payload_size(payload.size(), max_payload_bytes(out.shape()), "test_token_echo", out.shape(), key);
    if (std::memcmp(payload.data() + out.bytes(), key.tokens.data(), key.tokens.size_bytes()) != 0) throw CorruptData("the ends name different tokens");
    std::memcpy(out.data(), payload.data(), out.bytes());
  }
  static void check(const Shape& shape, const MessageKey& key) {
    if (static_cast<std::int64_t>(key.tokens.size()) != shape.rows()) throw CorruptData(std::to_string(key.tokens.size()) + " tokens for " + shape.to_string());
  }
  CodecTraits traits_;
};

const bool registered = register_codec({.name = "test_token_echo", .summary = "for this test", .source = "none", .make = [](const Parameters&, Form) { return std::make_unique<TokenEcho>(); }});

TEST(TokenCodecs, MessagesNameTheTokensOfTheirRowsHoweverTheyAreCut) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  struct Case {
    MeshShape mesh;
    std::int64_t micro_batch;
    std::string slices;
    bool scatter;
    std::string schedule = "1f1b";
    int virtual_stages = 1;
  };
  for (const Case& at : {Case{{1, 4, 1}, 1, "1", false}, {{1, 2, 2}, 2, "1", false}, {{2, 2, 1}, 1, "1", true}, {{2, 2, 1}, 2, "1", false}, {{1, 4, 1}, 2, "8,5,3", false, "terapipe"},
                         {{2, 2, 1}, 2, "4", true, "terapipe"}, {{1, 2, 2}, 1, "1", false, "interleaved", 2}}) {
    SCOPED_TRACE(std::to_string(at.mesh.tp) + " x " + std::to_string(at.mesh.pp) + " x " + std::to_string(at.mesh.dp) + ", micro-batch " + std::to_string(at.micro_batch) + ", slices " + at.slices);
    TrainConfig c = config(at.mesh, "test_token_echo"), dense = config(at.mesh, "none");
    for (TrainConfig* each : {&c, &dense})
      each->micro_batch = at.micro_batch, each->token_slices = at.slices, each->scatter_gather = at.scatter, each->schedule = at.schedule, each->virtual_stages = at.virtual_stages;
    named().clear();
    EXPECT_EQ(difference(straight(c, corpus(), 2), straight(dense, corpus(), 2)), "") << "the tensors themselves travel as they are";
    const MeshCoordinates me = mesh_coordinates(c.mesh, world().rank());
    const std::vector<int> slices = c.slices();
    if (me.pp + 1 < c.mesh.pp) {
      EXPECT_FALSE(named().empty());
    }
    const DataSource data = text_data(corpus(), c.model.seed);
    for (const Named& message : named()) {
      const Batch batch = data.training->batch(static_cast<std::uint64_t>(message.step), (me.dp * c.micro_batches() + message.micro_batch) * c.micro_batch, c.micro_batch, c.seq);
      std::int64_t first = 0;
      for (std::int32_t s = 0; s < message.slice; ++s) first += slices[static_cast<std::size_t>(s)];
      const std::int64_t length = slices.size() == 1 ? c.seq : slices[static_cast<std::size_t>(message.slice)];
      std::vector<std::int32_t> expected;
      for (std::int64_t b = 0; b < c.micro_batch; ++b)
        for (std::int64_t t = 0; t < length; ++t) expected.push_back(batch.ints("tokens")[static_cast<std::size_t>(b * c.seq + first + t)]);
      if (at.scatter) {
        const RowBlock mine = shard_rows(static_cast<std::int64_t>(expected.size()), me.tp, c.mesh.tp);
        expected = {expected.begin() + mine.first, expected.begin() + mine.first + mine.count};
      }
      EXPECT_EQ(message.tokens, expected) << "step " << message.step << ", micro-batch " << message.micro_batch << ", slice " << message.slice;
    }
  }
}

struct Course {
  Outcome outcome;
  double before = 0, after = 0;  ///< validation
  std::int64_t forward = 0, backward = 0;  ///< payload bytes of the last step, over all ranks
};

Course run(const TrainConfig& c) {
  Course r;
  const auto trainer = ParallelTrainer::make(world(), c, easy_text());
  r.before = trainer->validate();
  std::int64_t sent[2] = {}, all[2] = {};
  for (std::int64_t s = 0; s < c.steps; ++s) {
    const StepRecord step = trainer->step();
    r.outcome.losses.push_back(step.loss);
    sent[0] = sent[1] = 0;
    for (const TrafficRecord& record : step.traffic)
      if (record.traffic == TrafficClass::pp_forward || record.traffic == TrafficClass::pp_backward) sent[record.traffic == TrafficClass::pp_backward] += record.total.payload_bytes;
  }
  world().all_reduce(sent, all, 2, DType::i64, ReduceOp::sum)->wait();
  r.forward = all[0], r.backward = all[1];
  finish(*trainer, r.outcome);
  r.after = r.outcome.losses.back();
  return r;
}

double largest_difference(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (std::size_t i = 0; i < b.losses.size(); ++i) most = std::max(most, std::abs(a.losses[i] - b.losses[i]) / b.losses[i]);
  return most;
}

TEST(SubspaceTraining, TheWholeSpaceIsDenseTrainingUpToRoundingAndAPartOfItTrains) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  for (const MeshShape& mesh : {MeshShape{1, 4, 1}, MeshShape{2, 2, 1}}) {
    SCOPED_TRACE(std::to_string(mesh.tp) + " x " + std::to_string(mesh.pp) + " x " + std::to_string(mesh.dp));
    TrainConfig c = config(mesh, "none");
    c.scatter_gather = false;
    c.model.dropout = 0;
    c.steps = 24;
    c.trainer.schedule = {1e-2, 1e-3, 4, 24};
    const Course dense = run(c);
    c.compress[TrafficClass::pp_forward].codec = "none+subspace:k=32";
    const Course whole = run(c);
    const double apart = largest_difference(whole.outcome, dense.outcome);
    if (world().rank() == 0) std::printf("k = hidden: losses within %.1e of dense\n", apart);
    EXPECT_LT(apart, 1e-4);
    EXPECT_EQ(whole.forward, dense.forward);
    for (const char* codec : {"none+subspace:k=8,deviation=0.02", "none+subspace:k=8,table=none"}) {
      c.compress[TrafficClass::pp_forward].codec = codec;
      const Course part = run(c);
      EXPECT_EQ(part.forward * 4, dense.forward);
      EXPECT_EQ(part.backward * 4, dense.backward) << "the gradient of the coordinates travels";
      EXPECT_GT(largest_difference(part.outcome, dense.outcome), 1e-4) << "something is lost";
      EXPECT_LT(part.after, part.before - 0.5 * (dense.before - dense.after)) << codec;
      if (world().rank() == 0) std::printf("%s: validation %.4f to %.4f, dense to %.4f\n", codec, part.before, part.after, dense.after);
    }
  }
}

// The codec's subspace and that of the weights are one: by the run's seed where neither says another.
TEST(SubspaceTraining, CodecAndOptimizerDrawTheirSubspaceByTheRunsSeed) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const auto trained = [](const std::string& seed_of_optimizer, const std::string& seed_of_codec) {
    TrainConfig c = config({1, 4, 1}, "none+subspace:k=8,deviation=0.1" + seed_of_codec);
    c.model.dropout = 0;
    c.optimizer = "adamw+subspace:k=8,deviation=0.1" + seed_of_optimizer;
    return straight(c, corpus(), 4);
  };
  const std::string runs = ",seed=" + std::to_string(parity_config().model.seed);
  const Outcome alike = trained("", "");
  EXPECT_EQ(difference(alike, trained(runs, runs)), "");
  EXPECT_NE(difference(alike, trained(",seed=0", ",seed=0")), "") << "what is given stays";
  EXPECT_NE(difference(alike, trained("", ",seed=0")), "");
}

TEST(SubspaceTraining, ResumingIsBitEqual) {
  if (world().size() != 4) GTEST_SKIP() << "for 4 ranks";
  const std::string path = scratch_file();
  for (const MeshShape& mesh : {MeshShape{1, 4, 1}, MeshShape{2, 2, 1}})
    for (const char* codec : {"none+subspace:k=8", "group:bits=4,group=32+subspace:k=8,deviation=0.02", "powersgd:rank=2,min_ratio=1+subspace:k=16"}) {
      SCOPED_TRACE(codec);
      const TrainConfig c = config(mesh, codec);
      EXPECT_EQ(difference(interrupted(c, corpus(), 3, 3, path, c), straight(c, corpus(), 6)), "");
    }
}

/// Sequences of numbers that are no tokens.
class Readings final : public Dataset {
 public:
  Batch batch(std::uint64_t, std::int64_t first, std::int64_t count, std::int64_t seq) const override {
    Batch batch(count, seq, first);
    batch.ints("readings").assign(static_cast<std::size_t>(count * seq), 1);
    batch.weight = static_cast<double>(count * seq);
    return batch;
  }
  double weight(std::uint64_t, std::int64_t count, std::int64_t seq) const override { return static_cast<double>(count * seq); }
  std::int64_t samples() const override { return 0; }
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(SubspaceTraining, WhatHasNoTokenIdsIsRefusedBeforeTheFirstStep) {
  TrainConfig c = config({1, 4, 1}, "none+subspace:k=8");
  EXPECT_NO_THROW(c.check());
  const auto make = [&] {
    DataSource source;
    source.training = std::make_unique<Readings>();
    source.validation = std::make_unique<Readings>();
    ParallelTrainer::make(world(), c, std::move(source));
  };
  EXPECT_NE(refusal(make).find("no field `tokens`"), std::string::npos) << refusal(make);
  const auto says = [](TrainConfig changed, const char* what) { EXPECT_NE(refusal([&] { changed.check(); }).find(what), std::string::npos) << refusal([&] { changed.check(); }); };
  TrainConfig other = config({2, 2, 1}, "none+subspace:k=8");
  EXPECT_NO_THROW(other.check()) << "scattered rows have their tokens";
  other.scatter_gather = false;
  other.sequence_parallel = true;
  says(other, "--sequence-parallel false");
  other.compress[TrafficClass::pp_forward].codec = "none+subspace:k=8,table=none";
  EXPECT_NO_THROW(other.check());
  for (const TrafficClass traffic : {TrafficClass::pp_backward, TrafficClass::dp_gradient}) {
    TrainConfig elsewhere = config({1, 2, 2}, "none");
    elsewhere.compress[traffic].codec = "none+subspace:k=8";
    says(elsewhere, "pp_forward");
  }
  TrainConfig gradients = config({1, 4, 1}, "none");
  gradients.compress[TrafficClass::pp_backward].codec = "none+subspace:k=8,table=none";
  EXPECT_NO_THROW(gradients.check());
  c.compress[TrafficClass::pp_forward].codec = "none+subspace:k=33";
  says(c, "k <= columns");
}

}  // namespace
}  // namespace thinwire
