// A comparison as one page that opens from disk: tables, and a bar per cell. Nothing to download, no script.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/compare/compare.h"
#include "results/compare/compare_rows.h"

namespace thinwire::results {
namespace {

constexpr const char* style =
    R"(body{margin:2rem auto;max-width:90rem;padding:0 1.5rem;color:#1f2933;font:15px/1.5 system-ui,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}p{margin:.2rem 0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.84rem}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #e4e7eb;vertical-align:top;white-space:nowrap}
th{border-bottom:2px solid #cbd2d9;position:sticky;top:0;background:#fff}td.note{white-space:normal;min-width:14rem}
.bad{color:#9a1c00;font-weight:600}.good{color:#0b5394;font-weight:600}.soft{color:#52606d}
details{margin-top:1.5rem}summary{cursor:pointer;font-weight:600}
svg{display:block})";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  return safe;
}

/// Interval and estimate on a logarithmic axis from half to twice the time.
std::string bar(const ComparedCell& cell) {
  if (!std::isfinite(cell.change)) return "";
  const auto x = [](double fraction) { return 60 + 55 * std::clamp(std::log2(1 + fraction), -1.0, 1.0); };
  return fmt::format(
      R"(<svg width="120" height="14" role="img" aria-label="{}"><path d="M60 0V14" stroke="#cbd2d9"/><path d="M{:.1f} 7H{:.1f}" stroke="#7b8794" stroke-width="2"/><circle cx="{:.1f}" cy="7" r="3.5" fill="{}"/></svg>)",
      fmt::format("change {:+.1f} %, interval {:+.1f} % to {:+.1f} %", 100 * cell.change, 100 * cell.low,
                  100 * cell.high),
      x(cell.low), x(cell.high), x(cell.change),
      cell.worse                     ? "#9a1c00"
      : cell.time == Verdict::faster ? "#0b5394"
                                     : "#52606d");
}

std::string row_of(const std::vector<std::string>& values, const char* tag) {
  std::string row = "<tr>";
  for (const std::string& value : values) row += fmt::format("<{}>{}</{}>", tag, escaped(value), tag);
  return row + "</tr>\n";
}

std::string table_of(const std::vector<const ComparedCell*>& cells, Metric metric) {
  std::vector<std::string> header = compared_header();
  std::string body;
  for (const ComparedCell* cell : cells) {
    const std::vector<std::string> values = compared_row(*cell, metric);
    body += "<tr>";
    for (std::size_t i = 0; i < values.size(); ++i) {
      const char* kind = i == 0                ? (cell->worse                     ? "bad"
                                                  : cell->time == Verdict::faster ? "good"
                                                                                  : "soft")
                         : header[i] == "note" ? "note"
                                               : "";
      body += fmt::format("<td class=\"{}\">{}</td>", kind, escaped(values[i]));
      if (i == 0) body += "<td>" + bar(*cell) + "</td>";
    }
    body += "</tr>\n";
  }
  header.insert(header.begin() + 1, "½ … 2 times");
  return "<div class=\"scroll\"><table><thead>" + row_of(header, "th") + "</thead><tbody>\n" + body +
         "</tbody></table></div>\n";
}

}  // namespace

std::string as_html(const Comparison& comparison) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>thinwire comparison</title><style>" +
      std::string(style) + "</style></head>\n<body><h1>thinwire comparison</h1>\n";
  for (const std::string& line : compared_summary(comparison)) page += "<p>" + escaped(line) + "</p>\n";
  if (!comparison.groups.empty()) {
    page += "<h2>Groups</h2>\n<div class=\"scroll\"><table><thead>" + row_of(group_header(), "th") +
            "</thead><tbody>\n";
    for (const CompareGroup& group : comparison.groups) page += row_of(group_row(group), "td");
    page += "</tbody></table></div>\n";
  }
  std::vector<const ComparedCell*> shown, rest;
  for (const ComparedCell* cell : in_order_of_interest(comparison))
    (cell->verdict == Verdict::same || cell->verdict == Verdict::undecided ? rest : shown).push_back(cell);
  page += fmt::format("<h2>{} cells differ</h2>\n", shown.size());
  if (!shown.empty()) page += table_of(shown, comparison.options.metric);
  if (!rest.empty())
    page += fmt::format("<details><summary>{} cells are the same or undecided</summary>\n", rest.size()) +
            table_of(rest, comparison.options.metric) + "</details>\n";
  return page + "</body></html>\n";
}

}  // namespace thinwire::results
