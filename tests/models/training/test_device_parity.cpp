// labels: gpu, mpi, parity
// ranks: 8
// devices: cuda, lazy
// timeout: 300
// Ranks that share one device: every split of the model follows the single-device trainer of the host in double precision, and with a codec
// on any traffic class the same mesh on the host.
#include "tests/models/training/device_run.h"

namespace thinwire {
namespace {

using namespace testing;

class DeviceParity : public DeviceTraining {};

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parity");
  return text;
}

TrainConfig base() {
  TrainConfig c = parity_config();
  c.model.layers = 2;  // the emulated device takes time for each
  c.steps = 2;
  c.trainer.schedule = {3e-3, 3e-4, 1, 2};
  c.dtype = DType::f32;
  return c;
}

ParityCase of_mesh(int tp, int pp, int dp, int micro) {
  TrainConfig c = base();
  c.mesh.tp = tp, c.mesh.pp = pp, c.mesh.dp = dp;
  c.model.layers = std::max<std::int64_t>(c.model.layers, pp);
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
          with(of_mesh(1, 1, 2, 4), "sharded", [](TrainConfig& c) { c.zero_stage = 1; }),
          with(of_mesh(1, 1, 4, 2), "zero 3", [](TrainConfig& c) { c.zero_stage = 3; }),
          with(of_mesh(1, 1, 4, 1), "zero 3, nodes", [](TrainConfig& c) { c.zero_stage = 3, c.mesh.dp_nodes = 2, c.zero_node_shards = true; }),
          with(of_mesh(2, 2, 1, 4), "scattered", [](TrainConfig& c) { c.scatter_gather = true; }),
          with(of_mesh(2, 1, 2, 4), "sequence parallel, recompute", [](TrainConfig& c) { c.sequence_parallel = c.recompute = true; }),
          with(of_mesh(1, 2, 2, 2), "interleaved, fused", [](TrainConfig& c) { c.schedule = "interleaved", c.virtual_stages = 2, c.model.layers = 4, c.embedding_sync = "fused"; }),
          with(of_mesh(1, 4, 1, 8), "token slices", [](TrainConfig& c) { c.schedule = "terapipe", c.token_slices = "4"; }),
          with(of_mesh(4, 1, 1, 8), "2d", [](TrainConfig& c) { c.tensor_parallel = "2d"; }),
          of_mesh(2, 2, 2, 2),
          with(of_mesh(8, 1, 1, 8), "2.5d", [](TrainConfig& c) { c.tensor_parallel = "2.5d:depth=2"; }),
          with(of_mesh(8, 1, 1, 8), "3d", [](TrainConfig& c) { c.tensor_parallel = "3d"; })};
}

TEST_F(DeviceParity, EverySplitFollowsTheSingleDeviceInDoublePrecision) {
  std::vector<ParityCase> cases = splits();
  const std::map<std::int64_t, RunCurve> references = single_device_curves(base(), cases, corpus());
  for (ParityCase& c : cases) c.config = on_device(c.config);
  const std::vector<double> d = distances(cases, references, corpus());
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_LT(d[i], 2e-5) << cases[i].name;
    worst = std::max(worst, d[i]);
  }
  if (world().rank() == 0) std::printf("%zu splits, largest relative distance %.2e\n", cases.size(), worst);
}

struct CodedCase {
  TrafficClass traffic;
  std::string codec;
  ParityCase split;
};

std::vector<CodedCase> coded_cases() {
  const auto sharded = [](TrainConfig& c) { c.zero_stage = 1; };
  return {{TrafficClass::tp_forward, "quantize:bits=8", of_mesh(2, 1, 1, 4)},
          {TrafficClass::tp_forward, "topk:fraction=0.3", of_mesh(2, 1, 1, 4)},
          {TrafficClass::tp_forward, "autoencoder:fraction=0.25,init=orthonormal,steps=0", of_mesh(2, 1, 1, 4)},
          {TrafficClass::tp_backward, "cast", of_mesh(2, 1, 1, 4)},
          {TrafficClass::pp_forward, "autoencoder:fraction=0.5,init=orthonormal,steps=0", of_mesh(1, 2, 2, 2)},
          {TrafficClass::pp_forward, "randomk:fraction=0.5", of_mesh(1, 2, 1, 4)},
          {TrafficClass::pp_backward, "powersgd:rank=4+lep", of_mesh(1, 2, 1, 2)},
          {TrafficClass::dp_gradient, "powersgd:rank=2+ef", of_mesh(1, 1, 2, 4)},
          {TrafficClass::dp_gradient, "topk:fraction=0.2+ef", of_mesh(1, 1, 2, 4)},
          {TrafficClass::embedding, "quantize:bits=8", of_mesh(1, 2, 2, 2)},
          {TrafficClass::grad_reduce_scatter, "quantize:bits=8+ef", with(of_mesh(1, 1, 4, 2), "sharded", sharded)},
          {TrafficClass::param_all_gather, "cast", with(of_mesh(1, 1, 4, 2), "sharded", sharded)},
          {TrafficClass::tp_forward, "quantize:bits=8", with(of_mesh(4, 1, 1, 8), "2d", [](TrainConfig& c) { c.tensor_parallel = "2d"; })}};
}

