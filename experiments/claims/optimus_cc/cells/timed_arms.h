// The timed arms that several claims share: cells of equal settings are run once.
#pragma once

#include <array>

#include "experiments/claims/optimus_cc/cells/timed.h"

namespace thinwire::claims::optimus_cc {

// ---- one replica: what backward compression saves (C5) ----

inline constexpr int timed_micro_batches = 16;
inline constexpr std::array message_shares = {0.1, 0.3, 1.0};  ///< c / tf
inline constexpr double exposure_forward_us = 10000, exposure_backward_us = 30000;
inline constexpr double boundary_bytes = 8 * 64 * 128 * 4;     ///< 512 x 128 numbers, profile `tiny`
/// Rate at which a boundary message takes `share` of a forward pass.
double exposure_gbps(double share);
enum class Backward { none, epilogue, all };
/// `kind` of link: "emulated", or "netns" for messages that really pass between network namespaces.
TimedArm exposure_arm(double share, Backward compressed, bool blocking, const std::string& kind = "emulated");

// ---- two replicas: gradients, embedding, stacks (C8, C14) ----

/// Passes such that compressing the first K* stages is enough; the three settings of C8.
inline constexpr std::array selective_backward_us = {87000.0, 29000.0, 17000.0};
inline constexpr int selective_rank = 16;
inline constexpr double selective_gbps = 0.1;
TimedArm selective_arm(double backward_us, int compressed_stages, const std::string& kind = "emulated");

/// Base, CB, CB+FE, CB+FE+SC.
inline constexpr std::array stack_names = {"Base", "CB", "CB+FE", "CB+FE+SC"};
TimedArm stack_arm(int stack, const std::string& link, const std::string& omit = "");
inline const std::string stack_link = "emulated:400mbit,latency=50us", physical_stack_link = "netns:1gbit";

/// The arms with the settings of their cells, under a name that is theirs alone.
void add_timed_arms(Rule& rule, const std::vector<TimedArm>& arms);

}  // namespace thinwire::claims::optimus_cc
