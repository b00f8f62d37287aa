// labels: unit, resume
// timeout: 120
// processors: 1
// A rank with coded boundaries that is saved and resumed ends bit-equal; a dense checkpoint is a start for runs under other rules, which are told
// apart by what it holds.
#include <cstring>

#include "support/temporary_folder.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "fork");
  return text;
}

TrainConfig small(const std::string& codec, bool epilogue_only = false) {
  TrainConfig c = parity_config();
  c.dtype = c.comm_dtype = DType::f32;
  c.model.layers = 4;
  c.boundary_stages = 4;
  c.micro_batch = 1, c.global_batch = 8;
  if (codec == uncompressed) return c;
  c.compress[TrafficClass::pp_backward].codec = codec;
  c.compress[TrafficClass::pp_backward].epilogue_only = epilogue_only;
  return c;
}

TEST(Fork, CodedBoundariesOfOneRankResumeBitEqual) {
  const std::string path = scratch_file();
  for (const bool epilogue_only : {false, true})
    for (const char* codec : {"none", "powersgd:rank=2+lep", "powersgd:rank=2+lep:leftover=drop", "powersgd:rank=2", "topk:fraction=0.1+lep"}) {
      const TrainConfig c = small(codec, epilogue_only);
      EXPECT_EQ(difference(straight(c, corpus(), 6), interrupted(c, corpus(), 3, 3, path, c)), "") << codec << epilogue_only;
    }
  // What the codec remembers must matter, or the equality says nothing about it.
  const TrainConfig c = small("powersgd:rank=2+lep", true);
  TrainConfig reset = c;
  reset.compress[TrafficClass::pp_backward].warmup_steps = 1;  // another rule: the state is not used
  reset.reset_codec_state = true;
  EXPECT_NE(difference(straight(c, corpus(), 6), interrupted(c, corpus(), 3, 3, path, reset)), "");
}

// A rule whose warm-up ends where the checkpoint was taken does the same without one: weights, moments and steps are the dense run's, codecs begin empty.
TEST(Fork, ADenseCheckpointStartsARunUnderOtherRulesAsTheirWarmUpWould) {
  const std::string path = scratch_file();
  TrainConfig dense = small(uncompressed);
  dense.boundary_stages = 0;  // no layout of boundaries is needed for a start
  for (const char* codec : {"powersgd:rank=2+lep", "topk:fraction=0.1+lep"}) {
    TrainConfig forked = small(codec, true), warm = forked;
    forked.reset_codec_state = true;
    warm.compress[TrafficClass::pp_backward].warmup_steps = 3;
    // The tied table's two gradients are summed as on two stages where there are boundaries, and micro-batch by micro-batch without.
    TrainConfig bounded = small(uncompressed);
    EXPECT_EQ(difference(straight(warm, corpus(), 6), interrupted(bounded, corpus(), 3, 3, path, forked)), "") << codec;
    const Outcome plain = interrupted(dense, corpus(), 3, 3, path, forked), reference = straight(warm, corpus(), 6);
    EXPECT_NEAR(plain.losses[3], reference.losses[3], 1e-5 * reference.losses[3]) << codec;
  }
}

TEST(Fork, WithoutLeaveCodecsDoNotBeginAnew) {
  const std::string path = scratch_file();
  EXPECT_THROW(interrupted(small(uncompressed), corpus(), 1, 1, path, small("powersgd:rank=2+lep")), UsageError);
  std::filesystem::remove(path);
}

TEST(Fork, TheLearningRateIsThatOfTheNewRunAtItsGlobalStep) {
  const std::string path = scratch_file();
  const TrainConfig c = small(uncompressed);
  {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    for (int s = 0; s < 3; ++s) trainer->step();
    save_checkpoint(world(), *trainer, c, path);
  }
  TrainConfig other = c;
  other.trainer.schedule = {1e-3, 1e-4, 0, 10};
  const auto trainer = ParallelTrainer::make(world(), other, corpus());
  load_checkpoint(world(), *trainer, other, path);
  const StepRecord step = trainer->step();
  EXPECT_EQ(step.step, 3);
  EXPECT_EQ(step.learning_rate, other.trainer.schedule.at(3));
  EXPECT_NE(step.learning_rate, c.trainer.schedule.at(3));
  std::filesystem::remove(path);
}

TEST(Fork, EqualStatesHaveEqualContentAndOthersHaveNot) {
  const TemporaryFolder folder;
  const auto content = [&](const TrainConfig& c, int steps, const std::string& name) {
    const auto trainer = ParallelTrainer::make(world(), c, corpus());
    for (int s = 0; s < steps; ++s) trainer->step();
    save_checkpoint(world(), *trainer, c, folder.path() + "/" + name);
    return checkpoint_content(folder.path() + "/" + name);
  };
  const TrainConfig c = small("powersgd:rank=2+lep");
  TrainConfig longer = c, seeded = c;
  longer.steps = 40, longer.checkpoint = "elsewhere.h5", longer.eval_interval = 1;  // decide nothing of the state
  seeded.model.seed = 6;
  const std::string one = content(c, 2, "one.h5");
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(content(longer, 2, "two.h5"), one);
  EXPECT_NE(content(c, 3, "three.h5"), one);
  EXPECT_NE(content(seeded, 2, "four.h5"), one);
  EXPECT_THROW(checkpoint_content(folder.path() + "/none.h5"), EnvironmentError);
}

TEST(Fork, RefusesWhatOneRankCannotRepeat) {
  const std::vector<std::pair<const char*, void (*)(TrainConfig&)>> changes = {
      {"pp 4", [](TrainConfig& c) { c.mesh.pp = 4; }},
      {"tp 2", [](TrainConfig& c) { c.mesh.tp = 2; }},
      {"dp 2", [](TrainConfig& c) { c.mesh.dp = 2; }},
      {"gpipe", [](TrainConfig& c) { c.schedule = "gpipe"; }},
      {"--token-slices", [](TrainConfig& c) { c.token_slices = "4", c.schedule = "terapipe"; }},
      {"--comm-dtype bf16", [](TrainConfig& c) { c.comm_dtype = DType::bf16; }},
      {"compress.pp_forward", [](TrainConfig& c) { c.compress[TrafficClass::pp_forward].codec = "quantize:bits=8"; }},
      {"compress.dp_gradient", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "powersgd:rank=2"; }},
      {"--form fair", [](TrainConfig& c) { c.form = Form::released; }},
      {"--compute real", [](TrainConfig& c) { c.compute = ComputeMode::replay; }},
      {"4 layers do not divide", [](TrainConfig& c) { c.boundary_stages = 3; }},
      {"no boundary", [](TrainConfig& c) { c.boundary_stages = 1; }},
      {"at least 0", [](TrainConfig& c) { c.boundary_stages = -1; }}};
  for (const auto& [word, change] : changes) {
    TrainConfig c = small("powersgd:rank=2+lep");
    c.model.heads = 8;
    change(c);
    const std::string why = message_of<UsageError>([&] { c.check(); });
    EXPECT_NE(why.find(word), std::string::npos) << word << ": " << why;
    EXPECT_NE(why.find("boundary-stages"), std::string::npos) << why;
  }
  EXPECT_NO_THROW(small("powersgd:rank=2+lep", true).check());
}

}  // namespace
}  // namespace thinwire
