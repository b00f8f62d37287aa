// labels: mpi
// ranks: 6
// timeout: 300
// Of three replicas the order matters in which their outer gradients are added: a pipeline's two copies of the tied table must be added in one.
#include "tests/models/update/outer/one_table.h"

namespace thinwire {
namespace {

using namespace testing;

TEST(OuterLoop, BothEndsOfAPipelineKeepOneTableAmongThreeReplicas) {
  const Corpus text = Corpus::from_text(parity_text(), "tied table of three");
  TrainConfig c = parity_config();
  c.mesh = {1, 2, 3};
  c.mesh.dp_replicas = 3;
  c.dtype = DType::f32, c.comm_dtype = DType::bf16;
  c.model.layers = 2, c.model.hidden = 16, c.model.vocab = 256;  // a table that blocks of a ring would cut, in another place on either stage
  c.global_batch = 6 * c.micro_batch;
  c.steps = 8;
  c.optimizer = "adamw+diloco:inner_steps=2";
  c.check();
  const auto trainer = ParallelTrainer::make(world(), c, text);
  for (int s = 0; s < 6; ++s) trainer->step();
  expect_one_table(*trainer, {"weights", "outer_momentum"});
}

}  // namespace
}  // namespace thinwire
