#include "models/parallel/schedule/validate.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace thinwire {
namespace {

using Kind = InstructionKind;
constexpr std::array kinds = {Kind::receive_forward,  Kind::forward,  Kind::send_forward,
                              Kind::receive_backward, Kind::backward, Kind::send_backward};

bool is_send(Kind kind) {
  return kind == Kind::send_forward || kind == Kind::send_backward;
}

/// Position in the model with which an instruction at `position` exchanges; nothing for a computation and
/// beyond the ends of the model.
std::optional<int> partner(const Schedule& s, Kind kind, int position) {
  if (is_computation(kind)) return std::nullopt;
  const bool in_front = kind == Kind::receive_forward || kind == Kind::send_backward;
  const int other = position + (in_front ? -1 : 1);
  if (other < 0 || other >= s.stages * s.virtual_stages) return std::nullopt;
  return other;
}

class Judge {
 public:
  explicit Judge(const Schedule& schedule) : s_(schedule) {}

  std::vector<ScheduleViolation> run() {
    for (int stage = 0; stage < s_.stages; ++stage) {
      judge_completeness(stage);
      judge_order(stage);
      judge_peers(stage);
    }
    judge_message_order();
    return std::move(found_);
  }

 private:
  using Slot = std::tuple<int, int, int>;  ///< micro, chunk, slice

  const std::vector<Instruction>& list(int stage) const { return s_.stage[static_cast<std::size_t>(stage)]; }
  void report(ScheduleProperty property, int stage, const std::string& what) {
    found_.push_back({property, "stage " + std::to_string(stage) + ": " + what});
  }

  void judge_completeness(int stage) {
    std::map<std::pair<Kind, Slot>, int> count;
    for (const Instruction& i : list(stage)) {
      if (i.micro < 0 || i.micro >= s_.micro_batches || i.chunk < 0 || i.chunk >= s_.virtual_stages || i.slice < 0 || i.slice >= s_.slices)
        report(ScheduleProperty::completeness, stage, describe(i) + " is outside the schedule");
      ++count[{i.kind, {i.micro, i.chunk, i.slice}}];
    }
    for (int chunk = 0; chunk < s_.virtual_stages; ++chunk) {
      for (int item = 0; item < s_.micro_batches * s_.slices; ++item) {
        const int micro = item / s_.slices, slice = item % s_.slices;
        for (const Kind kind : kinds) {
          const int position = global_chunk(s_, stage, chunk);
          const int wanted = is_computation(kind) || partner(s_, kind, position) ? 1 : 0;
          const int got = count[{kind, {micro, chunk, slice}}];
          if (got != wanted)
            report(ScheduleProperty::completeness, stage,
                   describe({kind, micro, chunk, -1, slice}) + " appears " + std::to_string(got) + " times, not " +
                       std::to_string(wanted));
        }
      }
    }
  }

  /// The kinds are declared in the order that a micro-batch goes through on a stage. Slices go forward after those in front of them and
  /// backward after those behind them.
  void judge_order(int stage) {
    std::map<Slot, Kind> last;
    std::map<std::pair<int, int>, int> forwards, backwards;  ///< slices done, by (micro, chunk)
    for (const Instruction& i : list(stage)) {
      if (i.kind == Kind::forward && forwards[{i.micro, i.chunk}]++ != i.slice)
        report(ScheduleProperty::order, stage, describe(i) + " comes before a slice in front of it");
      if (i.kind == Kind::backward && s_.slices - 1 - backwards[{i.micro, i.chunk}]++ != i.slice)
        report(ScheduleProperty::order, stage, describe(i) + " comes before a slice behind it");
      const auto [before, is_new] = last.try_emplace({i.micro, i.chunk, i.slice}, i.kind);
      if (is_new) continue;
      if (before->second >= i.kind)
        report(ScheduleProperty::order, stage, describe(i) + " comes after " + name_of(before->second));
      before->second = std::max(before->second, i.kind);
    }
  }

  void judge_peers(int stage) {
    for (const Instruction& i : list(stage)) {
      const auto other = partner(s_, i.kind, global_chunk(s_, stage, i.chunk));
      const int wanted = other ? *other % s_.stages : -1;
      if (i.peer != wanted)
        report(ScheduleProperty::peers, stage,
               describe(i) + " should be with stage " + std::to_string(wanted));
    }
  }

  void judge_message_order() {
    struct Message {
      int position, micro, slice;  ///< position: of the sending chunk
      bool operator==(const Message&) const = default;
    };
    using Road = std::pair<std::pair<int, int>, bool>;  ///< from, to, is forward
    std::map<Road, std::pair<std::vector<Message>, std::vector<Message>>> roads;
    for (int stage = 0; stage < s_.stages; ++stage) {
      for (const Instruction& i : list(stage)) {
        if (is_computation(i.kind)) continue;
        const int position = global_chunk(s_, stage, i.chunk);
        const bool forward = i.kind == Kind::send_forward || i.kind == Kind::receive_forward;
        if (is_send(i.kind))
          roads[{{stage, i.peer}, forward}].first.push_back({position, i.micro, i.slice});
        else
          roads[{{i.peer, stage}, forward}].second.push_back({position + (forward ? -1 : 1), i.micro, i.slice});
      }
    }
    for (const auto& [road, ends] : roads) {
      const auto& [sent, received] = ends;
      const auto [at_sender, at_receiver] =
          std::mismatch(sent.begin(), sent.end(), received.begin(), received.end());
      if (at_sender == sent.end() && at_receiver == received.end()) continue;
      const auto text = [](const auto& at, const auto& all) {
        return at == all.end() ? std::string("nothing")
                               : "micro-batch " + std::to_string(at->micro) + (at->slice > 0 ? ", slice " + std::to_string(at->slice) : "") + " of position " +
                                     std::to_string(at->position);
      };
      report(ScheduleProperty::message_order, road.first.first,
             std::string(road.second ? "forward" : "backward") + " message " +
                 std::to_string(at_sender - sent.begin()) + " to stage " + std::to_string(road.first.second) +
                 " is " + text(at_sender, sent) + ", but " + text(at_receiver, received) + " is received");
    }
  }

  const Schedule& s_;
  std::vector<ScheduleViolation> found_;
};

}  // namespace

std::string name_of(ScheduleProperty property) {
  switch (property) {
    case ScheduleProperty::completeness:
      return "completeness";
    case ScheduleProperty::order:
      return "order";
    case ScheduleProperty::peers:
      return "peers";
    case ScheduleProperty::message_order:
      return "message order";
  }
  return "unknown";
}

std::vector<ScheduleViolation> violations(const Schedule& schedule) {
  if (static_cast<int>(schedule.stage.size()) != schedule.stages)
    return {{ScheduleProperty::completeness, "the schedule has instructions for " +
                                                 std::to_string(schedule.stage.size()) + " stages, not " +
                                                 std::to_string(schedule.stages)}};
  return Judge(schedule).run();
}

void require_sound(const Schedule& schedule) {
  const auto found = violations(schedule);
  if (found.empty()) return;
  constexpr std::size_t shown = 3;
  std::string message = "pipeline schedule " + schedule.name + " is not sound";
  for (std::size_t i = 0; i < std::min(found.size(), shown); ++i)
    message += (i ? "; " : ": ") + found[i].what + " (" + name_of(found[i].property) + ")";
  if (found.size() > shown) message += "; and " + std::to_string(found.size() - shown) + " more";
  throw RuntimeFailure(message);
}

}  // namespace thinwire
