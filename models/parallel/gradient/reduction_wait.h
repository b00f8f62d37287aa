// Waiting for what replicas send each other.
#pragma once

#include "collectives/channel/channel.h"
#include "collectives/process/rank_clock.h"
#include "core/process/trace.h"

namespace thinwire {

/// Waits, adds the time to `waited_us` and forgets the operation. Nothing for an operation that was never started.
inline void wait_reduction(Operation& operation, double& waited_us) {
  if (!operation.valid()) return;
  const std::int64_t begin = RankClock::now_ns();
  operation.wait();
  const std::int64_t end = RankClock::now_ns();
  waited_us += static_cast<double>(end - begin) * 1e-3;
  Trace::add(TraceCategory::wait, "gradients", begin, end);
  operation = {};
}

}  // namespace thinwire
