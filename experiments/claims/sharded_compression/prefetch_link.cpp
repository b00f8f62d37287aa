// sharded_compression.C5: gathers that start one unit ahead are hidden behind the passes before them. Two replicas that shard everything, on an emulated link where the gather of a layer takes half and
// twice as long as its forward pass, stated; gradients cost nothing (--omit), so that gathers have the link for themselves. With L layers, gather time g and passes cf, cb of a layer:
//   hidden = (L - 1) (min(g, cf) + min(g, cb))     the first layer of a direction has nothing before it; tables, head and latencies are not counted
// is what a step takes less with --zero-prefetch 1 than with 0; and without it all gathers are exposed: T(0) - T(gathers omitted) = 2 L g.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

constexpr int layers = 6;
constexpr double forward_ms = 10, backward_ms = 20;  ///< of a layer
constexpr std::int64_t hidden = 128;
/// Half of a layer's matrices, f32: what a rank of two receives per gather.
constexpr double received_bytes = 12.0 * hidden * hidden * 4 / 2;
constexpr std::array parts = {0.5, 2.0};  ///< gather over forward pass of a layer

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

enum class Gathers { at_once, ahead, omitted };
constexpr std::array kinds = {Gathers::at_once, Gathers::ahead, Gathers::omitted};
constexpr std::array names = {"when needed", "one unit ahead", "omitted"};

CellRequest request_of(double part, Gathers gathers, int repetition) {
  CellRequest r;
  r.program = "train_gpt";
  r.ranks = 2;
  r.link = "emulated:" + digits(received_bytes * 8e-6 / (part * forward_ms)) + "gbit,latency=50us";
  results::Parameters& p = r.parameters;
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"dp", 2}, {"zero-stage", 3}, {"layers", layers}, {"hidden", hidden}, {"heads", 4}, {"seq", 16}, {"micro-batch", 2}, {"global-batch", 4}, {"serial-steps", 2}, {"steps", 8}})
    p.set(name, value);
  p.set("zero-keep", "layer");
  p.set("zero-prefetch", gathers == Gathers::at_once ? 0 : 1);
  p.set("comm-dtype", "f32");
  p.set("compute", "timed");
  p.set("stage-forward-us", digits(1e3 * layers * forward_ms));
  p.set("stage-backward-us", digits(1e3 * layers * backward_ms));
  p.set("omit", gathers == Gathers::omitted ? "grad_reduce_scatter,dp_gradient,param_all_gather" : "grad_reduce_scatter,dp_gradient");
  p.set("seed", repetition + 1);
  p.set("plan", std::string("gathers ") + names[static_cast<std::size_t>(gathers)]);
  r.tags = {"sharded_compression", "prefetch"};
  return r;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition)
    for (const double part : parts)
      for (const Gathers gathers : kinds) requests.push_back(request_of(part, gathers, repetition));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  std::vector<std::vector<double>> step_ms(parts.size() * kinds.size());
  Finding f;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!measured_well(records[i])) {
      f.instead = Verdict::skipped;
      f.note = "the link was not measured well: " + reason_of(records[i]);
      return f;
    }
    for (const results::SampleRow& sample : records[i].samples)
      if (sample.traffic == "step") step_ms[i % step_ms.size()].push_back(sample.total_us * 1e-3);
  }
  Table table{"gathers hidden and exposed", {"gather over forward pass", "when needed (ms)", "one unit ahead (ms)", "omitted (ms)", "hidden over expected", "exposed without over all gathers"}, {}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& at_once = step_ms[3 * i];
    const auto &ahead = step_ms[3 * i + 1], &omitted = step_ms[3 * i + 2];
    const double g = parts[i] * forward_ms, expected = (layers - 1) * (std::min(g, forward_ms) + std::min(g, backward_ms));
    Interval hidden_share = shift_of(at_once, ahead), exposed_share = shift_of(at_once, omitted);
    for (double* v : {&hidden_share.mean, &hidden_share.low, &hidden_share.high}) *v /= expected;
    for (double* v : {&exposed_share.mean, &exposed_share.low, &exposed_share.high}) *v /= 2 * layers * g;
    const std::string at = "gather " + digits(parts[i]) + " of a forward pass", symbol = i == 0 ? "short" : "long";
    f.measures.push_back(measure_of("hidden over expected, " + at, hidden_share, 1, "", "hidden_" + symbol));
    f.measures.push_back(measure_of("control: exposed without prefetch, over all gathers, " + at, exposed_share, 1, "", "exposed_" + symbol));
    table.rows.push_back({at, {parts[i], location_of(at_once).mean, location_of(ahead).mean, location_of(omitted).mean, hidden_share.mean, exposed_share.mean}});
  }
  f.tables.push_back(std::move(table));
  return f;
}

Rule make_rule() {
  std::vector<NamedRequest> arms;
  for (const double part : parts)
    for (const Gathers gathers : kinds)
      arms.push_back({"gather " + digits(part) + " of a forward pass, " + names[static_cast<std::size_t>(gathers)], request_of(part, gathers, 0)});
  Rule rule = with_arms({.settings = {{"seed", "1, 2, ...: another order of the data each"}}}, arms);
  for (RuleArm& arm : rule.arms) arm.settings.erase("plan");
  for (const char* length : {"short", "long"}) {
    const std::string gathers = std::string(length) == "short" ? "gathers of half a forward pass" : "gathers of two forward passes";
    rule.quantities.push_back({std::string("hidden_") + length, "step with gathers when needed less that with gathers one unit ahead, over (L-1)(min(g,cf) + min(g,cb)), " + gathers + ", 95 % interval by Mann and Whitney's ranks"});
    rule.quantities.push_back({std::string("exposed_") + length, "step with gathers when needed less that without gathers, over 2 L g, " + gathers});
  }
  rule.constants = {{"near", 0.2, "of what is expected"}, {"all", 1, "all of it"}};
  rule.clauses = {{Verdict::invalid, "abs(exposed_short - all) > near || abs(exposed_long - all) > near"}, {Verdict::confirmed, "abs(hidden_short - all) <= near && abs(hidden_long - all) <= near"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "near";
  return rule;
}

bool judged() {
  const Rule rule = make_rule();
  return register_claim({.id = "sharded_compression.C5",
                         .statement = "Prefetch hides gathers.",
                         .provenance = "derived; read: PyTorch's documents (mechanism)",
                         .basis = Basis::emulated_link,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {2, 4},
                         .measure = measure});
}

const bool registered = judged();

}  // namespace
}  // namespace thinwire::claims
