// labels: mpi, resume
// ranks: 8
// timeout: 240
// Under 2-D, 2.5-D and 3-D tensor parallelism a run that is saved and resumed ends bit-equal to one that was not interrupted, also where
// codecs with state carry its gradients; a checkpoint of one grid goes on on another, but for such state.
#include "tests/models/training/resume_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "resume");
  return text;
}

TrainConfig config_of(const std::string& grid, int tp, int pp, int dp) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.comm_dtype = DType::bf16;
  c.model.layers = 2;
  c.tensor_parallel = grid;
  c.mesh.tp = tp, c.mesh.pp = pp, c.mesh.dp = dp;
  c.micro_batch = 4;
  return c;
}

std::vector<TrainConfig> every_case() {
  std::vector<TrainConfig> cases = {config_of("2d", 4, 2, 1), config_of("2.5d:depth=2", 8, 1, 1), config_of("3d", 8, 1, 1), config_of("2d", 4, 1, 2),
                                    config_of("3d:sides=1x2x2", 4, 2, 1)};
  cases[3].zero_stage = 1;
  return cases;
}

std::string name_of(const TrainConfig& c) {
  return c.tensor_parallel + ", pp " + std::to_string(c.mesh.pp) + ", dp " + std::to_string(c.mesh.dp) + (c.zero_stage > 0 ? ", sharded" : "");
}

TEST(GridResume, IsBitEqualToAnUninterruptedRun) {
  const std::string path = scratch_file();
  for (const TrainConfig& c : every_case()) EXPECT_EQ(difference(straight(c, corpus(), 6), interrupted(c, corpus(), 3, 3, path, c)), "") << name_of(c);
}

TEST(GridResume, IsBitEqualWithCodecsOnEveryClassOfTheGridAndTheirResiduals) {
  const std::string path = scratch_file();
  for (TrainConfig c : every_case()) {
    c.compress[TrafficClass::tp_forward].codec = "quantize:bits=8";
    c.compress[TrafficClass::tp_backward].codec = "quantize:bits=4+ef";
    c.compress[TrafficClass::tp_weight].codec = "quantize:bits=8";
    c.compress[TrafficClass::tp_weight_gradient].codec = "quantize:bits=4+ef";
    const Outcome whole = straight(c, corpus(), 6);
    EXPECT_EQ(difference(whole, interrupted(c, corpus(), 3, 3, path, c)), "") << name_of(c);
    // The residuals must matter, or the equality says nothing about them.
    TrainConfig reset = c;
    reset.reset_codec_state = true;
    reset.compress[TrafficClass::tp_weight_gradient].warmup_steps = 1;  // another rule: its state is not used
    EXPECT_NE(difference(whole, interrupted(c, corpus(), 3, 3, path, reset)), "") << name_of(c);
  }
}

TEST(GridResume, OnAnotherGridTheLossGoesOnWithinRounding) {
  const std::string path = scratch_file();
  std::vector<TrainConfig> cases = every_case();
  cases.push_back(config_of("1d", 2, 2, 2));
  for (TrainConfig& c : cases) c.dtype = DType::f64;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const TrainConfig &from = cases[i], &to = cases[(i + 1) % cases.size()];
    const Outcome a = straight(from, corpus(), 6), b = interrupted(from, corpus(), 3, 3, path, to);
    for (std::size_t s = 0; s < a.losses.size(); ++s) EXPECT_NEAR(b.losses[s], a.losses[s], 1e-10 * a.losses[s]) << name_of(from) << " on " << name_of(to) << ", step " << s;
  }
}

TEST(GridResume, CodecStateOfAnotherGridIsRefusedByBothNames) {
  const std::string path = scratch_file();
  TrainConfig from = config_of("3d", 8, 1, 1);
  from.compress[TrafficClass::tp_weight_gradient].codec = "quantize:bits=4+ef";
  TrainConfig to = from;
  to.tensor_parallel = "2.5d:depth=2";
  try {
    (void)interrupted(from, corpus(), 1, 1, path, to);
    ADD_FAILURE() << "state of a cube was given to a 2.5-D grid";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    for (const char* part : {"tensor-parallel is 3d there, 2.5d:depth=2 here", "--codec-state reset"}) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  world().barrier();
  to.reset_codec_state = true;
  EXPECT_EQ(interrupted(from, corpus(), 1, 1, path, to).losses.size(), 3u);
}

}  // namespace
}  // namespace thinwire
