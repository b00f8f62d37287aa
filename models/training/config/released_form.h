// Where the released code of Optimus-CC differs from ours by more than the inside of a codec: how it lays out a boundary gradient.
// Only `form = released` with powersgd on pp_backward asks. All differences, and those that are not reproduced: docs/released-forms.md.
#pragma once

#include "models/training/config/train_config.h"

namespace thinwire {

/// The rule of a class as the configuration's form means it. Released: powersgd on pp_backward sees a message as
/// n = seq * (micro_batch / 8) rows whatever its width (megatron/p2p_communication.py; docs/papers/optimus_cc.md, "Defects of the released
/// code" 3); rows that the codec is given stay.
CompressRule rule_in_form(const TrainConfig& config, TrafficClass traffic);

/// Whether compressed boundary gradients travel as [seq, micro_batch, hidden], Megatron-LM's order, instead of ours, sequence by
/// sequence. It decides which tokens share a row of the released view.
bool sends_positions_first(const TrainConfig& config);

/// UsageError for what the released code cannot do: micro-batches that are no multiple of 8, sequence parallelism.
void check_released(const TrainConfig& config);

}  // namespace thinwire
