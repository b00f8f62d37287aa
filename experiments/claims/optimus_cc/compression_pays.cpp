// optimus_cc.C15: when does low-rank compression of a boundary message pay. Codec speed is measured alone (bench_codec), the gain end to
// end: encode, send, decode against the dense message on the same link (bench_activation, two stages).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "experiments/claims/context.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using optimus_cc::digits, optimus_cc::add_arms;

constexpr std::array figure_ranks = {8, 12, 16, 20, 24, 28, 32, 36, 40};
constexpr std::array more_ranks = {64, 128};  // slower codecs: rates below theta and above it on links that a small machine carries
constexpr std::array page_rates = {1.0, 10.0, 100.0, 200.0, 400.0};
constexpr std::array more_rates = {2.0, 5.0, 20.0};
constexpr int rows = 1024, columns = 1920;  // the chunk of 2.5B at T = 8, micro-batch 8
constexpr double raw_bits = 32.0 * rows * columns;

double ratio_of(int rank) { return static_cast<double>(rows) * columns / ((rows + columns) * static_cast<double>(rank)); }

std::string codec_of(int rank) { return "powersgd:rank=" + std::to_string(rank); }

CellRequest codec_request(int rank, int repetition) {
  CellRequest r;
  r.program = "bench_codec";
  r.link = "none";
  r.parameters.set("codec", codec_of(rank));
  r.parameters.set("threads", std::int64_t{1});
  r.parameters.set("batch", std::int64_t{1});
  r.parameters.set("seq", std::int64_t{rows});
  r.parameters.set("hidden", std::int64_t{columns});
  r.parameters.set("max-time", 1.0);
  r.parameters.set("seed", std::int64_t{repetition});
  r.tags = {"optimus_cc.C15"};
  return r;
}

CellRequest message_request(int rank, const std::string& link, int repetition) {
  CellRequest r;
  r.program = "bench_activation";
  r.ranks = 2;
  r.link = link;
  r.parameters.set("tp", std::int64_t{1});
  r.parameters.set("pp", std::int64_t{2});
  r.parameters.set("batch", std::int64_t{1});
  r.parameters.set("seq", std::int64_t{rows});
  r.parameters.set("hidden", std::int64_t{columns});
  r.parameters.set("comm-dtype", "f32");
  r.parameters.set("codec", codec_of(rank));
  r.parameters.set("repetitions", std::int64_t{15});
  r.parameters.set("seed", std::int64_t{repetition});
  r.tags = {"optimus_cc.C15"};
  return r;
}

/// One message between two stages, in microseconds; baseline: dense.
struct Message {
  double coded_us = no_number, dense_us = no_number;
  std::string untrusted;
};

/// What is measured is measured so often, apart in time, and the fastest counts, because other load only slows.
constexpr int repetitions = 3;

/// The messages of these ranks on a link, in their order.
std::vector<Message> messages(JudgeContext& context, const std::vector<int>& ranks, const std::string& link) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const int rank : ranks) requests.push_back(message_request(rank, link, repetition));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  std::vector<Message> all(ranks.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    Message& m = all[i % ranks.size()];
    if (!measured_well(records[i]) && m.untrusted.empty()) m.untrusted = reason_of(records[i]);
    for (const results::CellRow& row : records[i].rows)
      if (row.traffic == "pp_forward") {
        m.coded_us = std::fmin(m.coded_us, row.total_us);  // fmin passes over NaN
        m.dense_us = std::fmin(m.dense_us, row.baseline_us);
      }
  }
  return all;
}

/// Gbit/s of uncompressed bits; theta: both ways together.
struct Throughput {
  double compress = 0, decompress = 0, theta = 0;
};

/// By rank, in the order of `ranks`.
std::vector<Throughput> throughputs(JudgeContext& context, const std::vector<int>& ranks) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const int rank : ranks) requests.push_back(codec_request(rank, repetition));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  std::vector<Throughput> fastest(ranks.size());
  const auto gbps = [](double us) { return 1e-3 * raw_bits / us; };
  for (std::size_t i = 0; i < records.size(); ++i) {
    const results::CellRow& row = records[i].rows.front();
    Throughput& best = fastest[i % ranks.size()];
    best.compress = std::max(best.compress, gbps(row.encode_us));
    best.decompress = std::max(best.decompress, gbps(row.decode_us));
    best.theta = std::max(best.theta, gbps(row.encode_us + row.decode_us));
  }
  return fastest;
}

