// tensor_parallel.C9: growth of the step per sequence from 8 to 64 ranks by the cost model, against the 3-D paper's table.
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

struct Growth {
  Published published;
  std::vector<Assumption> points;
  double printed = no_number, by_own_times = no_number;
  Spread modelled;
  double nominal = no_number;  ///< s = 512, 10 TFLOP/s, the link fitted to the printed 1-D step
};

Growth growth_of(const JudgeContext& context, const std::string& scheme) {
  Growth g{Published::open(context, "tensor_parallel.csv"), {}, no_number, no_number, {}, no_number};
  const WeakScaling weak(g.published);
  const std::string small = scheme + ", 8 GPUs", large = scheme + ", 64 GPUs", anchor = "1-D, 64 GPUs";
  g.points = calibrated(machine_box(), weak.run(anchor), weak.average(anchor));
  const SizedRun from = weak.run(small), to = weak.run(large);
  g.printed = weak.average(large) / weak.average(small), g.by_own_times = weak.own_average(large) / weak.own_average(small);
  g.modelled = spread_of(g.points, [&](const Assumption& a) { return step_seconds(a, to) / step_seconds(a, from); });
  const Assumption fitted = fitted_link({{15, 0, 10, 4}}, weak.run(anchor), weak.average(anchor));
  g.nominal = step_seconds(fitted, to) / step_seconds(fitted, from);
  return g;
}

/// Growth where only bytes, and where only operations, take time.
std::pair<double, double> bounds_of(const Growth& g, const std::string& scheme) {
  const WeakScaling weak(g.published);
  const SizedRun from = weak.run(scheme + ", 8 GPUs"), to = weak.run(scheme + ", 64 GPUs");
  const auto ratio = [&](const GridMachine& machine) {
    const Assumption a{machine};
    return step_seconds(a, to) / step_seconds(a, from);
  };
  return {ratio({0, 1, 1e9, 4}), ratio({0, 1e9, 1, 4})};
}

Outcome outcome_of(const Growth& g, const std::string& scheme, bool holds_somewhere, const std::string& band) {
  const auto [bytes, operations] = bounds_of(g, scheme);
  Outcome o;
  o.verdict = holds_somewhere ? Verdict::confirmed : Verdict::refuted;
  char text[320];
  std::snprintf(text, sizeof text, "the model grows x%.2f to x%.2f over %zu machines that give the published 1-D step (x%.2f by bytes alone, x%.2f by operations alone); %s; the table prints x%.2f",
                g.modelled.low, g.modelled.high, g.points.size(), bytes, operations, band.c_str(), g.printed);
  o.because = text;
  o.measures = {{"modelled growth of " + scheme + ", link fitted to the 1-D row at 10 TFLOP/s", g.nominal, g.modelled.low, g.modelled.high, g.printed, "x"},
                {"growth by bytes alone", bytes, no_number, no_number, no_number, "x"},
                {"growth by operations alone", operations, no_number, no_number, no_number, "x"},
                {"growth that the table prints", g.printed, no_number, no_number, no_number, "x"},
                {"growth by the table's forward + backward", g.by_own_times, no_number, no_number, no_number, "x"}};
  return o;
}

Outcome judge_line(JudgeContext& context) {
  const Growth g = growth_of(context, "1-D");
  const bool holds = g.modelled.high >= 0.8 * g.printed && g.modelled.low <= 1.2 * g.printed;
  Outcome o = outcome_of(g, "1-D", holds, holds && g.modelled.low < 0.8 * g.printed ? "within 20 % where communication bounds it, below where computing does" : "");
  // Every row of the table beside the model.
  const WeakScaling weak(g.published);
  Table table{"weak scaling, seconds per sequence",
              {"ranks", "batch", "hidden", "published average (s)", "published (f+b)/batch (s)", "pipelined, low (s)", "pipelined, high (s)", "tree, low (s)", "tree, high (s)"}, {}};
  for (const std::string& row : weak.rows()) {
    const SizedRun run = weak.run(row);
    Spread of[2];
    for (const Assumption& a : g.points) of[a.broadcast == BroadcastForm::tree].add(step_seconds(a, run));
    table.rows.push_back({row, {static_cast<double>(run.shape.ranks()), run.batch, run.hidden, weak.average(row), weak.own_average(row), of[0].low, of[0].high, of[1].low, of[1].high}});
  }
  o.tables.push_back(std::move(table));
  return o;
}

Outcome judge_cube(JudgeContext& context) {
  const Growth g = growth_of(context, "3-D");
  const bool holds = g.modelled.low <= 1.3;
  return outcome_of(g, "3-D", holds, holds ? "a machine stays below x1.3" : "no machine stays below x1.3");
}

const char* const provenance = "read: a picture of the table of 2105.14450; growth of bytes and operations derived";

const bool registered = register_claim({.id = "tensor_parallel.C9a",
                                        .statement = "In weak scaling from 8 to 64 GPUs the 1-D step per sequence grows x4.58.",
                                        .provenance = provenance,
                                        .rule = "machines of C6: CONFIRMED if one of them grows within 20 % of the printed growth, else REFUTED; M1 says how far the model is to be trusted",
                                        .basis = Basis::cost_model,
                                        .judge = judge_line});
const bool registered_too = register_claim({.id = "tensor_parallel.C9b",
                                            .statement = "In weak scaling from 8 to 64 GPUs the 3-D step per sequence grows x1.16 only.",
                                            .provenance = provenance,
                                            .rule = "machines of C6: CONFIRMED if one of them grows by at most x1.3, else REFUTED; M1 says how far the model is to be trusted",
                                            .basis = Basis::cost_model,
                                            .judge = judge_cube});

}  // namespace
}  // namespace thinwire::claims
