// Pipeline schedules as plain data: for every stage the list of instructions that it carries out, in order.
// The executor (models/parallel/pipeline/pipeline.h) runs them, walk.h times them, tests inspect them; nothing else knows what
// 1F1B is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thinwire {

/// What a stage does next. Receives block until their message is there; sends hand a message over and return,
/// so that it is under way while the stage goes on. Messages between one ordered pair of stages, forward and
/// backward apart, are matched in order.
enum class InstructionKind : std::uint8_t {
  receive_forward,   ///< activations of the micro-batch, from the stage in front
  forward,           ///< of one micro-batch through one chunk of layers; keeps what backward needs
  send_forward,      ///< activations to the stage behind
  receive_backward,  ///< gradient of the activations sent, from the stage behind
  backward,          ///< of one micro-batch through one chunk; frees what forward kept
  send_backward,     ///< gradient of the activations received, to the stage in front
  // Of lowered schedules (lower.h) alone, each of one unit:
  unshard,           ///< starts to gather the unit's parameters
  wait_unshard,      ///< blocks until they are there
  reshard,           ///< releases what was gathered
  reduce,            ///< the unit's gradient is handed over for its reduction
};
std::string name_of(InstructionKind kind);
/// A forward or backward pass.
constexpr bool is_computation(InstructionKind kind) { return kind == InstructionKind::forward || kind == InstructionKind::backward; }

struct Instruction {
  InstructionKind kind = InstructionKind::forward;
  int micro = 0;  ///< micro-batch, 0..M-1
  int chunk = 0;  ///< virtual stage on this stage, 0..V-1
  int peer = -1;  ///< stage that a send goes to or a receive comes from; -1 for computation
  int slice = 0;  ///< tokens of the micro-batch, 0..S-1 (token_slices.h)
  int unit = -1;  ///< of the chunk, in a lowered schedule; -1: the whole chunk
  /// Where a pass through the chunk begins (ends, in the backward direction): its first unit, or all of it.
  bool at_first_unit() const { return unit <= 0; }
  bool operator==(const Instruction&) const = default;
};
/// "send_forward of micro-batch 3, chunk 1, with stage 2" (of a slice above 0: "micro-batch 3, slice 1, chunk 1"): for messages to the user.
std::string describe(const Instruction& instruction);

/// [stage][chunk]: how many units a chunk has.
using UnitCounts = std::vector<std::vector<int>>;

struct Schedule {
  std::string name;
  int stages = 1;                               ///< P
  int micro_batches = 1;                        ///< M
  int virtual_stages = 1;                       ///< V, chunks of layers on every stage
  int slices = 1;                               ///< S, into which every micro-batch is cut along its tokens
  std::vector<std::vector<Instruction>> stage;  ///< [P], instructions in order
  UnitCounts units = {};                        ///< of a lowered schedule; else empty
};

/// What a schedule can do beside running whole micro-batches through one chunk of layers per stage, and what it asks for.
struct ScheduleTraits {
  bool virtual_stages = false;    ///< several chunks of layers on a stage
  bool token_slices = false;      ///< slices of micro-batches (token_slices.h)
  bool rounds_of_stages = false;  ///< micro-batches go round in groups of P: their number must be a multiple of it
  bool epilogue = false;          ///< its cool-down is 1F1B's, the last min(M, P - stage) gradients of a step: what Optimus-CC calls the epilogue
};

/// Names that make_schedule knows, in order; each is a file of this folder that registers itself (patterns.h).
const std::vector<std::string>& schedule_names();
/// UsageError naming those there are for another name.
const ScheduleTraits& schedule_traits(const std::string& name);
/// Names of those that can do it, in order.
std::vector<std::string> schedules_that(bool ScheduleTraits::* can);

/// gpipe: Huang et al. 2019 (arXiv 1811.06965), section 2.3; 1f1b: Narayanan et al. 2021 (arXiv 2104.04473),
/// section 2.2.1; interleaved: ibid., section 2.2.2; terapipe: Li et al. 2021 (arXiv 2102.07988), section 3. Throws UsageError for
/// an unknown name, an extent below 1, virtual stages with one stage only, and whatever the schedule's traits do not allow.
Schedule make_schedule(const std::string& name, int stages, int micro_batches, int virtual_stages = 1, int slices = 1);

/// Position in the model, 0 .. P*V-1, of a stage's chunk: chunk * P + stage. Forward of position p receives
/// from position p-1, which for stage 0 is the last stage's chunk before.
int global_chunk(const Schedule& schedule, int stage, int chunk);

/// Part of a stage's work. Warm-up: before the stage turns to its first backward. Cool-down: after its last
/// forward and that one's send. Steady: between them. The gradients sent in the cool-down of 1F1B are the
/// last min(M, P - stage) of a step, which is what Optimus-CC's epilogue-only compression acts on; ask with
/// the *sender's* stage and index on both ends.
enum class Phase { warm_up, steady, cool_down };
std::string name_of(Phase phase);
/// `index`: into schedule.stage[stage].
Phase phase_of(const Schedule& schedule, int stage, int index);

/// Most micro-batch chunks (slices of them) of which a stage has run forward but not yet backward: what it must keep in
/// memory.
int peak_live_activations(const Schedule& schedule, int stage);

}  // namespace thinwire
