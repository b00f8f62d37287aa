// Walks a pipeline schedule in time: when does each instruction run, if computations and transfers take so
// and so long. The same lists that the executor runs; nothing here knows which schedule it is.
#pragma once

#include <functional>
#include <vector>

#include "models/parallel/schedule/schedule.h"
#include "models/parallel/schedule/shared_link.h"

namespace thinwire {

/// How a send hands over its message.
enum class SendMode {
  eager,       ///< buffered: under way at once, the sender goes on
  rendezvous,  ///< under way once the receiver has come to its receive; the sender goes on
  departing,   ///< as eager, but the sender computes on only when what it sent has arrived
  blocking,    ///< as rendezvous, and the sender waits until the message has arrived
};

/// Cost of an instruction of a stage, in any unit of time: of the computation for forward and backward, of
/// the transfer for sends, unshard and reduce. Not asked for receives and waits. A number alone is time on the link.
using InstructionCost = std::function<TransferTime(int stage, const Instruction&)>;

/// Of a lowered schedule the cost of a pass is asked once, with its first unit, and spread over its units: share of the pass that is done after
/// this unit, 1 after the last.
using PassShare = std::function<double(int stage, const Instruction&)>;

/// All computations of a kind alike on every stage and chunk, and all transfers.
InstructionCost uniform_cost(double forward, double backward, double transfer);

struct WalkedInstruction {
  double start = 0;  ///< the stage comes to it
  double end = 0;    ///< the stage goes on; for a receive, start..end is the wait
  double arrival = 0;  ///< of a send under eager and departing: when its message is there; of unshard and reduce: when they are done
  double departure = 0;  ///< of unshard and reduce: when they are under way
};

struct Walk {
  std::vector<std::vector<WalkedInstruction>> stage;  ///< as Schedule::stage
  double makespan = 0;                                ///< end of the last instruction of all
  std::vector<double> sends_done;                     ///< [P], end of the list and of every message that the stage sent
  std::vector<double> busy;                           ///< [P], sum of the computations
  std::vector<double> reduced;                        ///< [P], end of the stage's last reduction; 0 without any
  std::vector<int> peak_live;                         ///< [P], see peak_live_activations
  /// Share of the stages' time, from 0 to the makespan, in which they do not compute.
  double bubble_fraction() const;
};

/// Transfers of one ordered pair of stages and direction follow each other; different pairs and directions do
/// not slow each other. A stage's gathers follow each other, and so do its reductions; where both are under way they share its link (SharedLink). `share`:
/// without it every unit of a pass takes equally long. Throws RuntimeFailure naming every stuck stage and its instruction when stages wait
/// in a circle or for what never comes, when a stage receives another message than is sent to it, and when a
/// message is never received.
Walk walk(const Schedule& schedule, const InstructionCost& cost, SendMode mode = SendMode::eager, const PassShare& share = {});

}  // namespace thinwire
