// gradient_compression.C6 and C8: what TAGC saves of the synchronisation of gradients, and on which links a step gains. A miniature of the authors' set-up, two replicas that shard everything and
// communicate in each micro-step: 1/50 of their parameters, 1/50 of their links' rates, and passes of 50 and 100 ms stated (a GeForce 3080 at about 20 TFLOP/s: derived), so that transfers and passes
// take what theirs took. The codec is this machine's: where its time is more or less than 1/50 of a GPU's, so is what it costs; the table says how long it takes.
#include <algorithm>
#include <array>
#include <map>
#include <cstdio>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

constexpr double smaller = 50;  ///< of parameters and of rates
constexpr std::array stated_gbps = {1.0, 2.5, 5.0, 10.0, 25.0, 100.0};
constexpr std::size_t release = 1;      ///< among arms(): what the authors' script runs
constexpr std::int64_t hidden = 256;

std::string text(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

/// FSDP, then TAGC: which matrices, ratio c, bits of the index; last, FSDP whose gradients cost nothing.
std::vector<RuleArm> arms() {
  std::vector<RuleArm> all = {{"FSDP", {}}};
  const auto tagc = [&](bool all_layers, int ratio, int bits) {
    RuleArm arm{std::string(all_layers ? "all layers" : "MLP") + ", c = " + std::to_string(ratio) + ", " + std::to_string(bits) + (bits == 1 ? " bit" : " bits"),
                {{"compress.grad_reduce_scatter", "sketch:ratio=" + std::to_string(ratio) + ",target=0.8,index_bits=" + std::to_string(bits) + "+ef"}}};
    if (!all_layers) arm.settings["compress.grad_reduce_scatter.min_elements"] = std::to_string(4 * hidden * hidden);  // the MLP's alone are as large
    all.push_back(std::move(arm));
  };
  tagc(false, 2, 1), tagc(true, 2, 1), tagc(true, 4, 1), tagc(true, 2, 4);
  all.push_back({"gradients omitted", {{"omit", "grad_reduce_scatter,dp_gradient"}}});
  return all;
}

CellRequest request_of(const RuleArm& arm, double gbps, int repetition) {
  CellRequest r;
  r.program = "train_gpt";
  r.ranks = 2;
  r.link = "emulated:" + text(gbps / smaller) + "gbit,latency=50us";
  results::Parameters& p = r.parameters;
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"dp", 2}, {"zero-stage", 3}, {"layers", 4}, {"hidden", hidden}, {"heads", 4}, {"seq", 64}, {"micro-batch", 2},
                                                                       {"global-batch", 4}, {"serial-steps", 3}, {"steps", 10}, {"stage-forward-us", 50000}, {"stage-backward-us", 100000}})
    p.set(name, value);
  p.set("comm-dtype", "f32");
  p.set("compute", "timed");
  p.set("seed", repetition + 1);
  p.set("plan", arm.name);
  for (const auto& [name, value] : arm.settings) p.set(name, value);
  r.tags = {"gradient_compression", "tagc", arm.name};
  return r;
}

struct Timed {
  std::vector<double> step_ms;
  double codec_ms = 0;  ///< on gradients, of a step, mean over ranks and repetitions
  double typical_ms() const { return location_of(step_ms).mean; }
};

/// By link, then arm.
struct Study {
  std::vector<std::vector<Timed>> of;
  std::string untrusted;
};

Study study(JudgeContext& context) {
  const std::vector<RuleArm> all = arms();
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition)  // in turn: what disturbs the machine for a while meets all arms
    for (const double gbps : stated_gbps)
      for (const RuleArm& arm : all) requests.push_back(request_of(arm, gbps, repetition));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Study s{std::vector(stated_gbps.size(), std::vector<Timed>(all.size())), ""};
  const std::size_t cells = stated_gbps.size() * all.size();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const results::CellRecord& record = records[i];
    if (!measured_well(record)) s.untrusted = reason_of(record);
    Timed& timed = s.of[i % cells / all.size()][i % all.size()];
    for (const results::SampleRow& sample : record.samples)
      if (sample.traffic == "step") timed.step_ms.push_back(sample.total_us * 1e-3);
    for (const results::TrainingTrafficRow& row : record.training.traffic)
      if (row.traffic == "grad_reduce_scatter") timed.codec_ms += (row.encode_us + row.decode_us) * 1e-3 / context.seeds();
  }
  return s;
}

/// What the synchronisation of gradients adds to a step.
double exposed_ms(const std::vector<Timed>& of_link, std::size_t arm) { return of_link[arm].typical_ms() - of_link.back().typical_ms(); }

/// b over a, less 1, with the interval of b - a.
Interval relative(const Timed& a, const Timed& b) {
  Interval shift = shift_of(b.step_ms, a.step_ms);
  const double base = a.typical_ms();
  for (double* v : {&shift.mean, &shift.low, &shift.high}) *v /= base;
  return shift;
}
/// How much more steps in the same time: T_FSDP / T_arm - 1.
Interval gain_of(const Timed& fsdp, const Timed& arm) {
  const Interval slower = relative(fsdp, arm);
  Interval gain = slower;
  gain.mean = 1 / (1 + slower.mean) - 1, gain.low = 1 / (1 + slower.high) - 1, gain.high = 1 / (1 + slower.low) - 1;
  return gain;
}

