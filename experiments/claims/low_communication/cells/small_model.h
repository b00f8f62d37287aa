// The page's small model (docs/papers/low_communication.md, "Trainings"): a GPT of 4 layers, 128 wide, 16
// sequences of 128 bytes a step, 900 steps, on so many data-parallel ranks. Arms share initial weights,
// samples, global batch and steps; each has six runs of tuning (Tuning): six learning rates, or three and two
// outer rates. Outer momenta are those of the papers' codes.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/trained.h"

namespace thinwire::claims::low_communication {

inline constexpr int inner_steps = 30;  ///< of a round, unless a claim says otherwise

Comparison small_model(const std::string& name, int ranks, int steps = 900);

/// An arm of AdamW's kind, or of Muon's: learning rates differ by the optimizer inside.
struct Trained {
  RuleArm arm;
  bool muon = false;
  std::vector<std::string> outer_rates = {};  ///< that are tried; empty: as `optimizer` says
};
/// `more`: of the run's settings, those of this arm. A number of replicas above 1 makes `optimizer` an outer
/// loop's. One with a momentum is tried at its rate, which is that of a code, and at half of it.
Trained arm(const std::string& name, const std::string& optimizer, int replicas = 1,
            const std::map<std::string, std::string>& more = {});

/// SparseLoCo's loop and what else sends `codec` of a round's movement, at the outer rate 1 and at 3.9.
Trained sparse_loop(const std::string& name, const std::string& codec);

/// "adamw+diloco:inner_steps=30,rate=0.7,momentum=0.9"
std::string diloco(int steps = inner_steps, const std::string& inner = "adamw",
                   const std::string& rate = "0.7", const std::string& momentum = "0.9");

/// "As good as": the loss is above the other's by less than 0.02 nat with 95 %. `delta` where the page has
/// another margin.
Rule as_good(const std::string& symbol, double delta = 0.02);
/// "Better": `symbol` is the loss less the other's, below 0 with 95 % and by 0.005 nat, or what the page
/// says.
Rule better(const std::string& symbol, double smallest = 0.005);

/// These arms, the baseline first, and what is tried for each.
void set_arms(LossClaim& claim, const std::vector<Trained>& arms);
/// Registers a claim in nats, tuned arm by arm, the baseline first.
bool registered(Claim claim, Comparison comparison, const std::vector<Trained>& arms,
                std::vector<LossDifference> differences);

}  // namespace thinwire::claims::low_communication
