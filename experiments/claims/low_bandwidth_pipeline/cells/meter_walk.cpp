#include "experiments/claims/low_bandwidth_pipeline/cells/meter_walk.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "collectives/link/emulated_network.h"
#include "core/error.h"

namespace thinwire::claims::low_bandwidth_pipeline {
namespace {

/// From, to, and whether it is an activation: messages of one kind keep their order.
using Lane = std::tuple<int, int, bool>;

class Walker {
 public:
  Walker(const Schedule& schedule, const Wire& wire, std::int64_t bytes, const Passes& passes)
      : schedule_(schedule),
        wire_(wire),
        bytes_(bytes),
        passes_(passes),
        next_(schedule.stage.size()),
        now_(schedule.stage.size()) {}

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < next_.size(); ++s)
        while (next_[s] < schedule_.stage[s].size() &&
               carry_out(static_cast<int>(s), schedule_.stage[s][next_[s]]))
          ++next_[s], moved = true;
    }
    for (std::size_t s = 0; s < next_.size(); ++s)
      if (next_[s] < schedule_.stage[s].size())
        throw RuntimeFailure("stage " + std::to_string(s) +
                             " waits for ever: " + describe(schedule_.stage[s][next_[s]]));
    return *std::max_element(now_.begin(), now_.end()) + passes_.optimizer;
  }

 private:
  /// False: its message was not sent yet.
  bool carry_out(int stage, const Instruction& i) {
    double& now = now_[static_cast<std::size_t>(stage)];
    const bool last = stage + 1 == schedule_.stages;
    switch (i.kind) {
      case InstructionKind::forward:
        now += last ? passes_.last_forward : passes_.forward;
        return true;
      case InstructionKind::backward:
        now += last ? passes_.last_backward : passes_.backward;
        return true;
      case InstructionKind::send_forward:
      case InstructionKind::send_backward:
        sent_[{stage, i.peer, i.kind == InstructionKind::send_forward}].push_back(now);
        return true;
      default: {
        std::deque<double>& waiting = sent_[{i.peer, stage, i.kind == InstructionKind::receive_forward}];
        if (waiting.empty()) return false;
        now = std::max(now, take(stage, i.peer, waiting.front()));
        waiting.pop_front();
        return true;
      }
    }
  }
  double take(int stage, int from, double sent) {
    double& free = free_[{stage, wire_.shared ? -1 : from}];
    const double bits = wire_.message_time(bytes_) - wire_.latency, start = std::max(free, sent),
                 end = start + bits + wire_.latency;
    free = wire_.latency_occupies ? end : start + bits;
    return end;
  }

  const Schedule& schedule_;
  const Wire& wire_;
  const std::int64_t bytes_;
  const Passes& passes_;
  std::vector<std::size_t> next_;
  std::vector<double> now_;
  std::map<Lane, std::deque<double>> sent_;
  std::map<std::pair<int, int>, double> free_;
};

}  // namespace

double Wire::message_time(std::int64_t bytes) const {
  return 8 * static_cast<double>(bytes + meter_header_bytes) / rate + latency;
}

double walked_step(const Schedule& schedule, const Wire& wire, std::int64_t message_bytes,
                   const Passes& passes) {
  return Walker(schedule, wire, message_bytes, passes).run();
}

int messages_of_1f1b(int stages, int micro_batches) {
  return stages == 2 ? micro_batches + 1 : 2 * micro_batches + 2 * stages - 5;
}
int messages_of_gpipe(int stages, int micro_batches) {
  return 2 * micro_batches + 2 * stages - 4;
}

double best_micro_batches(int stages, double bytes_one_way, const Wire& wire) {
  return std::sqrt((2 * stages - 5) * 8 * bytes_one_way / (2 * wire.latency * wire.rate));
}

}  // namespace thinwire::claims::low_bandwidth_pipeline