std::vector<Table> tables_of(const Study& s) {
  const std::vector<RuleArm> all = arms();
  std::vector<std::string> columns = {"link (Gbit/s)"};
  for (const RuleArm& arm : all) columns.push_back(arm.name);
  std::vector<Table> tables = {{"TAGC against FSDP, step (ms)", columns, {}}, {"TAGC against FSDP, exposed synchronisation (ms)", columns, {}}, {"TAGC against FSDP, codec (ms)", columns, {}}};
  for (std::size_t l = 0; l < s.of.size(); ++l) {
    for (Table& table : tables) table.rows.push_back({text(stated_gbps[l]) + " Gbit/s", {stated_gbps[l]}});
    for (std::size_t a = 0; a < all.size(); ++a) {
      tables[0].rows.back().values.push_back(s.of[l][a].typical_ms());
      tables[1].rows.back().values.push_back(exposed_ms(s.of[l], a));
      tables[2].rows.back().values.push_back(s.of[l][a].codec_ms);
    }
  }
  return tables;
}

const std::vector<Timed>& at(const Study& s, double gbps) {
  return s.of[static_cast<std::size_t>(std::ranges::find(stated_gbps, gbps) - stated_gbps.begin())];
}

Rule shared_rule() {
  std::vector<NamedRequest> all;
  for (const RuleArm& arm : arms()) all.push_back({arm.name, request_of(arm, 10, 0)});
  std::string links;
  for (const double gbps : stated_gbps) links += (links.empty() ? "" : ", ") + text(gbps);
  return with_arms({.settings = {{"seed", "1, 2, ...: another order of the data each"}, {"plan", "the arm"}, {"link", "emulated, latency 50 us, " + links + " Gbit/s, each over " + text(smaller)}}}, all);
}

bool judged(const char* id, const char* statement, const char* provenance, const Rule& rule, Finding (*finding)(const Study&, const Rule&)) {
  return register_claim({.id = id, .statement = statement, .provenance = provenance, .basis = Basis::emulated_link, .from = Profile::standard, .rule = rule, .seeds = {3, 5},
                         .measure = [rule, finding](JudgeContext& context) {
                           const Study s = study(context);
                           Finding f = finding(s, rule);
                           f.tables = tables_of(s);
                           if (!s.untrusted.empty()) f.note += (f.note.empty() ? "" : "; ") + std::string("not all links were measured well: ") + s.untrusted;
                           return f;
                         }});
}

bool synchronisation() {
  Rule rule = shared_rule();
  rule.quantities = {{"saved", "of what the synchronisation of gradients adds to a step of FSDP (step less that with gradients omitted, typical steps), the part that the release setting (MLP, c = 2, 1 bit) does not add, at 10 Gbit/s"}};
  rule.constants = {{"stated", 0.3, "of FSDP's"}, {"none", 0, "nothing saved"}, {"smallest", 0.02, "of FSDP's: the smallest saving worth naming"}};
  rule.clauses = {{Verdict::confirmed, "saved >= stated"}, {Verdict::direction_only, "saved >= none + smallest"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "smallest";
  return judged("gradient_compression.C6", "Synchronisation time falls by more than 30 %.", "read: abstract page (its machine-written part)", rule, [](const Study& s, const Rule& r) {
    const std::vector<Timed>& here = at(s, 10);
    Finding f;
    const auto saved = [&](std::size_t arm) { return 1 - exposed_ms(here, arm) / exposed_ms(here, 0); };
    f.measures = {{"saved of the exposed synchronisation, release setting, 10 Gbit/s", saved(release), no_number, no_number, r.constant("stated"), "of FSDP's", "saved"}};
    for (std::size_t a = release + 1; a + 1 < here.size(); ++a) f.measures.push_back({"the same, " + arms()[a].name, saved(a), no_number, no_number, no_number, "of FSDP's"});
    return f;
  });
}

bool bandwidth() {
  Rule rule = shared_rule();
  for (const double gbps : {1.0, 10.0, 25.0, 100.0})
    rule.quantities.push_back({"gain_" + text(gbps), "T(FSDP) / T(release setting) - 1 at " + text(gbps) + " Gbit/s, 95 % interval by Mann and Whitney's ranks"});
  rule.constants = {{"none", 0, "no gain"}, {"smallest", 0.01, "of the step: the smallest difference worth naming"}};
  rule.clauses = {{Verdict::confirmed, "gain_10 >= gain_25 + smallest && gain_25 >= gain_100 && gain_1.low > none && gain_100.high < none"}, {Verdict::direction_only, "gain_10 > gain_25 && gain_25 >= gain_100"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "smallest";
  return judged("gradient_compression.C8", "TAGC's gain shrinks with bandwidth.", "derived", rule, [](const Study& s, const Rule&) {
    Finding f;
    for (std::size_t l = 0; l < stated_gbps.size(); ++l) {
      const bool asked = stated_gbps[l] == 1 || stated_gbps[l] >= 10;
      f.measures.push_back(measure_of("T(FSDP) / T - 1, release setting, " + text(stated_gbps[l]) + " Gbit/s", gain_of(s.of[l][0], s.of[l][release]), 0, "", asked ? "gain_" + text(stated_gbps[l]) : ""));
    }
    return f;
  });
}

const bool registered = synchronisation() & bandwidth();

}  // namespace
}  // namespace thinwire::claims