// A codec may turn a difference of the last bit into one of a quantum or an element: the bound is that of its effect on a loss.
TEST_F(DeviceParity, WithACodecOnAnyClassTheDeviceFollowsTheHost) {
  for (CodedCase& coded : coded_cases()) {
    TrainConfig c = coded.split.config;
    c.compress[coded.traffic].codec = coded.codec;
    c.check();
    const int ranks = c.mesh.ranks();
    const auto group = world().split(world().rank() < ranks ? 0 : -1, world().rank());
    double d = 0;
    if (group) d = distance(parallel_curve(*group, on_device(c), corpus()), parallel_curve(*group, c, corpus()));
    double worst = 0;
    world().all_reduce(&d, &worst, 1, DType::f64, ReduceOp::max)->wait();
    EXPECT_LT(worst, 5e-3) << name_of(coded.traffic) << " by " << coded.codec;
    if (world().rank() == 0) std::printf("%8.2e  %s by %s, %s\n", worst, name_of(coded.traffic).c_str(), coded.codec.c_str(), coded.split.name.c_str()), std::fflush(stdout);
  }
}

TEST_F(DeviceParity, ErrorsOfMessagesAreTheHosts) {
  TrainConfig c = of_mesh(2, 2, 2, 2).config;
  c.error_interval = 1;
  c.compress[TrafficClass::tp_forward].codec = "quantize:bits=4";
  c.compress[TrafficClass::pp_forward].codec = "topk:fraction=0.3";
  c.compress[TrafficClass::dp_gradient].codec = "randomk:fraction=0.3";
  const auto errors = [](const TrainConfig& config) {
    const auto trainer = ParallelTrainer::make(world(), config, corpus());
    std::map<TrafficClass, double> all;
    for (const TrafficRecord& r : trainer->step().traffic)
      if (r.reference_squared > 0) all[r.traffic] = std::sqrt(r.error_squared / r.reference_squared);
    return all;
  };
  const auto host = errors(c), device = errors(on_device(c));
  ASSERT_GE(host.size(), 2u);  // who receives nothing between stages measures nothing there
  for (const auto& [traffic, error] : host) {
    EXPECT_GT(error, 0.01) << name_of(traffic);
    EXPECT_NEAR(device.at(traffic), error, 1e-3) << name_of(traffic);
  }
}

TEST_F(DeviceParity, RecordedPassesChangeNoBitOfAPipelineOfReplicas) {
  TrainConfig c = on_device(of_mesh(1, 2, 2, 1).config);
  c.model.dropout = 0, c.steps = 4;
  TrainConfig recorded = c;
  recorded.graphs = true;
  recorded.check();
  const auto group = world().split(world().rank() < 4 ? 0 : -1, world().rank());
  if (!group) return;
  const RunCurve a = parallel_curve(*group, c, corpus()), b = parallel_curve(*group, recorded, corpus());
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_EQ(a.validation, b.validation);
}

TEST_F(DeviceParity, ShardedAndCompressedRunsResumeBitEqual) {
  const std::string path = scratch_file();
  TrainConfig c = on_device(of_mesh(2, 2, 2, 2).config);
  c.zero_stage = 3, c.zero_keep = "layer";
  c.compress[TrafficClass::tp_forward].codec = "quantize:bits=8";
  c.compress[TrafficClass::pp_backward].codec = "topk:fraction=0.3+ef";
  EXPECT_EQ(difference(straight(c, corpus(), 4), interrupted(c, corpus(), 2, 2, path, c)), "");
}

}  // namespace
}  // namespace thinwire
