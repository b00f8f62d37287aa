#include "models/update/outer/fragment_schedule.h"

#include <string>

#include "core/error.h"

namespace thinwire {

FragmentSchedule::FragmentSchedule(std::int64_t inner_steps, int fragments, std::int64_t overlap) : fragments_(fragments), turn_(inner_steps / fragments), overlap_(overlap) {
  const std::string steps = std::to_string(inner_steps);
  if (inner_steps % fragments != 0) {
    int fewer = fragments;
    while (inner_steps % fewer != 0) --fewer;
    throw UsageError("fragments take turns of equal length, but " + steps + " inner steps do not divide into " + std::to_string(fragments) + "; choose inner_steps=" +
                     std::to_string((inner_steps / fragments + 1) * fragments) + " or fragments=" + std::to_string(fewer));
  }
  if (overlap >= turn_)
    throw UsageError("an overlap of " + std::to_string(overlap) + " steps would put two fragments on the way at once: a fragment's turn is " + steps + " / " + std::to_string(fragments) + " = " +
                     std::to_string(turn_) + " steps; choose a smaller overlap");
}

int FragmentSchedule::begins(std::int64_t done) const {
  const std::int64_t boundary = done + overlap_;
  return done > 0 && boundary % turn_ == 0 ? fragment_at(boundary) : -1;
}

int FragmentSchedule::ends(std::int64_t done) const { return done > 0 && done % turn_ == 0 ? fragment_at(done) : -1; }

int FragmentSchedule::under_way(std::int64_t done) const {
  const std::int64_t boundary = (done / turn_ + 1) * turn_;
  return done > 0 && boundary - done <= overlap_ ? fragment_at(boundary) : -1;
}

int fragment_of(int unit, std::int64_t layers, int fragments, FragmentLayout layout) {
  if (unit < 0 || unit >= layers) return 0;
  return static_cast<int>(layout == FragmentLayout::strided ? unit % fragments : unit * fragments / layers);
}

}  // namespace thinwire
