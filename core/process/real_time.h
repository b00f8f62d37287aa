// Real-time scheduling for a while: for timed steps, whose waits must end when they end and not when other jobs let them.
#pragma once

namespace thinwire {

/// While one of these lives, the calling thread runs before every thread of ordinary priority (SCHED_RR, lowest level), where the system
/// grants it (root, or CAP_SYS_NICE). For threads that mostly sleep.
class RealTimePriority {
 public:
  RealTimePriority();
  ~RealTimePriority();
  RealTimePriority(const RealTimePriority&) = delete;
  RealTimePriority& operator=(const RealTimePriority&) = delete;
  bool granted() const { return granted_; }

 private:
  bool granted_ = false;
  int policy_before_ = 0, level_before_ = 0;
};

}  // namespace thinwire
