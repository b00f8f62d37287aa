#include "experiments/claims/rule/rule.h"

#include <muParser.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "core/error.h"

namespace thinwire::claims {
namespace {

constexpr std::array verdict_names = {"CONFIRMED",    "NOT REPRODUCED AT THIS SCALE", "REFUTED", "DIRECTION ONLY", "MODEL ONLY", "UNSTABLE", "INCONCLUSIVE",
                                      "NOT DECIDABLE", "INVALID",                      "SKIPPED", "NOT BUILT YET",  "PASS",       "FAIL"};

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Quantities and constants by every name that an expression may use.
std::map<std::string, double> symbols_of(const Rule& rule, const std::vector<Measure>& measures) {
  std::map<std::string, double> symbols;
  for (const Constant& c : rule.constants) symbols[c.symbol] = c.value;
  for (const Quantity& q : rule.quantities) {
    const auto found = std::find_if(measures.begin(), measures.end(), [&](const Measure& m) { return m.symbol == q.symbol; });
    if (found == measures.end()) continue;
    symbols[q.symbol] = found->value;
    symbols[q.symbol + ".low"] = found->low;
    symbols[q.symbol + ".high"] = found->high;
  }
  return symbols;
}

class Expression {
 public:
  Expression(const std::string& text, std::map<std::string, double>& symbols) {
    parser_.DefineNameChars("0123456789_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    for (auto& [name, value] : symbols) parser_.DefineVar(name, &value);
    parser_.SetExpr(text);
  }
  double value() { return parser_.Eval(); }
  /// Names that it asks for, known or not.
  std::set<std::string> names() {
    std::set<std::string> names;
    for (const auto& [name, pointer] : parser_.GetUsedVar()) names.insert(name);
    return names;
  }

 private:
  mu::Parser parser_;
};

/// Of a clause that says why there is nothing to judge.
bool is_control(Verdict verdict) {
  return verdict == Verdict::invalid || verdict == Verdict::unstable || verdict == Verdict::not_decidable;
}

std::set<std::string> names_in(const std::string& expression) {
  std::map<std::string, double> none;
  return Expression(expression, none).names();
}

/// "q = 0.013 [0.001, 0.025], delta = 0.02".
std::string numbers_of(const Rule& rule, const std::set<std::string>& names, const std::vector<Measure>& measures) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const Quantity& q : rule.quantities) {
    if (!names.contains(q.symbol) && !names.contains(q.symbol + ".low") && !names.contains(q.symbol + ".high")) continue;
    for (const Measure& m : measures)
      if (m.symbol == q.symbol) {
        std::string part = q.symbol + " = " + text_of(m.value);
        if (!std::isnan(m.low)) part += " [" + text_of(m.low) + ", " + text_of(m.high) + "]";
        add(part);
      }
  }
  for (const Constant& c : rule.constants)
    if (names.contains(c.symbol)) add(c.symbol + " = " + text_of(c.value));
  return text;
}

}  // namespace

std::string name_of(Verdict verdict) {
  return verdict_names[static_cast<std::size_t>(verdict)];
}

Verdict verdict_named(const std::string& name) {
  const auto found = std::find(verdict_names.begin(), verdict_names.end(), name);
  if (found == verdict_names.end()) throw CorruptData("`" + name + "` is no verdict");
  return static_cast<Verdict>(found - verdict_names.begin());
}

double Rule::constant(const std::string& symbol) const {
  for (const Constant& c : constants)
    if (c.symbol == symbol) return c.value;
  throw UsageError("the rule has no constant `" + symbol + "`");
}

Decision decide(const Rule& rule, const std::vector<Measure>& measures) {
  if (const std::string wrong = defect_of(rule); !wrong.empty()) throw std::logic_error("a rule that cannot be applied: " + wrong);
  std::map<std::string, double> symbols = symbols_of(rule, measures);
  std::set<std::string> asked;
  for (const Clause& clause : rule.clauses)
    for (const std::string& name : names_in(clause.when)) asked.insert(name);
  for (const std::string& name : asked)
    if (!symbols.contains(name) || std::isnan(symbols.at(name))) return {Verdict::invalid, name + ", which the rule asks for, was not measured"};
  const auto holds = [&](const Clause& clause) { return Expression(clause.when, symbols).value() != 0; };
  const auto by = [&](const Clause& clause) { return Decision{clause.verdict, clause.when + " holds: " + numbers_of(rule, names_in(clause.when), measures)}; };
  // What says nothing is not repeated with more seeds because it scatters, too.
  for (const Clause& clause : rule.clauses)
    if (is_control(clause.verdict) && holds(clause)) return by(clause);
  for (const ScatterControl& control : rule.scatter) {
    const double low = symbols[control.quantity + ".low"], high = symbols[control.quantity + ".high"];
    const double margin = rule.constant(control.margin), delta = rule.constant(control.delta);
    if (!symbols.contains(control.quantity) || std::isnan(low) || std::isnan(high))
      return {Verdict::invalid, control.quantity + " has no interval, which the control of scatter asks for"};
    if ((high - low) / 2 >= delta && high > margin - delta && low < margin + delta)
      return {Verdict::inconclusive, "the scatter hides an effect of " + control.delta + " = " + text_of(delta) + ": " + numbers_of(rule, {control.quantity, control.margin}, measures)};
  }
  for (const Clause& clause : rule.clauses)
    if (holds(clause)) return by(clause);
  return {rule.otherwise, "no clause holds: " + numbers_of(rule, asked, measures)};
}

