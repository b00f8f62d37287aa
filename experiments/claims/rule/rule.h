// The rule of a claim as data: what is compared with what, by which margins, and which verdict follows. One engine judges by it, its text is
// generated from it, and its hash is registered before cells run (registry.h).
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace thinwire::claims {

/// One set for all claims.
enum class Verdict {
  confirmed,
  not_reproduced,  ///< "NOT REPRODUCED AT THIS SCALE": of measurements
  refuted,         ///< of a paper's own arithmetic alone
  direction_only,  ///< the sign is right, the size is not: not green
  model_only,      ///< rests on a model whose validation does not cover this use; the reason says which
  unstable,        ///< an arm diverged, or ended above the text's unigram entropy: says nothing of quality
  inconclusive,    ///< after the largest number of seeds that the rule allows
  not_decidable,   ///< names what is missing
  invalid,         ///< a control failed; no verdict
  skipped,         ///< cannot be measured here; says why
  not_built,       ///< listed on a page, no code yet
  pass,            ///< exact claims; a fail is a defect of ours
  fail,
};
/// "CONFIRMED", "NOT REPRODUCED AT THIS SCALE", ...
std::string name_of(Verdict verdict);
/// CorruptData for a word that is none of them.
Verdict verdict_named(const std::string& name);

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// A number that the verdict rests on. `low` and `high`: 95 % interval, NaN where the number is exact.
struct Measure {
  std::string name;  ///< for people
  double value = no_number, low = no_number, high = no_number;
  double margin = no_number;  ///< what the rule compares it with, NaN where there is none; for figures
  std::string unit;
  std::string symbol = {};    ///< name in the rule (Quantity::symbol); empty: shown, but no rule asks for it
};

/// Something that is measured and that the rule asks for.
struct Quantity {
  std::string symbol;  ///< an identifier: "difference"
  std::string what;    ///< "L(arm) - L(dense), paired over seeds, nats per token"
};
struct Constant {
  std::string symbol;
  double value = no_number;
  std::string what;    ///< unit and reason: "nats per token: the smallest loss worth naming"
};
/// Settings of one arm beside those that all arms share, as options of the program.
struct RuleArm {
  std::string name;
  std::map<std::string, std::string> settings;
};
/// `when`: an expression of quantities and constants in muParser's grammar (and: &&, or: ||). A quantity q has the parts q, q.low and q.high.
struct Clause {
  Verdict verdict;
  std::string when;
};
/// The one control of scatter for all pages: the half-width of the 95 % interval is below `delta`, or the whole interval lies at least `delta`
/// away from `margin`; else the verdict is INCONCLUSIVE, whatever the clauses say, but for those that say INVALID, UNSTABLE or NOT DECIDABLE.
struct ScatterControl {
  std::string quantity, margin, delta;  ///< symbols; margin and delta are constants
};

struct Rule {
  std::map<std::string, std::string> settings = {};  ///< what all arms share
  std::vector<RuleArm> arms = {};
  std::vector<Quantity> quantities = {};
  std::vector<Constant> constants = {};
  std::vector<ScatterControl> scatter = {};
  std::vector<Clause> clauses = {};                  ///< the first that holds gives the verdict
  Verdict otherwise = Verdict::inconclusive;
  std::string smallest_effect = {};                  ///< symbol of the constant below which an effect is not worth naming; empty for exact claims

  /// UsageError for a symbol that is not there.
  double constant(const std::string& symbol) const;
};

struct Decision {
  Verdict verdict = Verdict::invalid;
  std::string because;  ///< the clause that held, and its numbers
};
/// INVALID where a quantity was not measured or is no number. std::logic_error for a rule that does not parse or asks for an unknown symbol.
Decision decide(const Rule& rule, const std::vector<Measure>& measures);

/// In words, from the data alone.
std::string text_of(const Rule& rule);
/// The same rule, the same bytes: sorted keys, numbers with 17 digits. What the hash covers.
std::string canonical(const Rule& rule);
/// What is wrong with it; empty: nothing. Every symbol of a clause is declared, every declared constant is used, expressions parse.
std::string defect_of(const Rule& rule);

}  // namespace thinwire::claims
