// Interleaved 1F1B (Narayanan et al. 2021, section 2.2.2, figure 4 bottom): every stage holds V chunks of the
// model, far apart, so that the pipeline fills V times faster; it sends V times as many messages.
//
// A stage's M*V forwards go round in groups of P micro-batches: P through chunk 0, the same P through chunk
// 1, and so on; backwards likewise from the last chunk to the first. That is why M must be a multiple of P.
#include <algorithm>

#include "models/parallel/schedule/patterns.h"

namespace thinwire::schedules {
namespace {

struct Slot {
  int micro, chunk;
};

/// The k-th forward of every stage.
Slot forward_slot(const Schedule& s, int k) {
  const int group = s.stages * s.virtual_stages;
  return {k / group * s.stages + k % s.stages, k % group / s.stages};
}

void fill_interleaved(Schedule& s) {
  // With one chunk there is nothing to interleave, and filling twice as deep would only cost memory.
  if (s.virtual_stages == 1) return fill_one_forward_one_backward(s);
  const int total = s.micro_batches * s.virtual_stages;
  const auto forward = [&](int stage, int k) {
    const Slot slot = forward_slot(s, k);
    add_forward(s, stage, slot.micro, slot.chunk);
  };
  const auto backward = [&](int stage, int k) {
    const Slot slot = forward_slot(s, k);
    add_backward(s, stage, slot.micro, s.virtual_stages - 1 - slot.chunk);
  };
  for (int stage = 0; stage < s.stages; ++stage) {
    // The first gradient comes back after the rest of this round, and two steps for each stage behind.
    const int ahead = std::min(2 * (s.stages - stage - 1) + (s.virtual_stages - 1) * s.stages, total);
    for (int k = 0; k < ahead; ++k) forward(stage, k);
    for (int k = ahead; k < total; ++k) {
      forward(stage, k);
      backward(stage, k - ahead);
    }
    for (int k = total - ahead; k < total; ++k) backward(stage, k);
  }
}

[[gnu::init_priority(1000)]] const RegisterSchedule interleaved("interleaved", fill_interleaved, {.virtual_stages = true, .rounds_of_stages = true});

}  // namespace
}  // namespace thinwire::schedules
