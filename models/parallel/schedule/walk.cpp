#include "models/parallel/schedule/walk.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/error.h"

namespace thinwire {
namespace {

using Kind = InstructionKind;

/// One message, from when one end comes to it until it has been received.
struct Message {
  int micro = 0, slice = 0;
  int sender_position = 0;
  std::optional<double> sent, awaited;  ///< when sender and receiver came to it
  double cost = 0;
  std::optional<double> arrival;
};

/// Messages of one ordered pair of stages and direction. Both ends meet in order.
struct Road {
  std::deque<Message> messages;
  std::size_t send_count = 0, receive_count = 0;
  std::size_t timed = 0;  ///< messages whose arrival is known
  double free_from = 0;   ///< the message before has arrived

  Message& at(std::size_t index) {
    if (index >= messages.size()) messages.resize(index + 1);
    return messages[index];
  }
};

class Walker {
 public:
  Walker(const Schedule& schedule, const InstructionCost& cost, SendMode mode, const PassShare& share)
      : s_(schedule),
        cost_(cost),
        mode_(mode),
        share_(share),
        now_(schedule.stage.size()),
        next_(schedule.stage.size()),
        left_(schedule.stage.size()),
        posted_(schedule.stage.size()),
        pass_(schedule.stage.size()),
        links_(schedule.stage.size()),
        gathered_(schedule.stage.size()),
        gathers_known_(schedule.stage.size()) {
    walk_.reduced.resize(schedule.stage.size());
    walk_.busy.resize(schedule.stage.size());
    for (const auto& list : s_.stage) walk_.stage.emplace_back(list.size());
  }

  Walk run() {
    // What a stage can do next depends only on messages, never on who is looked at first: any order of
    // looking gives the same times.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < s_.stage.size(); ++stage)
        while (next_[stage] < s_.stage[stage].size() && step(stage)) moved = true;
    }
    require_finished();
    for (std::size_t stage = 0; stage < s_.stage.size(); ++stage) {
      walk_.makespan = std::max(walk_.makespan, now_[stage]);
      walk_.sends_done.push_back(std::max(now_[stage], left_[stage]));
      while (const auto done = links_[stage].next_done(SharedLink::gathers)) arrived(stage, *done);
      while (const auto done = links_[stage].next_done(SharedLink::reductions)) {
        arrived(stage, *done);
        walk_.reduced[stage] = done->at.arrival;
      }
      walk_.peak_live.push_back(peak_live_activations(s_, static_cast<int>(stage)));
    }
    return std::move(walk_);
  }

 private:
  const Instruction& next(std::size_t stage) const { return s_.stage[stage][next_[stage]]; }
  double cost(std::size_t stage) const { return cost_(static_cast<int>(stage), next(stage)).total(); }

  Road& road(int from, int to, bool forward) { return roads_[{{from, to}, forward}]; }

  /// Carries out a stage's next instruction; false when that has to wait for another stage.
  bool step(std::size_t stage) {
    switch (next(stage).kind) {
      case Kind::forward:
      case Kind::backward:
        compute(stage);
        return true;
      case Kind::unshard:
        links_[stage].start(SharedLink::gathers, next_[stage], now_[stage], cost_(static_cast<int>(stage), next(stage)));
        gathered_[stage][{next(stage).chunk, next(stage).unit}] = next_[stage];
        finish(stage, now_[stage]);
        return true;
      case Kind::wait_unshard:
        wait_for_unit(stage);
        return true;
      case Kind::reshard:
        finish(stage, now_[stage]);
        return true;
      case Kind::reduce:
        links_[stage].start(SharedLink::reductions, next_[stage], now_[stage], cost_(static_cast<int>(stage), next(stage)));
        finish(stage, now_[stage]);
        return true;
      case Kind::send_forward:
      case Kind::send_backward:
        return send(stage);
      case Kind::receive_forward:
      case Kind::receive_backward:
        return receive(stage);
    }
    return false;
  }

