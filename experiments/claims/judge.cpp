#include "experiments/claims/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "experiments/claims/attempts.h"
#include "results/provenance.h"

namespace thinwire::claims {
namespace {

constexpr std::array unjudged = {Verdict::invalid, Verdict::unstable, Verdict::not_decidable, Verdict::skipped};

/// Whether it tells anything of its claim: that an arm diverged does.
bool says_something(Verdict verdict) {
  constexpr std::array nothing = {Verdict::invalid, Verdict::not_decidable, Verdict::skipped, Verdict::not_built};
  return std::find(nothing.begin(), nothing.end(), verdict) == nothing.end();
}

/// What a rule's verdict becomes where it rests on terms of a model that nobody validated for this use.
Outcome with_limits(const Claim& claim, Outcome outcome) {
  constexpr std::array speak_of_the_world = {Verdict::confirmed, Verdict::not_reproduced, Verdict::direction_only, Verdict::inconclusive};
  if (claim.not_validated.empty() || std::find(speak_of_the_world.begin(), speak_of_the_world.end(), outcome.verdict) == speak_of_the_world.end()) return outcome;
  outcome.because = "by the model " + name_of(outcome.verdict) + "; not validated for this use: " + claim.not_validated + ". " + outcome.because;
  outcome.verdict = Verdict::model_only;
  return outcome;
}

Outcome outcome_of(const Claim& claim, Finding finding) {
  Outcome outcome{Verdict::invalid, "", std::move(finding.measures), std::move(finding.tables)};
  if (finding.instead) {
    if (std::find(unjudged.begin(), unjudged.end(), *finding.instead) == unjudged.end())
      throw std::logic_error(claim.id + ": only its rule may give the verdict " + name_of(*finding.instead));
    outcome.verdict = *finding.instead;
    outcome.because = finding.note;
    return outcome;
  }
  Decision decision = decide(claim.rule, outcome.measures);
  outcome.verdict = decision.verdict;
  outcome.because = decision.because + (finding.note.empty() ? "" : "; " + finding.note);
  return with_limits(claim, std::move(outcome));
}

std::string cores_of(double cores) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f core", cores);
  return text;
}

/// Times of a machine that others used decide nothing, but for a FAIL, which is a defect of ours. What was not measured is said.
void ask_for_quiet(Outcome& outcome, const std::vector<UsedCell>& cells) {
  int timed = 0, disturbed = 0, unknown = 0, least = attempts_allowed, most = 0;
  double worst = 0;
  for (const UsedCell& cell : cells) {
    if (!cell.timed) continue;
    ++timed;
    if (std::isnan(cell.disturbance)) ++unknown;
    if (!is_disturbed(cell.disturbance)) continue;
    ++disturbed;
    worst = std::max(worst, cell.disturbance);
    least = std::min(least, cell.attempts), most = std::max(most, cell.attempts);
  }
  const auto of_timed = [&](int n) { return std::to_string(n) + " of " + std::to_string(timed) + " timed cells"; };
  if (disturbed > 0) {
    const std::string attempts = (least < most ? std::to_string(least) + " to " : "") + std::to_string(most) + (most == 1 ? " attempt" : " attempts") + " each";
    const std::string quiet = of_timed(disturbed) + " DISTURBED (up to " + cores_of(worst) + ", " + attempts + ")";
    const bool judged = std::find(unjudged.begin(), unjudged.end(), outcome.verdict) == unjudged.end();
    if (judged && outcome.verdict != Verdict::fail) {
      outcome.because = quiet + "; by these numbers " + name_of(outcome.verdict) + ": " + outcome.because;
      outcome.verdict = Verdict::invalid;
    } else {
      outcome.because += "; " + quiet;
    }
  }
  if (unknown > 0) outcome.because += "; disturbance was not measured for " + of_timed(unknown);
}

/// How the rule differs from those under which the cells were made; empty: it does not.
std::string change_since(const Claim& claim, const std::string& hash, const Registry& registry, const std::vector<UsedCell>& cells) {
  std::string oldest;
  int unregistered = 0, other = 0;
  for (const UsedCell& cell : cells) {
    if (cell.rules.empty()) {
      ++unregistered;
      continue;
    }
    const auto then = cell.rules.find(claim.id);
    if (then != cell.rules.end() && then->second == hash) continue;
    ++other;
    if (oldest.empty() || cell.started < oldest) oldest = cell.started;
  }
  const auto cells_of = [](int n) { return std::to_string(n) + (n == 1 ? " cell was made " : " cells were made "); };
  std::string text;
  if (unregistered > 0) text = cells_of(unregistered) + "before rules were registered";
  if (other == 0) return text;
  text += (text.empty() ? "" : "; ") + cells_of(other) + "under another rule: rule changed after results";
  if (const auto found = registry.rules.find(claim.id); found != registry.rules.end())
    for (const RegisteredRule::Change& change : found->second.changes)
      if (change.date >= oldest.substr(0, 10)) text += " on " + change.date + ": " + change.what + ", because " + change.why;
  return text;
}

EarlierVerdict earlier_of(const Judged& j) {
  return {j.when, j.profile, j.rule_hash, j.rule, j.outcome.because, j.outcome.verdict};
}

}  // namespace

