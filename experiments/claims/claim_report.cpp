#include "experiments/claims/claim_report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace thinwire::claims {
namespace {

using Json = nlohmann::json;

constexpr int schema = 3;

// JSON has no NaN.
Json number(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }
double number(const Json& value) { return value.is_null() ? no_number : value.get<double>(); }

Json tables_to_json(const std::vector<Table>& tables) {
  Json all = Json::array();
  for (const Table& t : tables) {
    Json rows = Json::array();
    for (const Table::Row& row : t.rows) {
      Json values = Json::array();
      for (const double v : row.values) values.push_back(number(v));
      rows.push_back({{"label", row.label}, {"values", values}});
    }
    all.push_back({{"name", t.name}, {"columns", t.columns}, {"rows", rows}});
  }
  return all;
}

std::vector<Table> tables_from_json(const Json& all) {
  std::vector<Table> tables;
  for (const Json& t : all) {
    Table table{t.at("name"), t.at("columns"), {}};
    for (const Json& row : t.at("rows")) {
      table.rows.push_back({row.at("label"), {}});
      for (const Json& v : row.at("values")) table.rows.back().values.push_back(number(v));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

namespace {

Json earlier_to_json(const std::vector<EarlierVerdict>& earlier) {
  Json all = Json::array();
  for (const EarlierVerdict& e : earlier)
    all.push_back({{"when", e.when}, {"profile", e.profile}, {"rule_hash", e.rule_hash}, {"rule", e.rule}, {"verdict", name_of(e.verdict)}, {"because", e.because}});
  return all;
}

Json changes_to_json(const std::vector<PastChange>& changes) {
  Json all = Json::array();
  for (const PastChange& c : changes) all.push_back({{"date", c.date}, {"what", c.what}, {"why", c.why}});
  return all;
}

Judged judged_from_json(const Json& j) {
  Judged one;
  for (auto& [field, key] : {std::pair{&one.id, "id"}, {&one.statement, "statement"}, {&one.provenance, "provenance"}, {&one.rule, "rule"}, {&one.basis, "basis"},
                             {&one.profile, "profile"}, {&one.when, "when"}, {&one.rule_hash, "rule_hash"}, {&one.registered, "registered"},
                             {&one.rule_changed, "rule_changed"}, {&one.command, "command"}, {&one.figure, "figure"}})
    *field = j.at(key).get<std::string>();
  (void)profile_named(one.profile);
  one.cells = j.at("cells").get<std::vector<std::string>>();
  for (const Json& c : j.at("changes")) one.changes.push_back({c.at("date"), c.at("what"), c.at("why")});
  for (const Json& e : j.at("earlier"))
    one.earlier.push_back({e.at("when"), e.at("profile"), e.at("rule_hash"), e.at("rule"), e.at("because"), verdict_named(e.at("verdict"))});
  one.outcome.verdict = verdict_named(j.at("verdict"));
  one.outcome.because = j.at("because");
  for (const Json& m : j.at("measures"))
    one.outcome.measures.push_back({m.at("name"), number(m.at("value")), number(m.at("low")), number(m.at("high")), number(m.at("margin")), m.at("unit"), m.at("symbol")});
  one.outcome.tables = tables_from_json(j.at("tables"));
  return one;
}

std::string text_of(const Measure& m) {
  char line[256];
  std::snprintf(line, sizeof line, "    %-52s %.6g", m.name.c_str(), m.value);
  std::string text = line;
  if (!m.unit.empty()) text += " " + m.unit;
  if (!std::isnan(m.low) || !std::isnan(m.high)) {
    std::snprintf(line, sizeof line, "  [%.4g, %.4g]", m.low, m.high);
    text += line;
  }
  if (!std::isnan(m.margin)) {
    std::snprintf(line, sizeof line, "  (rule: %.6g)", m.margin);
    text += line;
  }
  return text + "\n";
}

/// What a reader must know of the rule before the numbers.
std::string text_of_rule(const Judged& j) {
  std::string text = "  rule " + j.rule_hash.substr(0, 12) + (j.registered.empty() ? ", NOT REGISTERED" : ", registered " + j.registered) + ": " + j.rule + "\n";
  if (!j.rule_changed.empty()) text += "  RULE CHANGED AFTER RESULTS: " + j.rule_changed + "\n";
  for (const PastChange& c : j.changes) text += "  changed " + c.date + ": " + c.what + ", because " + c.why + "\n";
  return text;
}

}  // namespace

std::string to_json(const std::vector<Judged>& judged) {
  Json all = Json::array();
  for (const Judged& j : judged) {
    Json measures = Json::array();
    for (const Measure& m : j.outcome.measures)
      measures.push_back({{"name", m.name}, {"symbol", m.symbol}, {"value", number(m.value)}, {"low", number(m.low)}, {"high", number(m.high)}, {"margin", number(m.margin)}, {"unit", m.unit}});
    all.push_back({{"id", j.id}, {"statement", j.statement}, {"provenance", j.provenance}, {"rule", j.rule}, {"rule_hash", j.rule_hash}, {"registered", j.registered},
                   {"rule_changed", j.rule_changed}, {"changes", changes_to_json(j.changes)}, {"basis", j.basis}, {"profile", j.profile}, {"when", j.when},
                   {"verdict", name_of(j.outcome.verdict)}, {"because", j.outcome.because}, {"measures", measures}, {"tables", tables_to_json(j.outcome.tables)},
                   {"cells", j.cells}, {"command", j.command}, {"figure", j.figure}, {"earlier", earlier_to_json(j.earlier)}});
  }
  return Json{{"schema", schema}, {"claims", all}}.dump(1) + "\n";
}

std::vector<Judged> from_json(const std::string& text, const std::string& where) {
  std::vector<Judged> judged;
  try {
    const Json file = Json::parse(text);
    if (file.at("schema") != schema)
      throw CorruptData(where + ": schema " + file.at("schema").dump() + " where this program reads " + std::to_string(schema) +
                        "; move the file away and run the claims again (cells beside it are used again), or bring schema 2 over with results/migrate_claims.py");
    for (const Json& j : file.at("claims")) judged.push_back(judged_from_json(j));
  } catch (const Json::exception& error) {
    throw CorruptData(where + " is no file of claims (" + error.what() + "); move it away and run the claims again");
  } catch (const UsageError& error) {
    throw CorruptData(where + ": " + error.what());
  }
  return judged;
}

std::string to_text(const std::vector<Judged>& judged) {
  std::string text;
  for (const Judged& j : judged) {
    text += j.id + "  " + name_of(j.outcome.verdict) + "  (" + j.basis + ", profile " + j.profile + ")\n  " + j.statement + "  [" + j.provenance + "]\n";
    if (!j.rule.empty()) text += text_of_rule(j);
    for (const Measure& m : j.outcome.measures) text += text_of(m);
    text += "  " + j.outcome.because + "\n";
    if (!j.cells.empty()) text += "  cells: " + std::to_string(j.cells.size()) + ", the first " + j.cells.front().substr(0, 12) + "\n";
    text += "  again: " + j.command + "\n";
    for (const EarlierVerdict& e : j.earlier) text += "  earlier: " + e.when.substr(0, 10) + " " + name_of(e.verdict) + " (profile " + e.profile + "): " + e.because + "\n";
  }
  return text;
}

}  // namespace thinwire::claims