  /// The end of a unit is reckoned from the begin of its pass, so that a pass with nothing inside ends when an unlowered one does, to the bit.
  void compute(std::size_t stage) {
    const Instruction& i = next(stage);
    if (mode_ == SendMode::departing) now_[stage] = std::max(now_[stage], left_[stage]);
    OpenPass& pass = pass_[stage];
    const bool begins = i.unit < 0 || i.unit == (i.kind == Kind::forward ? 0 : units(stage, i) - 1);
    if (begins) {
      pass = {now_[stage], cost(stage), now_[stage]};
      walk_.busy[stage] += pass.duration;
    }
    pass.begin += now_[stage] - pass.done;  // what held it up since its last unit
    pass.done = i.unit < 0 ? pass.begin + pass.duration : pass.begin + pass.duration * share(stage, i);
    finish(stage, pass.done);
  }

  int units(std::size_t stage, const Instruction& i) const { return s_.units[stage][static_cast<std::size_t>(i.chunk)]; }
  double share(std::size_t stage, const Instruction& i) const {
    if (share_) return share_(static_cast<int>(stage), i);
    const int count = units(stage, i);
    return static_cast<double>(i.kind == Kind::forward ? i.unit + 1 : count - i.unit) / count;
  }

  void wait_for_unit(std::size_t stage) {
    const Instruction& i = next(stage);
    const auto found = gathered_[stage].find({i.chunk, i.unit});
    if (found == gathered_[stage].end())
      throw RuntimeFailure("pipeline schedule " + s_.name + ": stage " + std::to_string(stage) + " waits for a gather that was not started: " + describe(i));
    // Nothing is started while the stage waits, so what the link does until then is known.
    while (gathers_known_[stage] <= found->second) arrived(stage, *links_[stage].next_done(SharedLink::gathers));
    finish(stage, std::max(now_[stage], walk_.stage[stage][found->second].arrival));
    gathered_[stage].erase(found);
  }

  void arrived(std::size_t stage, const SharedLink::Done& done) {
    WalkedInstruction& at = walk_.stage[stage][done.id];
    at.departure = done.at.begin, at.arrival = done.at.arrival;
    if (s_.stage[stage][done.id].kind == Kind::unshard) gathers_known_[stage] = done.id + 1;
  }

  bool send(std::size_t stage) {
    const Instruction& i = next(stage);
    const bool forward = i.kind == Kind::send_forward;
    Road& r = road(static_cast<int>(stage), i.peer, forward);
    if (!posted_[stage]) {
      posted_[stage] = true;
      Message& m = r.at(r.send_count);
      meet(m, i, global_chunk(s_, static_cast<int>(stage), i.chunk), static_cast<int>(stage), i.peer);
      m.sent = now_[stage];
      m.cost = cost(stage);
    }
    time_transfers(r);
    const Message& m = r.at(r.send_count);
    if (mode_ == SendMode::blocking && !m.arrival) return false;
    ++r.send_count;
    walk_.stage[stage][next_[stage]].arrival = m.arrival.value_or(now_[stage]);
    if (m.arrival) left_[stage] = std::max(left_[stage], *m.arrival);
    finish(stage, mode_ == SendMode::blocking ? std::max(now_[stage], *m.arrival) : now_[stage]);
    return true;
  }

  bool receive(std::size_t stage) {
    const Instruction& i = next(stage);
    const bool forward = i.kind == Kind::receive_forward;
    Road& r = road(i.peer, static_cast<int>(stage), forward);
    Message& m = r.at(r.receive_count);
    if (!posted_[stage]) {
      posted_[stage] = true;
      const int position = global_chunk(s_, static_cast<int>(stage), i.chunk);
      meet(m, i, position + (forward ? -1 : 1), i.peer, static_cast<int>(stage));
      m.awaited = now_[stage];
    }
    time_transfers(r);
    if (!m.arrival) return false;
    ++r.receive_count;
    finish(stage, std::max(now_[stage], *m.arrival));
    return true;
  }

  void finish(std::size_t stage, double end) {
    walk_.stage[stage][next_[stage]].start = now_[stage];
    walk_.stage[stage][next_[stage]].end = end;
    now_[stage] = end;
    ++next_[stage];
    posted_[stage] = false;
  }