std::string text_of(const Rule& rule) {
  std::string text;
  for (const Clause& clause : rule.clauses) text += name_of(clause.verdict) + " if " + clause.when + "; ";
  text += (rule.clauses.empty() ? "" : "else ") + name_of(rule.otherwise) + ".";
  const auto add_settings = [&](const std::map<std::string, std::string>& settings) {
    std::string list;
    for (const auto& [name, value] : settings) list += (list.empty() ? "" : ", ") + name + " " + value;
    text += list;
  };
  for (const Quantity& q : rule.quantities) text += " " + q.symbol + ": " + q.what + ".";
  for (const Constant& c : rule.constants) text += " " + c.symbol + " = " + text_of(c.value) + (c.what.empty() ? "" : " " + c.what) + ".";
  for (const ScatterControl& s : rule.scatter)
    text += " INCONCLUSIVE where the 95 % interval of " + s.quantity + " is wider than " + s.delta + " on either side and comes nearer than " + s.delta + " to " + s.margin + ".";
  if (!rule.smallest_effect.empty()) text += " Smallest effect worth naming: " + rule.smallest_effect + ".";
  if (!rule.settings.empty()) {
    text += " Settings: ";
    add_settings(rule.settings);
    text += ".";
  }
  if (!rule.arms.empty()) text += " Arms: ";
  for (std::size_t i = 0; i < rule.arms.size(); ++i) {
    text += (i == 0 ? "" : "; ") + rule.arms[i].name;
    if (!rule.arms[i].settings.empty()) {
      text += " (";
      add_settings(rule.arms[i].settings);
      text += ")";
    }
  }
  return rule.arms.empty() ? text : text + ".";
}

std::string canonical(const Rule& rule) {
  using Json = nlohmann::json;  // objects sort their keys
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return std::string(text);
  };
  Json j;
  j["settings"] = rule.settings;
  for (const RuleArm& arm : rule.arms) j["arms"].push_back({{"name", arm.name}, {"settings", arm.settings}});
  for (const Quantity& q : rule.quantities) j["quantities"].push_back({q.symbol, q.what});
  for (const Constant& c : rule.constants) j["constants"].push_back({c.symbol, number(c.value)});
  for (const ScatterControl& s : rule.scatter) j["scatter"].push_back({s.quantity, s.margin, s.delta});
  for (const Clause& clause : rule.clauses) j["clauses"].push_back({name_of(clause.verdict), clause.when});
  j["otherwise"] = name_of(rule.otherwise);
  j["smallest_effect"] = rule.smallest_effect;
  return j.dump();
}

std::string defect_of(const Rule& rule) {
  std::set<std::string> known, used;
  for (const Quantity& q : rule.quantities)
    for (const char* part : {"", ".low", ".high"}) known.insert(q.symbol + part);
  for (const Constant& c : rule.constants) {
    if (std::isnan(c.value)) return "the constant " + c.symbol + " is no number";
    known.insert(c.symbol);
  }
  for (const Clause& clause : rule.clauses) try {
      for (const std::string& name : names_in(clause.when)) {
        if (!known.contains(name)) return "`" + clause.when + "` asks for " + name + ", which is neither a quantity nor a constant";
        used.insert(name);
      }
    } catch (const mu::Parser::exception_type& error) {
      return "`" + clause.when + "`: " + error.GetMsg();
    }
  for (const ScatterControl& s : rule.scatter) {
    for (const std::string& name : {s.quantity, s.margin, s.delta}) {
      if (!known.contains(name)) return "the control of scatter asks for " + name + ", which is neither a quantity nor a constant";
      used.insert(name);
    }
  }
  used.insert(rule.smallest_effect);
  for (const Constant& c : rule.constants)
    if (!used.contains(c.symbol)) return "nothing uses the constant " + c.symbol;
  if (!rule.smallest_effect.empty() && !known.contains(rule.smallest_effect)) return "the smallest effect " + rule.smallest_effect + " is no constant";
  if (rule.clauses.empty()) return "it has no clause";
  return "";
}

}  // namespace thinwire::claims
