// Over which ranks a gradient's norm is taken.
#pragma once

namespace thinwire {

/// Over which ranks squares are summed for the norm that clipping goes by, from no rank to all. What every rank of the data axis holds whole
/// is summed over tensor and pipeline ranks alone, as Megatron-LM does without its distributed optimizer: no message crosses the data axis.
enum class NormScope {
  none,     ///< nothing is clipped; the norm is recorded
  model,    ///< tensor and pipeline ranks: each rank of the data axis has whole gradients, its replica's means
  replica,  ///< the ranks of a replica, which share its mean gradient out; each replica has a norm of its own
  all,      ///< all ranks, which share one mean gradient out
};

}  // namespace thinwire
