// labels: mpi, resume
// ranks: 4
// timeout: 900
// A run that is saved and resumed ends bit-equal to one that was not interrupted, under every codec and wrapper on every class that
// takes it (there the run that is compared saved, too, and went on; elsewhere it saved nothing); on another layout an uncompressed run goes on within rounding.
#include <set>

#include "kernels/codec/registry.h"
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "resume");
  return text;
}

TrainConfig small(MeshShape mesh) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.comm_dtype = DType::bf16;
  c.mesh = mesh;
  c.model.layers = 4;
  c.global_batch = 4;
  return c;
}

Outcome straight(const TrainConfig& c, int steps) {
  return testing::straight(c, corpus(), steps);
}
Outcome interrupted(const TrainConfig& c, int before, int after, const std::string& path, const TrainConfig& resumed) {
  return testing::interrupted(c, corpus(), before, after, path, resumed);
}

/// One expression per registered codec (with parameters that suit small matrices), each wrapper on a codec that takes it, and those
/// whose state is most easily lost.
std::vector<std::string> expressions() {
  std::vector<std::string> list = {"quantize:bits=4", "quantize:bits=4+ef", "topk:fraction=0.2", "topk:fraction=0.2+ef", "randomk:fraction=0.3",
                                   "randomk:fraction=0.3+ef", "powersgd:rank=2", "powersgd:rank=2+ef", "autoencoder:fraction=0.25,init=orthonormal,steps=0", "cast", "cast+ef"};
  std::set<std::string> covered;
  for (const std::string& e : list) {
    const CodecExpression parsed = parse_codec(e);
    covered.insert(parsed.codec.name);
    for (const auto& wrapper : parsed.wrappers) covered.insert(wrapper.name);
  }
  for (const CodecInfo* codec : all_codecs())
    if (codec->name != "none" && !covered.contains(codec->name)) list.push_back(codec->name);
  for (const WrapperInfo* wrapper : all_wrappers())
    if (!covered.contains(wrapper->name)) list.push_back("topk:fraction=0.2+" + wrapper->name);
  return list;
}

TEST(Resume, IsBitEqualToAnUninterruptedRunUnderEveryCodecOnEveryClass) {
  const std::string path = scratch_file();
  const std::map<TrafficClass, MeshShape> meshes = {{TrafficClass::tp_forward, {2, 2, 1}}, {TrafficClass::tp_backward, {2, 1, 2}},
                                                    {TrafficClass::pp_forward, {2, 2, 1}}, {TrafficClass::pp_backward, {1, 4, 1}},
                                                    {TrafficClass::dp_gradient, {1, 2, 2}}, {TrafficClass::embedding, {1, 2, 2}},
                                                    {TrafficClass::grad_reduce_scatter, {1, 1, 4}}, {TrafficClass::param_all_gather, {1, 2, 2}}};
  std::set<std::string> tested;
  int pairs = 0;
  for (const std::string& codec : expressions())
    for (const auto& [traffic, mesh] : meshes) {
      TrainConfig c = small(mesh);
      c.model.layers = std::max(2, mesh.pp);
      c.compress[traffic].codec = codec;
      c.zero_stage = (traffic == TrafficClass::grad_reduce_scatter || traffic == TrafficClass::param_all_gather) ? 1 : 0;
      c.recompute = traffic == TrafficClass::tp_forward;
      try {
        c.check();
      } catch (const UsageError&) {
        continue;  // this codec is not for this class
      }
      EXPECT_EQ(difference_from_the_middle(c, corpus(), 2, 2, path), "") << name_of(traffic) << " by " << codec;
      tested.insert(codec);
      ++pairs;
    }
  for (const std::string& codec : expressions()) EXPECT_TRUE(tested.contains(codec)) << codec << " fits no class";
  if (world().rank() == 0) std::printf("%d pairs of codec and class\n", pairs);
}

