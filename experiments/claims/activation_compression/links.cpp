// activation_compression.C7, C10 and C24: what coded activations gain in time, by link and size of the messages. Timed steps over emulated links; compute and codecs take what they take on this
// machine, so where the gain ends is a rate of this machine, not of GPUs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

using Settings = std::map<std::string, std::string>;

std::string text(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

struct Point {
  std::string name;
  int ranks;
  double gbps;
  Settings settings;  ///< of both arms
};

/// Two arms at some points: without codecs, and with.
struct Timing {
  Settings shared, coded;
  std::vector<Point> points;

  CellRequest request(const Point& point, bool with_codec, int repetition) const {
    CellRequest r{"train_gpt", point.ranks, "emulated:" + text(point.gbps) + "gbit,latency=50us", {}, 600, {"activation_compression", "links"}, /*timed=*/true};
    for (const Settings* s : {&shared, &point.settings}) for (const auto& [name, value] : *s) r.parameters.set(name, value);
    if (with_codec)
      for (const auto& [name, value] : coded) r.parameters.set(name, value);
    r.parameters.set("plan", with_codec ? "coded" : "dense"), r.parameters.set("seed", repetition + 1);
    return r;
  }
};

/// How many times as fast, one value per repetition: typical dense step over typical coded one.
struct Gains {
  std::vector<std::vector<double>> by_point;
  Table table{"speed-up by coded activations", {"ranks", "link (Gbit/s)", "dense (ms)", "coded (ms)", "speed-up", "low", "high"}, {}};
  std::string untrusted;
  Interval at(std::size_t point) const { return interval_of(by_point[point]); }
};

double typical_step(const results::CellRecord& record) {
  std::vector<double> steps;
  for (const results::SampleRow& sample : record.samples)
    if (sample.traffic == "step") steps.push_back(sample.total_us * 1e-3);
  return location_of(steps).mean;
}

Gains gains(JudgeContext& context, const Timing& timing) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition)  // in turn: what disturbs the machine for a while meets all
    for (const Point& point : timing.points)
      for (const bool coded : {false, true}) requests.push_back(timing.request(point, coded, repetition));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Gains found;
  found.by_point.resize(timing.points.size());
  for (std::size_t p = 0; p < timing.points.size(); ++p) {
    double dense = 0, coded = 0;
    for (std::size_t at = 2 * p; at < records.size(); at += 2 * timing.points.size()) {
      for (const std::size_t r : {at, at + 1})
        if (!measured_well(records[r])) found.untrusted = timing.points[p].name + ": " + reason_of(records[r]);
      const double before = typical_step(records[at]), after = typical_step(records[at + 1]);
      found.by_point[p].push_back(before / after);
      dense += before / context.seeds(), coded += after / context.seeds();
    }
    const Interval gain = found.at(p);
    found.table.rows.push_back({timing.points[p].name, {static_cast<double>(timing.points[p].ranks), timing.points[p].gbps, dense, coded, gain.mean, gain.low, gain.high}});
  }
  return found;
}

Rule timing_rule(const Timing& timing) {
  std::vector<NamedRequest> arms;
  for (const Point& point : timing.points)
    for (const bool coded : {false, true}) arms.push_back({point.name + (coded ? ", coded" : ", dense"), timing.request(point, coded, 0)});
  return with_arms({.settings = {{"seed", "1, 2, ...: a repetition each"}}}, arms);
}

bool judged(const std::string& id, const std::string& statement, const std::string& provenance, const Timing& timing, Rule own, const std::function<void(const Gains&, Finding&)>& finding) {
  Rule rule = timing_rule(timing);
  rule.quantities = own.quantities, rule.constants = own.constants, rule.scatter = own.scatter, rule.clauses = own.clauses, rule.smallest_effect = "smallest", rule.otherwise = own.otherwise;
  return register_claim({.id = id,
                         .statement = statement,
                         .provenance = provenance,
                         .basis = Basis::emulated_link,
                         .from = Profile::standard,
                         .rule = std::move(rule),
                         .seeds = {3, 6},
                         .measure =
                             [timing, finding](JudgeContext& context) {
                               Gains g = gains(context, timing);
                               Finding f;
                               finding(g, f);
                               if (!g.untrusted.empty()) f.note = "not all links were measured well: " + g.untrusted;
                               f.tables = {std::move(g.table)};
                               return f;
                             },
                         .figure = "activation_links"});
}

const Constant smallest{"smallest", 0.01, "the smallest speed-up worth naming is 1.01"};
const Settings timed = {{"compute", "timed"}, {"serial-steps", "2"}, {"steps", "8"}, {"layers", "4"}, {"heads", "4"}, {"overlap", "false"}, {"comm-dtype", "f16"}};
Settings operator+(Settings a, const Settings& b) {
  a.insert(b.begin(), b.end());
  return a;
}
/// The paper's: sums of tensor-parallel ranks in the last half of the layers, codes of 5 % of the width.
const Settings encoder = {{"compress.tp_forward", "autoencoder:fraction=0.05,init=xavier"}, {"compress.tp_forward.layers", "2-3"}};

// ---- C7: by the link's rate ----

const double rates[] = {1, 10, 100, 1000, 2400};
Timing by_rate() {
  Timing t{timed + Settings{{"hidden", "256"}, {"seq", "128"}, {"micro-batch", "8"}, {"global-batch", "8"}}, encoder, {}};
  for (const int ranks : {2, 4})
    for (const double gbps : rates) t.points.push_back({std::to_string(ranks) + " ranks, " + text(gbps) + " Gbit/s", ranks, gbps, {{"tp", std::to_string(ranks)}}});
  return t;
}

