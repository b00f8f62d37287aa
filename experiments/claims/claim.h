// A paper's claim as an executable experiment: what it says, by which rule it is judged, and the judgement.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace thinwire::claims {

/// One set for all claims. pass and fail belong to exact claims (a fail is a defect of ours); invalid is no verdict: a control failed.
/// inconclusive only after the doubled seeds; not_decidable only where the claim's page allows it, naming what is missing.
enum class Verdict { confirmed, refuted, direction_only, inconclusive, not_decidable, invalid, pass, fail };
/// "CONFIRMED", "DIRECTION ONLY", ...
std::string name_of(Verdict verdict);

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// A number that the verdict rests on. `low` and `high`: 95 % interval, NaN where the number is exact. `margin`: what the rule
/// compares it with, NaN where there is none.
struct Measure {
  std::string name;
  double value = no_number, low = no_number, high = no_number, margin = no_number;
  std::string unit;
};

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

struct Outcome {
  Verdict verdict = Verdict::invalid;
  std::string because;            ///< the rule's inequality with its numbers, in words
  std::vector<Measure> measures;
  std::vector<Table> tables = {};
};

/// Where the numbers come from; a verdict is always read together with it.
/// cost_model: closed forms on stated machines; published: arithmetic on the papers' own numbers (results/published).
enum class Basis { exact, event_model, emulated_link, namespaces, training, device, cost_model, published };
std::string name_of(Basis basis);

class JudgeContext;  // experiments/claims/context.h

/// How much a run of the claims may cost; a claim is judged from its own profile upwards. smoke: seconds in all; quick: two minutes;
/// standard: hours on two cores (300 training steps); full: 1000 training steps and twice the seeds.
enum class Profile { smoke, quick, standard, full };
std::string name_of(Profile profile);
/// UsageError with the nearest name.
Profile profile_named(const std::string& name);

struct Claim {
  std::string id;          ///< "optimus_cc.C4"; claims with parts append a letter ("optimus_cc.C5b")
  std::string statement;   ///< one sentence
  std::string provenance;  ///< of the statement: read, second-hand, recollected or derived, and where
  std::string rule;        ///< when which verdict is given
  Basis basis = Basis::exact;
  Profile from = Profile::smoke;  ///< the smallest profile that judges it
  std::function<Outcome(JudgeContext&)> judge;
};

/// Called by the last line of a claim's file. Throws std::logic_error for an id given twice.
bool register_claim(Claim claim);
/// Sorted by page, then number, then part.
std::vector<const Claim*> all_claims();
/// Those whose id begins with `pattern` at a boundary ("optimus_cc", "optimus_cc.C5" but not C50 for C5). UsageError with the nearest
/// id when there is none.
std::vector<const Claim*> claims_named(const std::string& pattern);

}  // namespace thinwire::claims