// Optimus-CC whole: compressed backward messages of the epilogue with their residuals, one fused sum of the tied table, and low-rank
// gradients with error feedback on the first stage alone.
TEST(Resume, IsBitEqualWithAllOfOptimusCcOn) {
  const std::string path = scratch_file();
  TrainConfig c = small({1, 2, 2});
  c.global_batch = 8;
  c.embedding_sync = "fused";
  c.compress[TrafficClass::dp_gradient].codec = "powersgd:rank=4,min_ratio=1+ef";
  c.compress[TrafficClass::dp_gradient].stages = "0";
  CompressRule& messages = c.compress[TrafficClass::pp_backward];
  messages.epilogue_only = true;
  messages.codec = "powersgd:rank=2+lep:leftover=drop";
  EXPECT_EQ(difference(straight(c, 6), interrupted(c, 3, 3, path, c)), "") << "leftover dropped";
  messages.codec = "powersgd:rank=2+lep";
  const Outcome whole = straight(c, 6);
  EXPECT_EQ(difference(whole, interrupted(c, 3, 3, path, c)), "") << "leftover carried";
  TrainConfig stacked = c;
  stacked.compress[TrafficClass::dp_gradient].stacked = true;
  EXPECT_EQ(difference(straight(stacked, 6), interrupted(stacked, 3, 3, path, stacked)), "") << "matrices stacked";
  // Each part of the state must matter, or the equality says nothing about it.
  for (const TrafficClass traffic : {TrafficClass::pp_backward, TrafficClass::dp_gradient}) {
    TrainConfig reset = c;
    reset.compress[traffic].warmup_steps = 1;  // another rule: its state is not used
    reset.reset_codec_state = true;
    EXPECT_NE(difference(whole, interrupted(c, 3, 3, path, reset)), "") << name_of(traffic);
  }
}

TEST(Resume, IsBitEqualWithoutCodecsAtARandomStepOnEveryLayout) {
  const std::string path = scratch_file();
  const Random random(test_seed(), "step of the kill");
  std::uint64_t draw = 0;
  for (const MeshShape& mesh : {MeshShape{4, 1, 1}, MeshShape{1, 4, 1}, MeshShape{1, 1, 4}, MeshShape{2, 2, 1}})
    for (const bool sharded : {false, true}) {
      TrainConfig c = small(mesh);
      c.zero_stage = (sharded && mesh.dp > 1) ? 1 : 0;
      c.sequence_parallel = sharded && mesh.tp > 1;
      if (sharded && mesh.pp == 4) c.schedule = "gpipe";
      const int before = 1 + static_cast<int>(random.below(draw++, 5));
      EXPECT_EQ(difference(straight(c, 6), interrupted(c, before, 6 - before, path, c)), "") << mesh.tp << mesh.pp << mesh.dp << " after step " << before;
    }
}

TEST(Resume, OnAnotherLayoutTheLossGoesOnWithinRounding) {
  const std::string path = scratch_file();
  const std::vector<MeshShape> meshes = {{4, 1, 1}, {1, 4, 1}, {1, 1, 4}, {2, 2, 1}, {1, 2, 2}};
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    TrainConfig from = small(meshes[i]), to = small(meshes[(i + 1) % meshes.size()]);
    for (TrainConfig* c : {&from, &to}) c->dtype = DType::f64;
    from.zero_stage = (from.mesh.dp > 1) ? 1 : 0;
    to.zero_stage = (to.mesh.dp == 4) ? 1 : 0;
    const Outcome a = straight(from, 8), b = interrupted(from, 4, 4, path, to);
    for (std::size_t s = 0; s < a.losses.size(); ++s) EXPECT_NEAR(b.losses[s], a.losses[s], 1e-10 * a.losses[s]) << "layouts " << i << ", step " << s;
  }
}

TEST(Resume, ForgottenCodecStateIsSeen) {
  // The comparison above must be able to fail: the same run with its error feedback started anew.
  const std::string path = scratch_file();
  TrainConfig c = small({1, 1, 4});
  c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.1+ef";
  TrainConfig reset = c;
  reset.micro_batch = 1, reset.form = Form::fair, reset.reset_codec_state = true;
  reset.compress[TrafficClass::dp_gradient].warmup_steps = 1;  // another rule: the state is not used
  EXPECT_NE(difference(straight(c, 6), interrupted(c, 3, 3, path, reset)), "");
  reset = c;
  reset.reset_codec_state = true;  // asked for under the same rules
  EXPECT_NE(difference(straight(c, 6), interrupted(c, 3, 3, path, reset)), "");
}

}  // namespace
}  // namespace thinwire
