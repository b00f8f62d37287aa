#include "core/process/real_time.h"

#include <sched.h>

namespace thinwire {

RealTimePriority::RealTimePriority() {
  sched_param before{}, now{};
  policy_before_ = sched_getscheduler(0);
  if (policy_before_ < 0 || sched_getparam(0, &before) != 0) return;
  level_before_ = before.sched_priority;
  if (policy_before_ == SCHED_RR || policy_before_ == SCHED_FIFO) {  // whoever started the program asked for it
    policy_before_ = -1;
    granted_ = true;
    return;
  }
  now.sched_priority = sched_get_priority_min(SCHED_RR);
  granted_ = sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &now) == 0;
}

RealTimePriority::~RealTimePriority() {
  if (!granted_ || policy_before_ < 0) return;
  sched_param before{};
  before.sched_priority = level_before_;
  sched_setscheduler(0, policy_before_, &before);
}

}  // namespace thinwire
