#include "models/parallel/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/joined.h"
#include "models/parallel/schedule/patterns.h"

namespace thinwire {
namespace {

struct Pattern {
  void (*fill)(Schedule&);
  ScheduleTraits traits;
};

std::map<std::string, Pattern>& patterns() {
  static std::map<std::string, Pattern> all;
  return all;
}

const Pattern& pattern_named(const std::string& name) {
  const auto found = patterns().find(name);
  if (found != patterns().end()) return found->second;
  throw UsageError("unknown pipeline schedule '" + name + "'; there are: " + joined(schedule_names()));
}

void require_extents(const std::string& name, const ScheduleTraits& traits, int stages, int micro_batches, int virtual_stages, int slices) {
  const std::array<std::pair<const char*, int>, 4> extents = {
      {{"stages", stages}, {"micro-batches", micro_batches}, {"virtual stages", virtual_stages}, {"slices", slices}}};
  for (const auto& [what, value] : extents)
    if (value < 1)
      throw UsageError("pipeline schedule " + name + ": " + what + " must be at least 1, not " +
                       std::to_string(value));
  if (virtual_stages > 1 && !traits.virtual_stages)
    throw UsageError("pipeline schedule " + name + " has one virtual stage per stage, not " +
                     std::to_string(virtual_stages) + "; use schedule " + joined(schedules_that(&ScheduleTraits::virtual_stages), " or ") + ", or 1 virtual stage");
  if (virtual_stages > 1 && stages == 1)
    throw UsageError(
        "pipeline schedule " + name + ": " + std::to_string(virtual_stages) +
        " virtual stages need at least 2 stages, not 1; raise the stages or use 1 virtual stage");
  if (slices > 1 && !traits.token_slices)
    throw UsageError("pipeline schedule " + name + " runs whole micro-batches, not " + std::to_string(slices) +
                     " slices of them; a slice needs what those in front of it left behind, and its gradient what those behind it did: "
                     "use schedule " + joined(schedules_that(&ScheduleTraits::token_slices), " or ") + ", or 1 slice");
  if (traits.rounds_of_stages && micro_batches % stages != 0)
    throw UsageError("pipeline schedule " + name + ": micro-batches (" + std::to_string(micro_batches) +
                     ") must be a multiple of stages (" + std::to_string(stages) +
                     "); change one of them or use another schedule");
}

}  // namespace

std::string name_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::receive_forward:
      return "receive_forward";
    case InstructionKind::forward:
      return "forward";
    case InstructionKind::send_forward:
      return "send_forward";
    case InstructionKind::receive_backward:
      return "receive_backward";
    case InstructionKind::backward:
      return "backward";
    case InstructionKind::send_backward:
      return "send_backward";
    case InstructionKind::unshard:
      return "unshard";
    case InstructionKind::wait_unshard:
      return "wait_unshard";
    case InstructionKind::reshard:
      return "reshard";
    case InstructionKind::reduce:
      return "reduce";
  }
  return "unknown";
}

std::string name_of(Phase phase) {
  switch (phase) {
    case Phase::warm_up:
      return "warm-up";
    case Phase::steady:
      return "steady";
    case Phase::cool_down:
      return "cool-down";
  }
  return "unknown";
}

std::string describe(const Instruction& i) {
  std::string text =
      name_of(i.kind) + " of micro-batch " + std::to_string(i.micro) + (i.slice > 0 ? ", slice " + std::to_string(i.slice) : "") + ", chunk " + std::to_string(i.chunk);
  if (i.unit >= 0) text += ", unit " + std::to_string(i.unit);
  if (i.peer >= 0) text += ", with stage " + std::to_string(i.peer);
  return text;
}

schedules::RegisterSchedule::RegisterSchedule(const char* name, void (*fill)(Schedule&), const ScheduleTraits& traits) {
  TW_ASSERT(patterns().emplace(name, Pattern{fill, traits}).second, std::string("two schedules are called ") + name);
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, pattern] : patterns()) all.push_back(name);
    return all;
  }();
  return names;
}

const ScheduleTraits& schedule_traits(const std::string& name) { return pattern_named(name).traits; }

std::vector<std::string> schedules_that(bool ScheduleTraits::* can) {
  std::vector<std::string> names;
  for (const auto& [name, pattern] : patterns())
    if (pattern.traits.*can) names.push_back(name);
  return names;
}

Schedule make_schedule(const std::string& name, int stages, int micro_batches, int virtual_stages, int slices) {
  const Pattern& pattern = pattern_named(name);
  require_extents(name, pattern.traits, stages, micro_batches, virtual_stages, slices);
  Schedule schedule{name, stages, micro_batches, virtual_stages, slices, {}, {}};
  schedule.stage.resize(static_cast<std::size_t>(stages));
  pattern.fill(schedule);
  return schedule;
}

int global_chunk(const Schedule& schedule, int stage, int chunk) {
  return chunk * schedule.stages + stage;
}

Phase phase_of(const Schedule& schedule, int stage, int index) {
  const auto& list = schedule.stage.at(static_cast<std::size_t>(stage));
  const auto turns_back = [](const Instruction& i) {
    return i.kind == InstructionKind::receive_backward || i.kind == InstructionKind::backward;
  };
  const auto goes_forward = [](const Instruction& i) {
    return i.kind == InstructionKind::forward || i.kind == InstructionKind::send_forward;
  };
  const auto first_back = std::ranges::find_if(list, turns_back) - list.begin();
  if (index < first_back) return Phase::warm_up;
  const auto after_forwards = std::find_if(list.rbegin(), list.rend(), goes_forward).base() - list.begin();
  return index < after_forwards ? Phase::steady : Phase::cool_down;
}

int peak_live_activations(const Schedule& schedule, int stage) {
  int live = 0, peak = 0;
  for (const Instruction& i : schedule.stage.at(static_cast<std::size_t>(stage))) {
    if (i.kind == InstructionKind::forward && i.at_first_unit()) peak = std::max(peak, ++live);
    if (i.kind == InstructionKind::backward && i.at_first_unit()) --live;
  }
  return peak;
}

}  // namespace thinwire
