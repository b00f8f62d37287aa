// What every pipeline schedule must fulfil, whoever wrote it. That it also runs through is for walk.h to find
// out.
#pragma once

#include <string>
#include <vector>

#include "models/parallel/schedule/schedule.h"

namespace thinwire {

enum class ScheduleProperty {
  completeness,   ///< every computation and every message that the model needs, once, and nothing else
  order,          ///< receive, forward, send, then receive, backward, send, for each micro-batch, slice and chunk; slices forward in
                  ///< order, backward in reverse order
  peers,          ///< messages go to the stages that hold the neighbouring positions of the model
  message_order,  ///< of each ordered pair of stages and direction, sender and receiver name the same
                  ///< messages in the same order
};
std::string name_of(ScheduleProperty property);

struct ScheduleViolation {
  ScheduleProperty property;
  std::string what;  ///< a sentence naming stage and instruction
};

/// Empty for a sound schedule (not a lowered one). Each property is judged by itself: one broken instruction may violate several.
std::vector<ScheduleViolation> violations(const Schedule& schedule);

/// Throws RuntimeFailure with the first violations, for a schedule from anywhere but make_schedule.
void require_sound(const Schedule& schedule);

}  // namespace thinwire