  /// The end that comes first says which message it means; the other must mean the same.
  void meet(Message& m, const Instruction& i, int sender_position, int from, int to) const {
    if (!m.sent && !m.awaited) {
      m.micro = i.micro, m.slice = i.slice, m.sender_position = sender_position;
    } else if (m.micro != i.micro || m.slice != i.slice || m.sender_position != sender_position) {
      const auto text = [](int batch, int slice, int position) {
        return "micro-batch " + std::to_string(batch) + (slice > 0 ? ", slice " + std::to_string(slice) : "") + " of position " + std::to_string(position);
      };
      throw RuntimeFailure("pipeline schedule " + s_.name + ": between stages " + std::to_string(from) +
                           " and " + std::to_string(to) + " one end means " +
                           text(m.micro, m.slice, m.sender_position) + ", the other " + text(i.micro, i.slice, sender_position) +
                           "; their instructions are in different order");
    }
  }

  bool waits_for_receiver() const { return mode_ == SendMode::rendezvous || mode_ == SendMode::blocking; }

  void time_transfers(Road& r) const {
    for (; r.timed < r.messages.size(); ++r.timed) {
      Message& m = r.messages[r.timed];
      if (!m.sent || (waits_for_receiver() && !m.awaited)) return;
      double start = std::max(*m.sent, r.free_from);
      if (waits_for_receiver()) start = std::max(start, *m.awaited);
      m.arrival = r.free_from = start + m.cost;
    }
  }

  void require_finished() const {
    std::string stuck;
    for (std::size_t stage = 0; stage < s_.stage.size(); ++stage)
      if (next_[stage] < s_.stage[stage].size())
        stuck += (stuck.empty() ? "stage " : "; stage ") + std::to_string(stage) + " at instruction " +
                 std::to_string(next_[stage]) + ", " + describe(next(stage));
    if (!stuck.empty())
      throw RuntimeFailure("pipeline schedule " + s_.name +
                           " cannot go on, these stages wait for each other or for a"
                           " message that is never sent: " +
                           stuck);
    for (const auto& [key, r] : roads_)
      if (r.receive_count < r.send_count)
        throw RuntimeFailure("pipeline schedule " + s_.name + ": stage " + std::to_string(key.first.second) +
                             " never receives micro-batch " +
                             std::to_string(r.messages[r.receive_count].micro) + " from stage " +
                             std::to_string(key.first.first));
  }

  struct OpenPass {
    double begin = 0, duration = 0;
    double done = 0;  ///< end of its last unit
  };
  const Schedule& s_;
  const InstructionCost& cost_;
  SendMode mode_;
  const PassShare& share_;
  std::vector<double> now_;
  std::vector<std::size_t> next_;
  std::vector<double> left_;  ///< [P] when the messages sent so far have arrived; known under eager and departing
  std::vector<char> posted_;  ///< the other end has been told of the stage's next instruction
  std::vector<OpenPass> pass_;
  std::vector<SharedLink> links_;  ///< [P], of gathers and reductions
  std::vector<std::map<std::pair<int, int>, std::size_t>> gathered_;  ///< [P], by chunk and unit the gather's place in the list, until it is waited for
  std::vector<std::size_t> gathers_known_;                            ///< [P], the ends of gathers before this place in the list are known
  std::map<std::pair<std::pair<int, int>, bool>, Road> roads_;
  Walk walk_;
};

}  // namespace

InstructionCost uniform_cost(double forward, double backward, double transfer) {
  return [=](int, const Instruction& i) {
    return i.kind == Kind::forward ? forward : i.kind == Kind::backward ? backward : transfer;
  };
}

double Walk::bubble_fraction() const {
  if (makespan <= 0) return 0;
  double computing = 0;
  for (const double b : busy) computing += b;
  return 1 - computing / (makespan * static_cast<double>(busy.size()));
}

Walk walk(const Schedule& schedule, const InstructionCost& cost, SendMode mode, const PassShare& share) {
  return Walker(schedule, cost, mode, share).run();
}

}  // namespace thinwire
