#include "bench/codec/codec_choice.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "bench/tables/text_columns.h"
#include "core/formulas.h"
#include "kernels/codec/registry.h"

namespace thinwire::bench {
namespace {

using results::CellRow;

double positive_number(const std::string& option, const std::string& text) {
  CellParameters parameter;
  parameter.values[option] = text;
  const double value = parameter.real(option);
  if (value <= 0) throw UsageError("--" + option + "=" + text + ": a number above 0 is needed");
  return value;
}

bool measured(const CellRow& row) { return row.status == results::name_of(results::Status::ok) && !std::isnan(row.vnmse); }
bool is_dense(const CellRow& row) { return !compresses(row.codec); }

const std::vector<TextColumn<CellRow>>& ranking_columns() {
  static const std::vector<TextColumn<CellRow>> columns = {
      {"codec", "", -40, [](const CellRow& r) { return r.codec; }},
      {"ratio", "", 8, [](const CellRow& r) { return fixed_text(r.ratio, 2); }},
      {"bits per", "element", 8, [](const CellRow& r) { return fixed_text(32.0 / r.ratio, 3); }},
      {"error", "vNMSE", 9, [](const CellRow& r) { return scientific_text(r.vnmse); }},
      {"error", "rel. L2", 9, [](const CellRow& r) { return scientific_text(r.relative_l2); }},
      {"cosine", "", 8, [](const CellRow& r) { return fixed_text(r.cosine, 5); }},
      {"bias", "slope", 9, [](const CellRow& r) { return scientific_text(r.slope_bias); }},
      {"encode", "(GB/s)", 8, [](const CellRow& r) { return fixed_text(r.encode_gbps, 2); }},
      {"decode", "(GB/s)", 8, [](const CellRow& r) { return fixed_text(r.decode_gbps, 2); }},
      {"break-even", "(Gbit/s)", 10, [](const CellRow& r) { return fixed_text(r.break_even_gbps, 2); }},
  };
  return columns;
}

const std::vector<TextColumn<LinkChoice>>& link_columns() {
  const auto per_megabyte = [](double us_per_byte) { return fixed_text(us_per_byte * 1e6, 1); };
  static const std::vector<TextColumn<LinkChoice>> columns = {
      {"link", "(Gbit/s)", 9, [](const LinkChoice& c) { std::ostringstream text; text << c.gbps; return text.str(); }},
      {"codec", "", -40, [](const LinkChoice& c) { return c.row != nullptr ? c.row->codec : std::string("none: no codec pays"); }},
      {"message", "(us/MB)", 11, [=](const LinkChoice& c) { return per_megabyte(c.row != nullptr ? c.us_per_byte : c.dense_us_per_byte); }},
      {"dense", "(us/MB)", 11, [=](const LinkChoice& c) { return per_megabyte(c.dense_us_per_byte); }},
      {"gain", "", 7, [](const LinkChoice& c) { return fixed_text(c.row != nullptr ? c.dense_us_per_byte / c.us_per_byte : 1.0, 2); }},
  };
  return columns;
}

}  // namespace

std::vector<RunOption> choice_options() {
  return {{"max-vnmse", "closing table: largest vNMSE that is tolerable (default 0.01, a relative L2 error of 0.1)"},
          {"links", "closing table: links in Gbit/s, separated by commas (default 0.1,1,10,25,100,400)"}};
}

ChoiceRules choice_rules(const std::map<std::string, std::string>& run_options) {
  ChoiceRules rules;
  if (const auto limit = run_options.find("max-vnmse"); limit != run_options.end()) rules.max_vnmse = positive_number("max-vnmse", limit->second);
  if (const auto links = run_options.find("links"); links != run_options.end()) {
    rules.links_gbps.clear();
    std::istringstream list(links->second);
    for (std::string link; std::getline(list, link, ',');) rules.links_gbps.push_back(positive_number("links", link));
    if (rules.links_gbps.empty()) throw UsageError("--links is empty; give bandwidths in Gbit/s, separated by commas");
  }
  return rules;
}

double message_us_per_byte(const CellRow& row, double gbps) {
  const double codec_us = is_dense(row) ? 0 : row.encode_us + row.decode_us;
  return (codec_us + link_time_us(static_cast<double>(row.payload_bytes), gbps)) / static_cast<double>(row.dense_bytes);
}

std::vector<LinkChoice> choose_for_links(std::span<const CellRow> rows, const ChoiceRules& rules) {
  std::vector<LinkChoice> choices;
  for (const double gbps : rules.links_gbps) {
    LinkChoice choice;
    choice.gbps = gbps;
    choice.dense_us_per_byte = link_time_us(1, gbps);
    for (const CellRow& row : rows) {
      if (!measured(row) || is_dense(row) || !(row.vnmse <= rules.max_vnmse)) continue;
      const double time = message_us_per_byte(row, gbps);
      if (std::isnan(time) || time >= choice.us_per_byte) continue;  // the first has nothing to beat: NaN
      choice.us_per_byte = time;
      choice.row = time < choice.dense_us_per_byte ? &row : nullptr;
    }
    choices.push_back(choice);
  }
  return choices;
}

std::vector<const CellRow*> ranked(std::span<const CellRow> rows, double max_vnmse) {
  std::vector<const CellRow*> order;
  for (const CellRow& row : rows)
    if (measured(row)) order.push_back(&row);
  const auto tolerable = [&](const CellRow* row) { return row->vnmse <= max_vnmse; };
  const auto others = std::stable_partition(order.begin(), order.end(), tolerable);
  std::stable_sort(order.begin(), others, [](const CellRow* a, const CellRow* b) { return a->ratio != b->ratio ? a->ratio > b->ratio : a->vnmse < b->vnmse; });
  std::stable_sort(others, order.end(), [](const CellRow* a, const CellRow* b) { return a->vnmse < b->vnmse; });
  return order;
}

void print_choice(std::FILE* to, std::span<const CellRow> rows, const ChoiceRules& rules) {
  const std::vector<const CellRow*> order = ranked(rows, rules.max_vnmse);
  if (order.empty()) return;
  std::fprintf(to, "\n# Codecs by ratio whose error is tolerable (vNMSE <= %g); dense is f32; break-even: pays on links slower than this\n", rules.max_vnmse);
  print_titles(to, ranking_columns());
  bool tolerable = true;
  for (const CellRow* row : order) {
    if (tolerable && !(row->vnmse <= rules.max_vnmse)) {
      tolerable = false;
      std::fprintf(to, "# Above that error, by error\n");
    }
    print_cells(to, ranking_columns(), *row);
    std::fputc('\n', to);
  }
  if (order.size() < rows.size()) std::fprintf(to, "# %zu of %zu codecs have no result: their rows above say why\n", rows.size() - order.size(), rows.size());
  if (std::ranges::all_of(order, [](const CellRow* row) { return std::isnan(row->encode_us); })) return;  // --check: nothing was timed
  std::fprintf(to, "\n# Which codec for which link: the least encode + bytes / bandwidth + decode among the tolerable; threads: %lld; a model without latency and overlap\n",
               static_cast<long long>(order.front()->threads));
  print_titles(to, link_columns());
  for (const LinkChoice& choice : choose_for_links(rows, rules)) {
    print_cells(to, link_columns(), choice);
    std::fputc('\n', to);
  }
  std::fflush(to);
}

}  // namespace thinwire::bench