const bool vanishes = judged(
    "activation_compression.C7", "The benefit of an auto-encoder vanishes on fast links.", "recollected (Bian)", by_rate(),
    {.quantities = {{"slow", "T(dense) / T(coded) at 1 Gbit/s, mean over repetitions with its 95 % interval, the lesser of 2 and 4 ranks"},
                    {"fast", "the same at 2.4 Tbit/s, the larger"},
                    {"rise", "most that the speed-up rises from a link to the next faster one, means, 2 and 4 ranks"}},
     .constants = {{"gain", 1.05, "a benefit"}, {"no_gain", 1.02, "none"}, {"noise", 0.02, "a rise within what repetitions differ by"}, smallest},
     .clauses = {{Verdict::confirmed, "slow.low > gain && fast.high < no_gain && rise < noise"}, {Verdict::not_reproduced, "fast.low > gain"}, {Verdict::direction_only, "slow.low > fast.high"}}},
    [](const Gains& g, Finding& f) {
      const std::size_t last = std::size(rates) - 1;
      Interval slow, fast;
      double rise = 0;
      for (std::size_t first = 0; first < g.by_point.size(); first += std::size(rates)) {
        if (!(g.at(first).mean >= slow.mean)) slow = g.at(first);
        if (!(g.at(first + last).mean <= fast.mean)) fast = g.at(first + last);
        for (std::size_t r = 0; r < last; ++r) rise = std::max(rise, g.at(first + r + 1).mean - g.at(first + r).mean);
      }
      f.measures = {measure_of("speed-up at 1 Gbit/s, the lesser of 2 and 4 ranks", slow, 1.05, "x", "slow"), measure_of("speed-up at 2.4 Tbit/s, the larger", fast, 1.02, "x", "fast"),
                    {"most that it rises to the next faster link", rise, no_number, no_number, 0.02, "x", "rise"}};
    });

// ---- C10: by batch and sequence ----

Timing by_size() {
  Timing t{timed + Settings{{"hidden", "256"}, {"tp", "2"}}, encoder, {}};
  for (const char* seq : {"128", "512"})
    for (const char* batch : {"8", "32"}) t.points.push_back({std::string(batch) + " x " + seq, 2, 1, {{"seq", seq}, {"micro-batch", batch}, {"global-batch", batch}}});
  return t;
}

const bool larger = judged("activation_compression.C10", "Larger batches and sequences raise the benefit.", "recollected (Bian)", by_size(),
                           {.quantities = {{"raised", "speed-up at 32 x 512 less that at 8 x 128 on a link of 1 Gbit/s, paired over repetitions, 95 % interval by Student's t"}},
                            .constants = {{"none", 0, "no difference"}, smallest},
                            .scatter = {{"raised", "none", "smallest"}},
                            .clauses = {{Verdict::confirmed, "raised.low > none && raised >= smallest"}, {Verdict::not_reproduced, "raised.high < none || (raised.low > -smallest && raised.high < smallest)"}}},
                           [](const Gains& g, Finding& f) {
                             f.measures = {measure_of("speed-up at 32 x 512 less that at 8 x 128", paired_interval(g.by_point.front(), g.by_point.back()), 0, "x", "raised")};
                           });

// ---- C24: AQ-SGD against f32 ----

const double slow_rates[] = {10, 1, 0.5, 0.3, 0.1};
Timing of_changes() {
  // An epoch is a step: from the second on changes travel.
  Timing t{timed + Settings{{"hidden", "256"}, {"pp", "4"}, {"seq", "64"}, {"micro-batch", "4"}, {"global-batch", "32"}, {"data", "text:windows=32"}},
           {{"compress.pp_forward", "quantize:packing=neighbour,bits=4+delta"}, {"compress.pp_backward", "quantize:packing=neighbour,bits=8"}}, {}};
  t.shared["comm-dtype"] = "f32";
  for (const double gbps : slow_rates) t.points.push_back({text(gbps) + " Gbit/s", 4, gbps, {}});
  return t;
}

const bool changes = judged("activation_compression.C24", "On slow networks AQ-SGD is up to 4.3x faster end to end.", "read: abstract of 2206.01299", of_changes(),
                            {.quantities = {{"most", "T(dense, f32) / T(AQ-SGD, 4 bits forward, 8 back), largest of 10, 1, 0.5, 0.3 and 0.1 Gbit/s, mean over repetitions with its 95 % interval"},
                                            {"drop", "most that it falls from a link to the next slower one, means"}},
                             .constants = {{"stated", 4, "of the paper's 4.3; bytes alone allow 5.33"}, {"far", 3, "below what the paper could mean"}, {"noise", 0.02, "a fall within what repetitions differ by"}, smallest},
                             .clauses = {{Verdict::confirmed, "most.low >= stated && drop < noise"}, {Verdict::not_reproduced, "most.high < far"}, {Verdict::direction_only, "most.low > 1 + smallest"}}},
                            [](const Gains& g, Finding& f) {
                              Interval most;
                              double drop = 0;
                              for (std::size_t p = 0; p < g.by_point.size(); ++p) {
                                if (!(g.at(p).mean <= most.mean)) most = g.at(p);
                                if (p > 0) drop = std::max(drop, g.at(p - 1).mean - g.at(p).mean);
                              }
                              f.measures = {measure_of("largest speed-up", most, 4, "x", "most"), {"most that it falls to the next slower link", drop, no_number, no_number, 0.02, "x", "drop"}};
                            });

}  // namespace
}  // namespace thinwire::claims
