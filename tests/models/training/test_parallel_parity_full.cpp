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
  TrainConfig single = parity_config();
  single.steps = 20;
  std::vector<ParityCase> cases;
  for (auto& [index, c] : all_parity_cases()) {
    c.config.steps = single.steps;
    cases.push_back(std::move(c));
  }
  if (world().rank() == 0) std::printf("%zu combinations\n", cases.size());
  const std::vector<double> d = distances(cases, single_device_curves(single, cases, corpus), corpus);
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_LT(d[i], 1e-10) << cases[i].name;
}

}  // namespace
}  // namespace thinwire
