// tensor_parallel.C9: growth of the step per sequence from 8 to 64 ranks by the cost model, against the 3-D paper's table.
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double within = 0.2, little = 0.3;

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

Finding finding_of(const Growth& g, const std::string& scheme, const std::string& band) {
  const auto [bytes, operations] = bounds_of(g, scheme);
  Finding found;
  char text[320];
  std::snprintf(text, sizeof text, "the model grows x%.2f to x%.2f over %zu machines that give the published 1-D step (x%.2f by bytes alone, x%.2f by operations alone); %s; the table prints x%.2f",
                g.modelled.low, g.modelled.high, g.points.size(), bytes, operations, band.c_str(), g.printed);
  found.note = text;
  found.measures = {{"modelled growth of " + scheme + ", link fitted to the 1-D row at 10 TFLOP/s", g.nominal, g.modelled.low, g.modelled.high, g.printed, "x", "growth"},
                {"growth by bytes alone", bytes, no_number, no_number, no_number, "x"},
                {"growth by operations alone", operations, no_number, no_number, no_number, "x"},
                {"growth that the table prints", g.printed, no_number, no_number, no_number, "x", "printed"},
                {"growth by the table's forward + backward", g.by_own_times, no_number, no_number, no_number, "x"}};
  return found;
}

Finding measure_line(JudgeContext& context) {
  const Growth g = growth_of(context, "1-D");
  const bool holds = g.modelled.high >= (1 - within) * g.printed && g.modelled.low <= (1 + within) * g.printed;
  Finding found = finding_of(g, "1-D", holds && g.modelled.low < (1 - within) * g.printed ? "within 20 % where communication bounds it, below where computing does" : "");
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
  found.tables.push_back(std::move(table));
  return found;
}

Finding measure_cube(JudgeContext& context) {
  const Growth g = growth_of(context, "3-D");
  return finding_of(g, "3-D", g.modelled.low <= 1 + little ? "a machine stays below x1.3" : "no machine stays below x1.3");
}

constexpr const char* provenance = "read: a picture of the table of 2105.14450; growth of bytes and operations derived";

constexpr const char* growth_of_machines = "step per sequence on 64 ranks over that on 8, by the cost model with the link fitted to the 1-D row at 10 TFLOP/s; low and high: over all machines of C6";

const bool registered = register_claim({.id = "tensor_parallel.C9a",
                                        .statement = "In weak scaling from 8 to 64 GPUs the 1-D step per sequence grows x4.58.",
                                        .provenance = provenance,
                                        .basis = Basis::cost_model,
                                        .rule = {.quantities = {{"growth", growth_of_machines}, {"printed", "the same of the 1-D rows of the paper's table, by its averages"}},
                                                 .constants = {{"within", within, "of the printed growth: section 9's band; less is not worth naming"}, {"one", 1, "no growth"}},
                                                 .clauses = {{Verdict::confirmed, "growth.high >= (one - within) * printed && growth.low <= (one + within) * printed"}},
                                                 .otherwise = Verdict::not_reproduced,
                                                 .smallest_effect = "within"},
                                        .not_validated = not_validated_terms,
                                        .measure = measure_line,
                                        .past = {became_model_only()},
                                        .figure = "tensor_parallel_weak"});
const bool registered_too = register_claim({.id = "tensor_parallel.C9b",
                                            .statement = "In weak scaling from 8 to 64 GPUs the 3-D step per sequence grows x1.16 only.",
                                            .provenance = provenance,
                                            .basis = Basis::cost_model,
                                            .rule = {.quantities = {{"growth", growth_of_machines}},
                                                     .constants = {{"one", 1, "no growth"}, {"little", little, "of the step: section 9's bound for x1.16; a growth beyond it is worth naming"}},
                                                     .clauses = {{Verdict::confirmed, "growth.low <= one + little"}},
                                                     .otherwise = Verdict::not_reproduced,
                                                     .smallest_effect = "little"},
                                            .not_validated = not_validated_terms,
                                            .measure = measure_cube,
                                            .past = {became_model_only()},
                                            .figure = "tensor_parallel_weak"});

}  // namespace
}  // namespace thinwire::claims
