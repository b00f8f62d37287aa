// 1F1B without interleaving (PipeDream-Flush; Narayanan et al. 2021, figure 4 top): a stage runs as many
// forwards as there are stages behind it, then alternates, so that it keeps at most P - stage micro-batches.
// The bubble is GPipe's.
#include <algorithm>

#include "models/parallel/schedule/patterns.h"

namespace thinwire::schedules {

void fill_one_forward_one_backward(Schedule& s) {
  for (int stage = 0; stage < s.stages; ++stage) {
    const int ahead = std::min(s.stages - stage - 1, s.micro_batches);
    for (int micro = 0; micro < ahead; ++micro) add_forward(s, stage, micro, 0);
    for (int micro = ahead; micro < s.micro_batches; ++micro) {
      add_forward(s, stage, micro, 0);
      add_backward(s, stage, micro - ahead, 0);
    }
    for (int micro = s.micro_batches - ahead; micro < s.micro_batches; ++micro)
      add_backward(s, stage, micro, 0);
  }
}

namespace {
[[gnu::init_priority(1000)]] const RegisterSchedule one_forward_one_backward("1f1b", fill_one_forward_one_backward, {.epilogue = true});
}

}  // namespace thinwire::schedules