std::vector<int> seeds_of(const Claim& claim, Profile profile) {
  if (claim.seeds.empty()) return {1};
  return profile == Profile::full ? std::vector<int>{claim.seeds.back()} : claim.seeds;
}

Outcome measured(const Claim& claim, JudgeContext& context) {
  if (!claim.measure) return {Verdict::not_built, "there is no code for it yet", {}, {}};
  Outcome outcome;
  for (const int seeds : seeds_of(claim, context.profile)) {
    context.set_seeds(seeds);
    outcome = outcome_of(claim, claim.measure(context));
    if (claim.seeds.size() > 1) outcome.because += " (" + std::to_string(seeds) + " seeds)";
    if (outcome.verdict != Verdict::inconclusive) break;
  }
  return outcome;
}

Judged judge(const Claim& claim, JudgeContext& context, const Registry& registry) {
  Judged result;
  result.id = claim.id, result.statement = claim.statement, result.provenance = claim.provenance;
  result.rule = claim.measure ? text_of(claim.rule) : "";
  result.basis = name_of(claim.basis);
  result.profile = name_of(context.profile);
  result.rule_hash = claim.measure ? rule_hash(claim) : "";
  if (const auto found = registry.rules.find(claim.id); found != registry.rules.end() && found->second.hash == result.rule_hash)
    result.registered = found->second.date;
  result.changes = claim.past;
  if (const auto found = registry.rules.find(claim.id); found != registry.rules.end())
    for (const RegisteredRule::Change& c : found->second.changes) result.changes.push_back({c.date, c.what, c.why});
  result.command = "build/bin/claims run " + claim.id + " --profile " + result.profile;
  result.figure = claim.figure;
  context.cells.forget_used();
  try {
    result.outcome = measured(claim, context);
    ask_for_quiet(result.outcome, context.cells.used());
  } catch (const NotCollected&) {
    throw;
  } catch (const ArmDiverged& arm) {
    result.outcome.verdict = Verdict::unstable;
    result.outcome.because = arm.what();
  } catch (const Error& error) {
    result.outcome.because = std::string("could not be judged: ") + error.what();
  }
  for (const UsedCell& cell : context.cells.used()) result.cells.push_back(cell.cell_id);
  result.rule_changed = change_since(claim, result.rule_hash, registry, context.cells.used());
  result.when = results::timestamp_now();
  return result;
}

bool keep_verdict(std::vector<Judged>& kept, const Judged& now) {
  const auto old = std::find_if(kept.begin(), kept.end(), [&](const Judged& j) { return j.id == now.id; });
  if (old == kept.end()) {
    kept.push_back(now);
    return true;
  }
  const bool by_former_rule = old->rule_hash != now.rule_hash && says_something(now.outcome.verdict);
  const bool stands = says_something(old->outcome.verdict) && !by_former_rule && now.outcome.verdict != Verdict::fail;
  if (stands && profile_named(old->profile) > profile_named(now.profile)) {
    old->earlier.push_back(earlier_of(now));
    return false;
  }
  std::vector<EarlierVerdict> earlier = std::move(old->earlier);
  // The same verdict by the same rule and on the same ground is no history.
  const EarlierVerdict last = earlier_of(*old);
  if (last.verdict != now.outcome.verdict || last.rule_hash != now.rule_hash || last.because != now.outcome.because || last.profile != now.profile) earlier.push_back(last);
  *old = now;
  old->earlier = std::move(earlier);
  return true;
}

void mark_former_rules(std::vector<Judged>& kept, const Registry& registry) {
  for (Judged& j : kept) {
    const auto found = registry.rules.find(j.id);
    if (j.rule_hash.empty() || found == registry.rules.end() || found->second.hash == j.rule_hash) continue;
    j.rule_changed = "by a former rule, not judged by the present one yet";
    bool since = false;
    for (const RegisteredRule::Change& change : found->second.changes) {
      since = since || change.former_hash == j.rule_hash;
      if (since) j.rule_changed += "; changed on " + change.date + ": " + change.what + ", because " + change.why;
    }
  }
}

int exit_status_of(const std::vector<Judged>& judged) {
  for (const Judged& j : judged)
    if (j.outcome.verdict == Verdict::fail) return static_cast<int>(ExitCode::wrong_result);
  return 0;
}

}  // namespace thinwire::claims
