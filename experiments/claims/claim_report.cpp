#include "experiments/claims/claim_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace thinwire::claims {
namespace {

using Json = nlohmann::json;

constexpr std::array verdicts = {Verdict::confirmed, Verdict::refuted,       Verdict::direction_only, Verdict::inconclusive,
                                 Verdict::invalid,   Verdict::not_decidable, Verdict::pass,           Verdict::fail};

// JSON has no NaN.
Json number(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }
double number(const Json& value) { return value.is_null() ? no_number : value.get<double>(); }

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Judged judge(const Claim& claim, JudgeContext& context) {
  Judged result{claim.id, claim.statement, claim.provenance, claim.rule, name_of(claim.basis), name_of(context.profile), "", {}};
  try {
    result.outcome = claim.judge(context);
  } catch (const Error& error) {
    result.outcome.because = std::string("could not be judged: ") + error.what();
  }
  result.when = now_utc();
  return result;
}

bool keep_verdict(std::vector<Judged>& kept, const Judged& now) {
  const auto old = std::find_if(kept.begin(), kept.end(), [&](const Judged& j) { return j.id == now.id; });
  if (old == kept.end()) {
    kept.push_back(now);
    return true;
  }
  const bool must_show = old->outcome.verdict == Verdict::invalid || now.outcome.verdict == Verdict::fail;
  if (!must_show && profile_named(old->profile) > profile_named(now.profile)) return false;
  *old = now;
  return true;
}

namespace {

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

std::string to_json(const std::vector<Judged>& judged) {
  Json all = Json::array();
  for (const Judged& j : judged) {
    Json measures = Json::array();
    for (const Measure& m : j.outcome.measures)
      measures.push_back({{"name", m.name}, {"value", number(m.value)}, {"low", number(m.low)}, {"high", number(m.high)}, {"margin", number(m.margin)}, {"unit", m.unit}});
    all.push_back({{"id", j.id}, {"statement", j.statement}, {"provenance", j.provenance}, {"rule", j.rule}, {"basis", j.basis}, {"profile", j.profile}, {"when", j.when},
                   {"verdict", name_of(j.outcome.verdict)}, {"because", j.outcome.because}, {"measures", measures}, {"tables", tables_to_json(j.outcome.tables)}});
  }
  return Json{{"schema", 2}, {"claims", all}}.dump(1) + "\n";
}

std::vector<Judged> from_json(const std::string& text, const std::string& where) {
  std::vector<Judged> judged;
  try {
    const Json file = Json::parse(text);
    if (file.at("schema") != 2) throw CorruptData(where + ": schema " + file.at("schema").dump() + " where this program reads 2; run the claims again");
    for (const Json& j : file.at("claims")) {
      Judged one{j.at("id"), j.at("statement"), j.at("provenance"), j.at("rule"), j.at("basis"), j.at("profile"), j.at("when"), {}};
      try {
        (void)profile_named(one.profile);
      } catch (const UsageError& error) {
        throw CorruptData(where + ": " + one.id + ": " + error.what());
      }
      bool known = false;
      for (const Verdict v : verdicts)
        if (j.at("verdict") == name_of(v)) {
          one.outcome.verdict = v;
          known = true;
        }
      if (!known) throw CorruptData(where + ": " + one.id + " has the unknown verdict " + j.at("verdict").dump());
      one.outcome.because = j.at("because");
      for (const Json& m : j.at("measures"))
        one.outcome.measures.push_back({m.at("name"), number(m.at("value")), number(m.at("low")), number(m.at("high")), number(m.at("margin")), m.at("unit")});
      one.outcome.tables = tables_from_json(j.at("tables"));
      judged.push_back(std::move(one));
    }
  } catch (const Json::exception& error) {
    throw CorruptData(where + " is no file of claims (" + error.what() + "); run the claims again");
  }
  return judged;
}

std::string to_text(const std::vector<Judged>& judged) {
  std::string text;
  char line[256];
  for (const Judged& j : judged) {
    text += j.id + "  " + name_of(j.outcome.verdict) + "  (" + j.basis + ", profile " + j.profile + ", at this scale)\n  " + j.statement + "  [" + j.provenance + "]\n";
    for (const Measure& m : j.outcome.measures) {
      std::snprintf(line, sizeof line, "    %-52s %.6g", m.name.c_str(), m.value);
      text += line;
      if (!m.unit.empty()) text += " " + m.unit;
      if (!std::isnan(m.low) || !std::isnan(m.high)) {
        std::snprintf(line, sizeof line, "  [%.4g, %.4g]", m.low, m.high);
        text += line;
      }
      if (!std::isnan(m.margin)) {
        std::snprintf(line, sizeof line, "  (rule: %.6g)", m.margin);
        text += line;
      }
      text += "\n";
    }
    text += "  " + j.outcome.because + "\n";
  }
  return text;
}

int exit_status_of(const std::vector<Judged>& judged) {
  for (const Judged& j : judged)
    if (j.outcome.verdict == Verdict::fail) return static_cast<int>(ExitCode::wrong_result);
  return 0;
}

}  // namespace thinwire::claims
