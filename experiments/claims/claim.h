// A paper's claim as an executable experiment: what it says, by which rule it is judged, and the judgement.
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "experiments/claims/rule/rule.h"

namespace thinwire::claims {

/// Numbers behind a verdict that a figure draws: one curve, one bar chart, one sweep. NaN where a row has no such number.
struct Table {
  std::string name;                  ///< "stacks", "sweep of K"; one claim's tables have different names
  std::vector<std::string> columns;  ///< with units: "step (ms)"
  struct Row {
    std::string label;               ///< the arm, the setting
    std::vector<double> values;      ///< one per column
  };
  std::vector<Row> rows;
};

/// What was measured for a claim. The rule makes the verdict of it.
struct Finding {
  std::vector<Measure> measures;
  std::vector<Table> tables = {};
  std::string note = {};  ///< in words, beside what the rule says
  /// Why the rule cannot be asked: INVALID, UNSTABLE, NOT DECIDABLE or SKIPPED, no other; `note` says why.
  std::optional<Verdict> instead = std::nullopt;
};

struct Outcome {
  Verdict verdict = Verdict::invalid;
  std::string because;  ///< the clause that held with its numbers, and the finding's note
  std::vector<Measure> measures;
  std::vector<Table> tables = {};
};

/// Where the numbers come from; a verdict is always read together with it.
/// cost_model: closed forms on stated machines; published: arithmetic on the papers' own numbers (results/published).
enum class Basis { exact, event_model, emulated_link, namespaces, training, device, cost_model, published };
std::string name_of(Basis basis);

class JudgeContext;  // experiments/claims/context.h

/// How much a run of the claims may cost; a claim is judged from its own profile upwards. smoke: seconds in all; quick: two minutes;
/// standard: hours on two cores; full: the longest training arms, and the largest numbers of seeds at once.
enum class Profile { smoke, quick, standard, full };
std::string name_of(Profile profile);
/// UsageError with the nearest name.
Profile profile_named(const std::string& name);

/// A change of a rule that was made after results were seen, and before rules were registered (registry.h knows the later ones).
struct PastChange {
  std::string date, what, why;
};

struct Claim {
  std::string id;          ///< "optimus_cc.C4"; claims with parts append a letter ("optimus_cc.C5b")
  std::string statement;   ///< one sentence
  std::string provenance;  ///< of the statement: read, second-hand, recollected or derived, and where
  Basis basis = Basis::exact;
  Profile from = Profile::smoke;  ///< the smallest profile that judges it
  Rule rule;
  /// Of a verdict that rests on a model: the terms whose validation does not cover this use. The verdict is then MODEL ONLY.
  std::string not_validated = {};
  /// How many seeds or repetitions are measured; the next number where the rule still says INCONCLUSIVE, the last one in the profile `full`
  /// at once. Empty: `measure` is asked once.
  std::vector<int> seeds = {};
  std::function<Finding(JudgeContext&)> measure = {};
  /// Sources of experiments/claims, .cpp and .h, that compute its numbers in this process though its basis is a measured one (a training outside of cells). The rule's hash covers them and the claim's own
  /// file. Of claims that only measure cells, and of those that measure none, empty.
  std::vector<std::string> computed_by = {};
  std::vector<PastChange> past = {};
  std::string figure = {};  ///< name of the figure that draws its numbers (plots/figures); empty: the margins alone are drawn
  std::string source = {};  ///< file of the repository that registers it; filled by register_claim
};

/// Called by the last line of a claim's file. Throws std::logic_error for an id given twice, and for a path of computed_by that is no source. A claim whose measurement ends with CellSkipped (context.h) is SKIPPED.
bool register_claim(Claim claim, std::source_location where = std::source_location::current());
/// Sorted by page, then number, then part.
std::vector<const Claim*> all_claims();
/// Those whose id begins with `pattern` at a boundary ("optimus_cc", "optimus_cc.C5" but not C50 for C5). UsageError with the nearest
/// id when there is none.
std::vector<const Claim*> claims_named(const std::string& pattern);

}  // namespace thinwire::claims