struct Grid {
  std::vector<int> ranks;
  std::vector<double> rates;
  const char* kind;  ///< of the link
  std::string link_of(double rate) const { return kind + (":" + digits(rate)) + "gbit"; }
};

Finding measure(JudgeContext& context, const Rule& rule, const Grid& grid) {
  Finding o;
  const double worth = rule.constant("worth"), most_late = rule.constant("most_late");
  const std::vector<Throughput> codec = throughputs(context, grid.ranks);
  Table points{"compression pays", {"rank", "link (Gbit/s)", "theta (Gbit/s)", "w rho/(rho-1) (Gbit/s)", "predicted gain", "measured gain", "judged"}, {}};
  int judged = 0, agreeing = 0, paying = 0, losing = 0, not_carried = 0;
  double latest = 0;
  std::string skipped;
  for (const double rate : grid.rates) {
    const std::string link = grid.link_of(rate);
    // One cell says whether the link is there and carries its rate at all.
    const Message first = messages(context, {grid.ranks.front()}, link).front();
    const double late = 1e3 * rate * first.dense_us / raw_bits;
    char text[200];
    if (!(late <= most_late)) {
      ++not_carried;
      std::snprintf(text, sizeof text, "%s%s: ", skipped.empty() ? "" : "; ", link.c_str());
      skipped += text;
      std::snprintf(text, sizeof text, "a dense message takes %.2f times its bits over the rate", late);
      skipped += std::isnan(late) ? "SKIPPED, " + first.untrusted : std::string("SKIPPED, not carried here: ") + text;
      continue;
    }
    latest = std::max(latest, late);
    const std::vector<Message> sent = messages(context, grid.ranks, link);
    for (std::size_t i = 0; i < grid.ranks.size(); ++i) {
      const Message& m = sent[i];
      const double rho = ratio_of(grid.ranks[i]);
      const double predicted = (1 / rate) / (1 / (rho * rate) + 1 / codec[i].theta) - 1, measured = m.dense_us / m.coded_us - 1;
      const bool counts = std::abs(predicted) > worth && !std::isnan(measured);
      if (counts) {
        ++judged;
        agreeing += (predicted > 0) == (measured > 0);
        (predicted > 0 ? paying : losing) += 1;
      }
      std::snprintf(text, sizeof text, "rank %d at %g Gbit/s", grid.ranks[i], rate);
      points.rows.push_back({text, {static_cast<double>(grid.ranks[i]), rate, codec[i].theta, rate * rho / (rho - 1), predicted, measured, counts ? 1.0 : 0.0}});
    }
  }
  Table speeds{"codec throughput against rank, 1024 x 1920", {"rank", "compress (Gbit/s)", "decompress (Gbit/s)", "theta (Gbit/s)", "rho"}, {}};
  int rises = 0;
  for (std::size_t i = 0; i < grid.ranks.size(); ++i) {
    speeds.rows.push_back({codec_of(grid.ranks[i]), {static_cast<double>(grid.ranks[i]), codec[i].compress, codec[i].decompress, codec[i].theta, ratio_of(grid.ranks[i])}});
    if (i > 0) rises += codec[i].theta >= codec[i - 1].theta;
  }
  const double share = judged > 0 ? static_cast<double>(agreeing) / judged : no_number;
  o.measures = {{"points with the predicted sign", share, no_number, no_number, rule.constant("needed"), "share", "agreeing"},
                {"points judged", static_cast<double>(judged), no_number, no_number, no_number, ""},
                {"of them predicted to pay", static_cast<double>(paying), no_number, no_number, no_number, "", "paying"},
                {"of them predicted to lose", static_cast<double>(losing), no_number, no_number, no_number, "", "losing"},
                {"dense message over its bits at the rate, largest of the rates that count", latest, no_number, no_number, most_late, "ratio", "late"},
                {"theta at the smallest rank", codec.front().theta, no_number, no_number, no_number, "Gbit/s"},
                {"theta at the largest rank", codec.back().theta, no_number, no_number, no_number, "Gbit/s"},
                {"steps in rank at which theta does not fall", static_cast<double>(rises), no_number, no_number, no_number, ""}};
  o.tables = {std::move(points), std::move(speeds)};
  char text[300];
  std::snprintf(text, sizeof text, "%d of %d points have the predicted sign (%d pay, %d lose); theta %s with the rank (%.3g to %.3g Gbit/s)", agreeing, judged, paying, losing,
                rises == 0 ? "falls" : codec.back().theta < codec.front().theta ? "falls, but not at every step," : "does not fall", codec.front().theta, codec.back().theta);
  o.note = text;
  if (!skipped.empty()) o.note += ". " + skipped;
  if (judged == 0) o.instead = not_carried == static_cast<int>(grid.rates.size()) ? Verdict::skipped : Verdict::not_decidable;
  if (o.instead == Verdict::not_decidable) o.note = "a point with a predicted gain or loss of more than 10 % is missing: " + o.note;
  return o;
}

