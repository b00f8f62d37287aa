// GPipe (Huang et al. 2019): every forward of the step, then every backward. Simple, but a stage keeps the
// activations of all micro-batches. Backward runs in the order of forward, so that gradients are added in the
// same order as under 1F1B.
#include "models/parallel/schedule/patterns.h"

namespace thinwire::schedules {
namespace {

void fill_gpipe(Schedule& s) {
  for (int stage = 0; stage < s.stages; ++stage) {
    for (int micro = 0; micro < s.micro_batches; ++micro) add_forward(s, stage, micro, 0);
    for (int micro = 0; micro < s.micro_batches; ++micro) add_backward(s, stage, micro, 0);
  }
}

[[gnu::init_priority(1000)]] const RegisterSchedule gpipe("gpipe", fill_gpipe);

}  // namespace
}  // namespace thinwire::schedules
