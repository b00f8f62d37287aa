// How a file adds an order of computation that make_schedule knows, and the messages around each computation.
#pragma once

#include "models/parallel/schedule/schedule.h"

namespace thinwire::schedules {

/// Appends forward (backward) of a micro-batch through a chunk, with the receive in front of it and the send
/// behind it where the chunk is not at that end of the model. Receives stand directly before their use: a
/// stage never waits for more than it needs.
void add_forward(Schedule& schedule, int stage, int micro, int chunk, int slice = 0);
void add_backward(Schedule& schedule, int stage, int micro, int chunk, int slice = 0);

/// `fill` writes schedule.stage of a schedule whose extents are set and sound.
/// Declared with [[gnu::init_priority(1000)]]: claims walk schedules for the arms of their rules while a program starts, in whatever order it was linked.
struct RegisterSchedule {
  RegisterSchedule(const char* name, void (*fill)(Schedule&), const ScheduleTraits& traits = {});
};

/// 1F1B; schedule interleaved is the same where a stage has one chunk.
void fill_one_forward_one_backward(Schedule& schedule);

}  // namespace thinwire::schedules