Rule rule_of(const Grid& grid) {
  const auto list = [](const auto& values) {
    std::string text;
    for (const auto value : values) text += (text.empty() ? "" : ", ") + digits(value);
    return text;
  };
  Rule rule;
  add_arms(rule, {{"codec alone", codec_request(grid.ranks.front(), 0)}, {"message between two stages, compressed and dense", message_request(grid.ranks.front(), grid.link_of(grid.rates.front()), 0)}});
  rule.settings["codec"] = "powersgd of ranks " + list(grid.ranks);
  rule.arms[1].settings["link"] = std::string(grid.kind) + " of " + list(grid.rates) + " Gbit/s";
  rule.settings["runs"] = std::to_string(repetitions) + ", apart in time, of which the fastest counts";
  rule.quantities = {{"agreeing", "share of the points (rank, rate w) at which the sign of the measured gain (dense over compressed time - 1) is that of the predicted one, (1/w)/(1/(rho w) + 1/theta) - 1; "
                                  "points with a predicted gain or loss of at most `worth` are not judged"},
                     {"paying", "points judged that are predicted to gain"},
                     {"losing", "points judged that are predicted to lose"},
                     {"late", "time of a dense message over its bits at the rate, largest of the rates that count: a rate at which it is larger than `most_late` is not carried here, and SKIPPED"}};
  rule.constants = {{"needed", 0.95, "of the points"}, {"worth", 0.1, "of the time: the smallest gain or loss worth naming"}, {"most_late", 1.15, "ratio"}};
  rule.clauses = {{Verdict::invalid, "late > most_late"},
                  {Verdict::not_reproduced, "agreeing < needed"},
                  {Verdict::not_decidable, "paying == 0 || losing == 0"},
                  {Verdict::confirmed, "agreeing >= needed"}};
  rule.smallest_effect = "worth";
  return rule;
}

Grid emulated_grid() {
  Grid grid{{figure_ranks.begin(), figure_ranks.end()}, {page_rates.begin(), page_rates.end()}, "emulated"};
  grid.ranks.insert(grid.ranks.end(), more_ranks.begin(), more_ranks.end());
  grid.rates.insert(grid.rates.end(), more_rates.begin(), more_rates.end());
  std::sort(grid.rates.begin(), grid.rates.end());
  return grid;
}

Claim claim(const char* id, Basis basis, const Grid& grid) {
  const Rule rule = rule_of(grid);
  return {.id = id,
          .statement = "Compression pays if and only if theta > w rho/(rho-1), theta the raw bits over the time of compressing and decompressing.",
          .provenance = "derived",
          .basis = basis,
          .from = Profile::standard,
          .rule = rule,
          .measure = [rule, grid](JudgeContext& context) { return measure(context, rule, grid); },
          .past = {{"2026-11-21", "messages and codecs are measured three times, apart in time, and the fastest counts", "other load only slows, and a single measurement followed it"},
                   {"2026-11-22", "points on one side of theta alone are NOT DECIDABLE, no longer INCONCLUSIVE", "INCONCLUSIVE is said after the largest number of repetitions alone"}},
          .figure = "optimus_cc_gain"};
}

const bool emulated = register_claim(claim("optimus_cc.C15a", Basis::emulated_link, emulated_grid()));
const bool namespaces = register_claim(claim("optimus_cc.C15b", Basis::namespaces, {{8, 16, 40, 64, 128, 256}, {1, 4}, "netns"}));

}  // namespace
}  // namespace thinwire::claims
