// labels: gpu, mpi, parity
// ranks: 4
// devices: cuda, lazy-each
// timeout: 180
// Ranks with a device each: tensors travel by NCCL, and training follows the single-device trainer of the host in double precision; with
// codecs it is that over staging.
#include "tests/collectives/device_world.h"
#include "tests/models/training/device_run.h"

namespace thinwire {
namespace {

using namespace testing;

const Corpus& corpus() {
  static const Corpus text = Corpus::from_text(parity_text(), "parity");
  return text;
}

class NcclTraining : public DeviceTraining {
 protected:
  void SetUp() override {
    DeviceTraining::SetUp();
    if (!IsSkipped() && device_count() < world().size()) GTEST_SKIP() << "NCCL needs a device for each of " << world().size() << " ranks, here are " << device_count();
  }
};

TrainConfig of_mesh(int tp, int pp, int dp) {
  TrainConfig c = on_device(parity_config());
  c.mesh.tp = tp, c.mesh.pp = pp, c.mesh.dp = dp;
  c.model.layers = 2, c.micro_batch = 2, c.steps = 2;
  c.trainer.schedule = {3e-3, 3e-4, 1, 2};
  c.dtype = DType::f32;
  return c;
}

TEST_F(NcclTraining, SplitsFollowTheSingleDeviceInDoublePrecision) {
  setenv("THINWIRE_DEVICE_TRANSPORT", "nccl", 1);  // or an error
  TrainConfig alone = of_mesh(1, 1, 1);
  const RunCurve reference = single_device_curve(alone, corpus());
  std::vector<TrainConfig> cases = {of_mesh(2, 2, 1), of_mesh(2, 1, 2), of_mesh(1, 2, 2), of_mesh(4, 1, 1)};
  cases[0].scatter_gather = true;
  cases[1].sequence_parallel = true;
  cases[2].zero_stage = 1;
  cases[3].tensor_parallel = "2d", cases[3].micro_batch = 4;
  for (const TrainConfig& c : cases) {
    c.check();
    const double d = distance(parallel_curve(world(), c, corpus()), reference);
    EXPECT_LT(d, 2e-5) << c.mesh.tp << c.mesh.pp << c.mesh.dp;
    if (world().rank() == 0) std::printf("%8.2e  tp%d pp%d dp%d\n", d, c.mesh.tp, c.mesh.pp, c.mesh.dp);
  }
}

TEST_F(NcclTraining, WithCodecsTrainingIsThatOverStaging) {
  TrainConfig c = of_mesh(2, 2, 1);
  c.compress[TrafficClass::tp_forward].codec = "quantize:bits=8";
  c.compress[TrafficClass::pp_backward].codec = "topk:fraction=0.3+ef";
  const RunCurve nccl = parallel_curve(world(), c, corpus());
  setenv("THINWIRE_DEVICE_TRANSPORT", "staged", 1);
  const RunCurve staged = parallel_curve(world(), c, corpus());
  unsetenv("THINWIRE_DEVICE_TRANSPORT");
  EXPECT_LT(distance(nccl, staged), 1e-5);
}

}  // namespace
}  // namespace thinwire
