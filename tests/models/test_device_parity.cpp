// labels: gpu, mpi, parity
// ranks: 8
// devices: cuda, lazy
// timeout: 300
// Ranks that share one device: every split of the model follows the single-device trainer of the host in double precision.
#include "tests/models/device_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parity");
  return text;
}

TrainConfig base() {
  TrainConfig c = parity_config();
  c.model.layers = 4;
  c.steps = 3;
  c.trainer.schedule = {3e-3, 3e-4, 1, 3};
  c.dtype = DType::f32;
  return c;
}

ParityCase of_mesh(int tp, int pp, int dp, int micro) {
  TrainConfig c = base();
  c.mesh.tp = tp, c.mesh.pp = pp, c.mesh.dp = dp;
  c.micro_batch = micro;
  return {c, "tp" + std::to_string(tp) + " pp" + std::to_string(pp) + " dp" + std::to_string(dp) + " micro" + std::to_string(micro), {}};
}

template <typename Change>
ParityCase with(ParityCase c, const std::string& what, Change&& change) {
  change(c.config);
  c.name += ", " + what;
  return c;
}

/// Each switch that moves tensors in another way, on 2, 4 and 8 ranks.
std::vector<ParityCase> splits() {
  return {of_mesh(1, 1, 1, 4),
          with(of_mesh(2, 1, 1, 4), "sequence parallel", [](TrainConfig& c) { c.sequence_parallel = true; }),
          of_mesh(1, 2, 1, 2),
          with(of_mesh(1, 1, 2, 4), "sharded", [](TrainConfig& c) { c.shard_optimizer = true; }),
          with(of_mesh(2, 2, 1, 4), "scattered", [](TrainConfig& c) { c.scatter_gather = true; }),
          with(of_mesh(2, 1, 2, 4), "sequence parallel, recompute", [](TrainConfig& c) { c.sequence_parallel = c.recompute = true; }),
          with(of_mesh(1, 2, 2, 2), "interleaved, fused", [](TrainConfig& c) { c.schedule = "interleaved", c.virtual_stages = 2, c.embedding_sync = "fused"; }),
          with(of_mesh(1, 4, 1, 8), "token slices", [](TrainConfig& c) { c.schedule = "terapipe", c.token_slices = "4"; }),
          with(of_mesh(4, 1, 1, 8), "2d", [](TrainConfig& c) { c.tensor_parallel = "2d"; }),
          of_mesh(2, 2, 2, 2),
          with(of_mesh(8, 1, 1, 8), "2.5d", [](TrainConfig& c) { c.tensor_parallel = "2.5d:depth=2"; }),
          with(of_mesh(8, 1, 1, 8), "3d", [](TrainConfig& c) { c.tensor_parallel = "3d"; })};
}

TEST_F(DeviceTraining, EverySplitFollowsTheSingleDeviceInDoublePrecision) {
  std::vector<ParityCase> cases = splits();
  const RunCurve reference = single_device_curve(base(), corpus());
  for (ParityCase& c : cases) c.config = on_device(c.config);
  const std::vector<double> d = distances(cases, reference, corpus());
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_LT(d[i], 2e-5) << cases[i].name;
    worst = std::max(worst, d[i]);
  }
  if (world().rank() == 0) std::printf("%zu splits, largest relative distance %.2e\n", cases.size(), worst);
}

TEST_F(DeviceTraining, ShardedRunsResumeBitEqual) {
  const std::string path = scratch_file();
  TrainConfig c = on_device(of_mesh(2, 2, 2, 1).config);
  c.shard_optimizer = true;
  EXPECT_EQ(difference(straight(c, corpus(), 4), interrupted(c, corpus(), 2, 2, path, c)), "");
}

}  // namespace
}  // namespace thinwire
