#include "experiments/claims/activation_compression/cells/timed_steps.h"

#include <cstdio>
#include <utility>

#include "experiments/claims/arms.h"

namespace thinwire::claims::activation_compression {
namespace {

double typical_step(const results::CellRecord& record) {
  std::vector<double> steps;
  for (const results::SampleRow& sample : record.samples)
    if (sample.traffic == "step") steps.push_back(sample.total_us * 1e-3);
  if (steps.empty()) throw RuntimeFailure("cell " + record.cell_id + " has no step times");
  return location_of(steps).mean;
}

Rule timing_rule(const Timing& timing) {
  std::vector<NamedRequest> arms;
  for (const Point& point : timing.points)
    for (const bool coded : {false, true}) arms.push_back({point.name + (coded ? ", coded" : ", dense"), timing.request(point, coded, 0)});
  return with_arms({.settings = {{"seed", "1, 2, ...: a repetition each"}}}, arms);
}

}  // namespace

std::string to_words(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

CellRequest Timing::request(const Point& point, bool with_codec, int repetition) const {
  CellRequest r{"train_gpt", point.ranks, "emulated:" + to_words(point.gbps) + "gbit,latency=50us", {}, 600, {"activation_compression", "links"}, /*timed=*/true};
  for (const Settings* s : {&shared, &point.settings})
    for (const auto& [name, value] : *s) r.parameters.set(name, value);
  if (with_codec)
    for (const auto& [name, value] : coded) r.parameters.set(name, value);
  r.parameters.set("plan", with_codec ? "coded" : "dense"), r.parameters.set("seed", repetition + 1);
  return r;
}

Gains gains(JudgeContext& context, const Timing& timing) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition)  // in turn: what disturbs the machine for a while meets all
    for (const Point& point : timing.points)
      for (const bool coded : {false, true}) requests.push_back(timing.request(point, coded, repetition));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  Gains found;
  for (auto* of : {&found.dense, &found.coded, &found.by_point}) of->resize(timing.points.size());
  for (std::size_t p = 0; p < timing.points.size(); ++p) {
    double dense = 0, coded = 0;
    for (std::size_t at = 2 * p; at < records.size(); at += 2 * timing.points.size()) {
      for (const std::size_t r : {at, at + 1})
        if (!measured_well(records[r])) found.untrusted = timing.points[p].name + ": " + reason_of(records[r]);
      const double before = typical_step(records[at]), after = typical_step(records[at + 1]);
      found.dense[p].push_back(before), found.coded[p].push_back(after), found.by_point[p].push_back(before / after);
      dense += before / context.seeds(), coded += after / context.seeds();
    }
    const Interval gain = found.at(p);
    found.table.rows.push_back({timing.points[p].name, {static_cast<double>(timing.points[p].ranks), timing.points[p].gbps, dense, coded, gain.mean, gain.low, gain.high}});
  }
  return found;
}

bool register_timing(const std::string& id, const std::string& statement, const std::string& provenance, const Timing& timing, Rule own, const std::function<void(const Gains&, Finding&)>& finding,
                     Basis basis, const std::string& not_validated, std::source_location where) {
  Rule rule = timing_rule(timing);
  rule.settings.insert(own.settings.begin(), own.settings.end());
  rule.quantities = own.quantities, rule.constants = own.constants, rule.scatter = own.scatter, rule.clauses = own.clauses, rule.smallest_effect = "smallest", rule.otherwise = own.otherwise;
  return register_claim({.id = id,
                         .statement = statement,
                         .provenance = provenance,
                         .basis = basis,
                         .from = Profile::standard,
                         .rule = std::move(rule),
                         .not_validated = not_validated,
                         .seeds = {3, 6},
                         .measure =
                             [timing, finding](JudgeContext& context) {
                               Gains g = gains(context, timing);
                               Finding f;
                               finding(g, f);
                               if (!g.untrusted.empty()) f.note = "not all links were measured well: " + g.untrusted;
                               f.tables.insert(f.tables.begin(), std::move(g.table));
                               return f;
                             },
                         .figure = "activation_links"},
                        where);
}

}  // namespace thinwire::claims::activation_compression
