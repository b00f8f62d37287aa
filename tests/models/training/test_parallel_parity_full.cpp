// labels: mpi, parity-full
// ranks: 8
// timeout: 14400
// Twenty steps of the full product of meshes, schedules, micro-batches and switches of which test_parallel_parity walks a pairwise cover. Runs
// with ./run_tests.sh --full.
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

TEST(ParityFull, EveryCombinationFollowsTheSingleDeviceInDoublePrecision) {
  const Corpus corpus = Corpus::from_text(parity_text(), "parity");
  std::vector<ParityCase> cases = all_parity_cases();
  TrainConfig single = parity_config();
  single.steps = 20;
  for (ParityCase& c : cases) c.config.steps = single.steps;
  if (world().rank() == 0) std::printf("%zu combinations\n", cases.size());
  const RunCurve reference = single_device_curve(single, corpus);
  const std::vector<double> d = distances(cases, reference, corpus);
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_LT(d[i], 1e-10) << cases[i].name;
}

}  // namespace
}  // namespace thinwire
