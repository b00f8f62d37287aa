// How many messages a class of a step had.
#pragma once

#include <ostream>

#include "models/training/parallel_trainer.h"

namespace thinwire::testing {

struct Messages {
  std::int64_t dense = 0, coded = 0;
  bool operator==(const Messages&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Messages& m) {
  return out << m.dense << " dense, " << m.coded << " coded";
}

/// Of this rank.
inline Messages messages_of(const StepRecord& step, TrafficClass traffic) {
  Messages m;
  for (const TrafficRecord& record : step.traffic)
    if (record.traffic == traffic) (record.codec == uncompressed ? m.dense : m.coded) += record.operations;
  return m;
}

}  // namespace thinwire::testing
