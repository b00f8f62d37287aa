// Trainings with TAGC's gradients and without: what the smaller messages cost in loss.
#pragma once

#include "experiments/claims/gradient_compression/cells/tagc.h"
#include "experiments/claims/trained.h"

namespace thinwire::claims::gradient_compression {

/// Two replicas that shard everything (FSDP) and communicate once per step, 2000 steps.
Comparison fsdp_training(std::int64_t width);
/// FSDP, the release setting, the same by the ladder, and the setting of the fewest bytes: of matrices of this width.
std::vector<RuleArm> fsdp_arms(std::int64_t width);
/// The width that the profile standard trains, and the seeds of C9, which C7 asks for, too.
constexpr std::int64_t trained_width = 128;

}  // namespace thinwire::claims::gradient_compression
