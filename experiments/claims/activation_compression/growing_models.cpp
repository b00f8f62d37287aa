// activation_compression.C8 and C9: what becomes of an auto-encoder's gain when models grow. The paper's cost model (docs/papers/activation_compression.md, "Cost model") is fitted to timed steps of
// two tensor-parallel ranks at growing hidden size and carried on to its largest: per layer
//   dense   alpha F + beta b s h + d        coded   alpha F + gamma b s h + c        F = 96 b s h^2 + 16 b s^2 h
// C9 puts these layers into pipelines of nodes: (m + n - 1) (L/n T_layer + 2 V/w), V bytes of a boundary each way. Constants are this machine's.
#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/claims/activation_compression/cells/timed_steps.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr double layers = 4, batch = 8, seq = 128, gbps = 1;
const double hidden[] = {192, 256, 384, 512, 768};
constexpr double largest_hidden = 25600;

Timing by_hidden() {
  Timing t{timed_step + Settings{{"tp", "2"}, {"seq", "128"}, {"micro-batch", "8"}, {"global-batch", "8"}}, {{"compress.tp_forward", "autoencoder:width=20,init=xavier"}}, {}};
  for (const double h : hidden) t.points.push_back({"hidden " + to_words(h), 2, gbps, {{"hidden", to_words(h)}}});
  return t;
}

double work(double b, double s, double h) {
  return 96 * b * s * h * h + 16 * b * s * s * h;
}

/// Milliseconds of a layer.
struct CostModel {
  double alpha = 0, beta = 0, d = 0, gamma = 0, c = 0;
  double explained = 0;  ///< R^2 of all dense and coded layers

  double dense(double b, double s, double h) const { return alpha * work(b, s, h) + beta * b * s * h + d; }
  double coded(double b, double s, double h) const { return alpha * work(b, s, h) + gamma * b * s * h + c; }
  double gain(double h) const { return dense(batch, seq, h) / coded(batch, seq, h); }
};

/// x of A x = y for a symmetric positive A, by elimination with pivots.
std::array<double, 5> solve(std::array<std::array<double, 6>, 5> m) {
  for (std::size_t k = 0; k < 5; ++k) {
    std::size_t pivot = k;
    for (std::size_t r = k; r < 5; ++r)
      if (std::abs(m[r][k]) > std::abs(m[pivot][k])) pivot = r;
    std::swap(m[k], m[pivot]);
    for (std::size_t r = 0; r < 5; ++r) {
      if (r == k) continue;
      const double factor = m[r][k] / m[k][k];
      for (std::size_t j = k; j < 6; ++j) m[r][j] -= factor * m[k][j];
    }
  }
  std::array<double, 5> x{};
  for (std::size_t k = 0; k < 5; ++k) x[k] = m[k][5] / m[k][k];
  return x;
}

/// Least squares over the means of the repetitions. Columns in units of their largest, so that the sums of squares are of one size.
CostModel fitted(const Gains& g) {
  const double most_work = work(batch, seq, hidden[std::size(hidden) - 1]), most_bytes = batch * seq * hidden[std::size(hidden) - 1];
  std::array<std::array<double, 6>, 5> sums{};
  std::vector<double> times;
  for (std::size_t p = 0; p < std::size(hidden); ++p)
    for (const bool coded : {false, true}) {
      times.push_back(interval_of((coded ? g.coded : g.dense)[p]).mean / layers);
      std::array<double, 6> row{};
      row[0] = work(batch, seq, hidden[p]) / most_work, row[coded ? 3 : 1] = batch * seq * hidden[p] / most_bytes, row[coded ? 4 : 2] = 1, row[5] = times.back();
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 6; ++j) sums[i][j] += row[i] * row[j];
    }
  const auto [alpha, beta, d, gamma, c] = solve(sums);
  CostModel m{alpha / most_work, beta / most_bytes, d, gamma / most_bytes, c};
  double left = 0, all = 0;
  const double mean = interval_of(times).mean;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double h = hidden[i / 2], by_model = i % 2 ? m.coded(batch, seq, h) : m.dense(batch, seq, h);
    left += (times[i] - by_model) * (times[i] - by_model), all += (times[i] - mean) * (times[i] - mean);
  }
  m.explained = 1 - left / all;
  return m;
}

Measure fit_measure(const CostModel& m) {
  return {"control: R^2 of the fit", m.explained, no_number, no_number, 0.95, "", "fit"};
}
const Quantity fit{"fit", "control: R^2 of the cost model's five constants, least squares over all measured layers"};
const Constant good_fit{"good_fit", 0.95, "of R^2"};

