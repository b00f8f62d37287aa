// The race of docs/papers/low_bandwidth_pipeline.md ("Claims"): arms of race-s, a GPT of 4 layers, 64 wide, in four stages with a head of its own, race to the loss that the dense one has at 0.9 of the
// horizon. Time is steps to that loss times a walked step on the contest's link, or on ordinary cards.
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"
#include "experiments/claims/trained.h"

namespace thinwire::claims::low_bandwidth_pipeline {

inline constexpr int race_horizon = 1000, race_stages = 4;
/// Horizons that a run may be stretched over. The page's four could not lose the race: a subspace step is nearly six times as short as a dense one.
inline constexpr int longest_race = 8;

struct RacedArm {
  std::string symbol;  ///< in rules: "ssn"
  RuleArm arm;         ///< name and settings
  std::string codec;   ///< of what travels both ways; empty: bf16 as it is
};
RacedArm dense_arm();
/// `codec` in both directions.
RacedArm coded_arm(const std::string& symbol, const std::string& name, const std::string& codec);
/// Weights in a subspace of k of the 64 dimensions, and its coordinates in bf16.
RacedArm subspace_arm(const std::string& symbol, const std::string& name, int k);

/// race-s over a horizon; learning rates are tried.
Comparison race_s(const std::string& name);
Tuning race_rates(const std::vector<RacedArm>& arms);

enum class RaceLink { meter, cards };  ///< the contest's accounting; ordinary cards
/// A step of race-s with the best power of two of micro-batches, from 4 to 64. The rate is the contest's by the bytes of a dense step, computing that of the speedrun's dense stage for twice its share.
double race_step(const RacedArm& arm, RaceLink link);

/// Steps of an arm over those of another, or times. Geometric mean over paired seeds; interval on logarithms.
struct RaceRatio {
  std::string symbol, over, under;  ///< symbols of arms
  bool times = true;
  RaceLink link = RaceLink::meter;
};

/// Registers a claim on such ratios; rule and statement come with it. The rule may ask for `SYMBOL_missing` of every arm, the number of seeds that did not reach the target within the longest run (they count as
/// arriving at its end: the arm's steps over another's are then a bound from below), for `all`, the 0 of them that are missing where all arrived, and for `twin`, the steps of the dense arm's second set of
/// seeds over those of its first. The claim is NOT DECIDABLE where a dense seed of either set is missing.
bool register_race(Claim claim, std::vector<RacedArm> arms, std::vector<RaceRatio> ratios, std::source_location where = std::source_location::current());

}  // namespace thinwire::claims::low_bandwidth_pipeline
