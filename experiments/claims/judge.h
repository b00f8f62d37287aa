// The one engine: measures, applies the rule, and says by which rule, registered when, on which cells.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/context.h"
#include "experiments/claims/registry.h"

namespace thinwire::claims {

/// A verdict as it was given before; it stays visible.
struct EarlierVerdict {
  std::string when, profile, rule_hash, rule, because;
  Verdict verdict = Verdict::invalid;
};

struct Judged {
  std::string id, statement, provenance, rule, basis;
  std::string profile, when;       ///< under which it was judged; UTC
  std::string rule_hash, registered;  ///< hash of the rule it was judged by, and the day of its registration; empty: not registered
  std::string rule_changed;        ///< not empty: the rule is not the one its cells were made under; when, what and why
  std::vector<PastChange> changes; ///< of the rule, all that are known
  std::vector<std::string> cells;  ///< ids of the cells that the numbers are from
  std::string command, figure;     ///< what repeats it; the figure that draws it
  std::vector<EarlierVerdict> earlier = {};
  Outcome outcome = {};
};

/// Numbers of seeds to measure under a profile, one after the other while the rule is INCONCLUSIVE: those that the claim states, in the profile
/// `full` the last of them alone.
std::vector<int> seeds_of(const Claim& claim, Profile profile);
/// What a claim's measurement says by its rule, with those seeds; context.seeds() is left at the last number that was asked for. NOT BUILT YET
/// without a measurement; throws whatever the measurement throws.
Outcome measured(const Claim& claim, JudgeContext& context);

/// Judges a claim now, by measured(). A thinwire::Error of the measurement makes it INVALID with the error as the reason. NotCollected where a
/// collected file is judged again that does not hold the claim's cells: that says nothing. Interrupted and Refused say nothing either.
Judged judge(const Claim& claim, JudgeContext& context, const Registry& registry);

/// Puts a new verdict among those kept, one per claim; the verdict it replaces becomes an earlier one. It takes the place of the kept one of
/// the same claim, unless that was judged under a larger profile, by the same rule, and says something (INVALID, NOT DECIDABLE, SKIPPED and NOT BUILT
/// YET do not): then it becomes the earlier one itself, and false is returned. One that says nothing does not take the place of one by a former rule
/// and a larger profile either. A FAIL always takes its place: a defect of ours is not to be hidden.
bool keep_verdict(std::vector<Judged>& kept, const Judged& now);

/// 1 when an exact claim FAILs, which is a defect of ours, else 0.
int exit_status_of(const std::vector<Judged>& judged);

/// Says in every kept verdict whose rule is no longer the registered one that it is of a former rule, and what was changed since. A verdict by the present rule
/// replaces it.
void mark_former_rules(std::vector<Judged>& kept, const Registry& registry);

}  // namespace thinwire::claims
