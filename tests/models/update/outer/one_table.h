// A pipeline's first and last stage hold a copy each of the tied token table, and must hold the same bits.
#pragma once

#include <set>
#include <string>

#include "tests/models/training/resume_run.h"

namespace thinwire::testing {

/// Of two stages: compares what the state slots of these names hold of the table with the first stage's, by replica. Collective.
inline void expect_one_table(ParallelTrainer& trainer, const std::set<std::string>& names) {
  const auto group = world().split(trainer.mesh().coordinates().dp, world().rank());
  std::size_t compared = 0;
  for (const StateSlot& slot : trainer.state_slots()) {
    if (slot.layout.name() != "embedding.token" || !names.contains(slot.name)) continue;
    ++compared;
    const auto values = TensorView(slot.value).as<float>();
    std::vector<float> first(values.begin(), values.end()), own = first;
    group->broadcast(first.data(), static_cast<std::int64_t>(first.size() * sizeof(float)), 0)->wait();
    EXPECT_EQ(own, first) << slot.name;
  }
  EXPECT_EQ(compared, names.size());
}

}  // namespace thinwire::testing