const bool vanishes = register_timing(
    "activation_compression.C8", "At a fixed number of nodes the benefit vanishes with growing hidden size.", "recollected (Bian); derived from the cost model", by_hidden(),
    {.quantities = {fit,
                    {"most", "largest T(dense) / T(coded) of the measured sizes, mean over repetitions with its 95 % interval"},
                    {"last", "the same at hidden 768, the largest that is measured"},
                    {"far", "the same by the fitted model at hidden 25600"},
                    {"rise", "the lesser of the two rises of the speed-up over the three largest measured sizes, means"}},
     .constants = {good_fit, {"quarter", 0.25, "of the largest benefit"}, {"one", 1, "no benefit"}, {"noise", 0.02, "a rise within what repetitions differ by"}, smallest_gain},
     .clauses = {{Verdict::invalid, "fit < good_fit"},
                 {Verdict::not_decidable, "most.low < one + smallest"},
                 {Verdict::not_reproduced, "rise > noise"},
                 // Any fit carried on so far comes near 1, for work grows with the square: so the measured sizes must fall, too.
                 {Verdict::confirmed, "far - one <= quarter * (most - one) && last.high < most"},
                 {Verdict::direction_only, "far < most"}}},
    [](const Gains& g, Finding& f) {
      const CostModel model = fitted(g);
      const std::size_t n = std::size(hidden);
      std::size_t best = 0;
      Table curve{"speed-up by the fitted model", {"speed-up"}, {}};
      for (std::size_t p = 1; p < n; ++p)
        if (g.at(p).mean > g.at(best).mean) best = p;
      for (double h = hidden[0]; h <= largest_hidden; h *= 2) curve.rows.push_back({"hidden " + to_words(h), {model.gain(h)}});
      f.measures = {fit_measure(model),
                    measure_of("largest measured speed-up", g.at(best), 1.01, "x", "most"),
                    measure_of("speed-up at hidden 768", g.at(n - 1), g.at(best).mean, "x", "last"),
                    {"speed-up by the model at hidden 25600", model.gain(largest_hidden), no_number, no_number, no_number, "x", "far"},
                    {"lesser rise over the three largest sizes", std::min(g.at(n - 1).mean - g.at(n - 2).mean, g.at(n - 2).mean - g.at(n - 3).mean), no_number, no_number, 0.02, "x", "rise"}};
      f.tables = {std::move(curve)};
    },
    Basis::emulated_link, "layers carried on from hidden 768 to 25600");

struct Cluster {
  double hidden, layers, nodes, global_batch;
};
const Cluster clusters[] = {{6144, 40, 1, 1024}, {8192, 48, 2, 1536}, {10240, 60, 4, 1792}, {12288, 80, 8, 2304}, {16384, 96, 16, 2176}, {20480, 105, 35, 2528}, {25600, 128, 64, 3072}};
constexpr double micro_batch = 16, width = 100, between_nodes = 10e9 / 8 / 1000;  // bytes per millisecond

double gain_of(const CostModel& m, const Cluster& c) {
  const double micro = c.global_batch / micro_batch, tokens = micro_batch * seq;
  const auto step = [&](double layer, double numbers) { return (micro + c.nodes - 1) * (c.layers / c.nodes * layer + (c.nodes > 1 ? 2 * 2 * tokens * numbers / between_nodes : 0)); };
  return step(m.dense(micro_batch, seq, c.hidden), c.hidden) / step(m.coded(micro_batch, seq, c.hidden), width);
}

const bool remains = register_timing(
    "activation_compression.C9", "If nodes grow with the hidden size, a benefit remains.", "recollected (Bian)", by_hidden(),
    {.settings = {{"clusters",
                   "hidden / layers / nodes / global batch 6144/40/1/1024, 8192/48/2/1536, 10240/60/4/1792, 12288/80/8/2304, 16384/96/16/2176, 20480/105/35/2528, 25600/128/64/3072; micro-batches of "
                   "16 x 128, "
                   "codes of 100 numbers, 10 Gbit/s between nodes"}},
     .quantities = {fit, {"least", "T(dense) / T(coded) by the model, least of the clusters"}, {"last", "of the largest cluster"}, {"spread", "largest less least of the three largest clusters"}},
     .constants = {good_fit, {"gain", 1.1, "a benefit"}, {"no_gain", 1.02, "none"}, {"steady", 0.1, "by which the last three may differ"}, smallest_gain},
     .clauses =
         {{Verdict::invalid, "fit < good_fit"}, {Verdict::confirmed, "least >= gain && spread < steady"}, {Verdict::not_reproduced, "last < no_gain"}, {Verdict::direction_only, "last > no_gain"}}},
    [](const Gains& g, Finding& f) {
      const CostModel model = fitted(g);
      Table table{"speed-up by the model", {"nodes", "speed-up"}, {}};
      std::vector<double> all;
      for (const Cluster& c : clusters) {
        all.push_back(gain_of(model, c));
        table.rows.push_back({"hidden " + to_words(c.hidden), {c.nodes, all.back()}});
      }
      const auto three = std::minmax_element(all.end() - 3, all.end());
      f.measures = {fit_measure(model),
                    {"least speed-up of all clusters", *std::ranges::min_element(all), no_number, no_number, 1.1, "x", "least"},
                    {"of the largest cluster", all.back(), no_number, no_number, 1.02, "x", "last"},
                    {"spread of the three largest", *three.second - *three.first, no_number, no_number, 0.1, "x", "spread"}};
      f.tables = {std::move(table)};
    },
    Basis::cost_model, "a pipeline of nodes, which no cell of it times; layers carried on from hidden 768 to 25600");

}  // namespace
}  // namespace thinwire::claims
