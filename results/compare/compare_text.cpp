// A comparison for the terminal and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "results/compare/compare.h"
#include "results/compare/compare_rows.h"

namespace thinwire::results {
namespace {

std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:+.1f} %", 100 * fraction) : "";
}

std::string time_of(double us, Metric metric) {
  if (!std::isfinite(us)) return "";
  if (metric == Metric::speedup) return fmt::format("{:.3g} of baseline", us);
  return us >= 1e4 ? fmt::format("{:.4g} ms", us / 1e3) : fmt::format("{:.4g} us", us);
}

const char* name_of(Metric metric) {
  constexpr const char* names[] = {"total", "encode", "transfer", "decode", "speedup"};
  return names[static_cast<std::size_t>(metric)];
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

/// NaN has no JSON.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

const std::vector<std::string>& compared_header() {
  static const std::vector<std::string> header = {"verdict", "change",  "interval", "A",     "B",
                                                  "link",    "program", "traffic",  "codec", "layout",
                                                  "shape",   "note",    "cell"};
  return header;
}

std::vector<std::string> compared_row(const ComparedCell& cell, Metric metric) {
  const CellRow& row = cell.key;
  std::string verdict = name_of(cell.verdict);
  if (cell.time != cell.verdict && (cell.time == Verdict::slower || cell.time == Verdict::faster))
    verdict += std::string(", ") + name_of(cell.time);
  const std::string interval = std::isfinite(cell.low) ? percent(cell.low) + " to " + percent(cell.high) : "";
  return {verdict,
          percent(cell.change),
          interval,
          time_of(cell.a_us, metric),
          time_of(cell.b_us, metric),
          row.link,
          row.program,
          row.traffic,
          row.codec.empty() ? row.method : row.codec,
          fmt::format("{}x{}x{}", row.tp, row.pp, row.dp),
          row.batch > 0 ? fmt::format("{}x{}x{}", row.batch, row.seq, row.hidden) : "",
          cell.note,
          row.cell_id.substr(0, 10)};
}

std::vector<std::string> compared_summary(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < comparison.a.size(); ++i) lines.push_back("A: " + comparison.a[i]);
  for (std::size_t i = 0; i < comparison.b.size(); ++i) lines.push_back("B: " + comparison.b[i]);
  const CompareOptions& options = comparison.options;
  std::string counts;
  for (int v = 0; v <= static_cast<int>(Verdict::error_differs); ++v)
    if (const std::int64_t n = comparison.count(static_cast<Verdict>(v)); n > 0)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, name_of(static_cast<Verdict>(v)));
  lines.push_back(
      fmt::format("{} cells, {} times: {}", comparison.cells.size(), name_of(options.metric), counts));
  lines.push_back(
      fmt::format("faster and slower: at least {:.3g} %, at most {:.3g} % of them false; change is B against "
                  "A, its interval holds for the cell alone at {:.3g} %",
                  100 * options.threshold, 100 * options.error_rate, 100 * (1 - options.error_rate)));
  return lines;
}

std::vector<std::string> group_header() {
  return {"program", "link", "cells", "common change", "spread of a run", "from"};
}

std::vector<std::string> group_row(const CompareGroup& group) {
  return {group.program,
          group.link,
          std::to_string(group.cells),
          percent(group.common_change),
          fmt::format("{:.1f} %", 100 * std::expm1(group.run_spread)),
          group.source};
}

std::vector<const ComparedCell*> in_order_of_interest(const Comparison& comparison) {
  std::vector<const ComparedCell*> cells;
  for (const ComparedCell& cell : comparison.cells) cells.push_back(&cell);
  const auto rank = [](const ComparedCell* cell) {
    if (cell->worse) return 0;
    if (cell->verdict == Verdict::same) return 4;
    if (cell->verdict == Verdict::undecided) return 3;
    return cell->verdict == Verdict::faster ? 2 : 1;
  };
  const auto size = [](const ComparedCell* cell) {
    return std::isfinite(cell->change) ? std::abs(std::log1p(cell->change)) : 0.0;
  };
  std::stable_sort(cells.begin(), cells.end(), [&](const ComparedCell* x, const ComparedCell* y) {
    return rank(x) != rank(y) ? rank(x) < rank(y) : size(x) > size(y);
  });
  return cells;
}

std::string as_text(const Comparison& comparison, bool all) {
  std::string text;
  for (const std::string& line : compared_summary(comparison)) text += line + "\n";
  if (!comparison.groups.empty()) {
    std::vector<std::vector<std::string>> groups = {group_header()};
    for (const CompareGroup& group : comparison.groups) groups.push_back(group_row(group));
    text += "\n" + aligned(groups);
  }
  std::vector<std::vector<std::string>> rows = {compared_header()};
  for (const ComparedCell* cell : in_order_of_interest(comparison))
    if (all || (cell->verdict != Verdict::same && cell->verdict != Verdict::undecided))
      rows.push_back(compared_row(*cell, comparison.options.metric));
  if (rows.size() > 1) text += "\n" + aligned(rows);
  return text;
}

std::string as_json(const Comparison& comparison) {
  nlohmann::ordered_json json;
  const CompareOptions& options = comparison.options;
  json["schema"] = 1;
  json["a"] = comparison.a;
  json["b"] = comparison.b;
  json["options"] = {{"metric", name_of(options.metric)},
                     {"threshold", options.threshold},
                     {"error_rate", options.error_rate},
                     {"run_spread", options.run_spread < 0 ? nlohmann::ordered_json("auto")
                                                           : nlohmann::ordered_json(options.run_spread)},
                     {"error_tolerance", options.error_tolerance},
                     {"match", options.match}};
  json["worse"] = comparison.any_worse();
  json["counts"] = nlohmann::ordered_json::object();
  for (int v = 0; v <= static_cast<int>(Verdict::error_differs); ++v)
    json["counts"][name_of(static_cast<Verdict>(v))] = comparison.count(static_cast<Verdict>(v));
  json["groups"] = nlohmann::ordered_json::array();
  for (const CompareGroup& group : comparison.groups)
    json["groups"].push_back({{"program", group.program},
                              {"link", group.link},
                              {"cells", group.cells},
                              {"common_change", number(group.common_change)},
                              {"run_spread", number(group.run_spread)},
                              {"source", group.source}});
  json["cells"] = nlohmann::ordered_json::array();
  for (const ComparedCell& cell : comparison.cells) {
    nlohmann::ordered_json one = {{"verdict", name_of(cell.verdict)},
                                  {"time", name_of(cell.time)},
                                  {"worse", cell.worse},
                                  {"change", number(cell.change)},
                                  {"low", number(cell.low)},
                                  {"high", number(cell.high)},
                                  {"p_value", number(cell.p_value)},
                                  {"a", number(cell.a_us)},
                                  {"b", number(cell.b_us)},
                                  {"pairs", cell.pairs},
                                  {"samples_a", cell.samples_a},
                                  {"samples_b", cell.samples_b},
                                  {"status_a", cell.status_a},
                                  {"status_b", cell.status_b},
                                  {"note", cell.note},
                                  {"cell_id", cell.key.cell_id}};
    for (const std::string& name : key_columns())
      std::visit([&](auto member) { one[name] = cell.key.*member; }, cell_column(name, "").member);
    json["cells"].push_back(std::move(one));
  }
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace thinwire::results
