// labels: mpi
// ranks: 6
// timeout: 300
// Of three replicas the order matters in which their outer gradients are added: a pipeline's two copies of the tied table must be added in one.
#include "tests/models/training/resume_run.h"

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
  const auto group = world().split(trainer->mesh().coordinates().dp, world().rank());
  for (int s = 0; s < 6; ++s) trainer->step();
  int tables = 0;
  for (const StateSlot& slot : trainer->state_slots()) {
    if (slot.layout.name() != "embedding.token" || (slot.name != "weights" && slot.name != "outer_momentum")) continue;
    ++tables;
    std::vector<float> first(TensorView(slot.value).as<float>().begin(), TensorView(slot.value).as<float>().end()), own = first;
    group->broadcast(first.data(), static_cast<std::int64_t>(first.size() * sizeof(float)), 0)->wait();
    EXPECT_EQ(own, first) << slot.name;
  }
  EXPECT_EQ(tables, 2);
}

}  // namespace
}  // namespace thinwire
