// TeraPipe (Li et al. 2021): micro-batches are cut along their tokens, and the slices stream through the stages. Causal attention lets a
// stage compute a slice as soon as it has computed those in front of it, so the pipeline fills with slices instead of micro-batches. The
// gradient of a slice's keys and values needs those of all slices behind it: backward takes everything in reverse.
#include "models/parallel/schedule/patterns.h"

namespace thinwire::schedules {
namespace {

void fill_terapipe(Schedule& s) {
  for (int stage = 0; stage < s.stages; ++stage) {
    for (int micro = 0; micro < s.micro_batches; ++micro)
      for (int slice = 0; slice < s.slices; ++slice) add_forward(s, stage, micro, 0, slice);
    for (int micro = s.micro_batches; micro-- > 0;)
      for (int slice = s.slices; slice-- > 0;) add_backward(s, stage, micro, 0, slice);
  }
}

[[gnu::init_priority(1000)]] const RegisterSchedule terapipe("terapipe", fill_terapipe, {.token_slices = true});

}  // namespace
}  // namespace thinwire::schedules
