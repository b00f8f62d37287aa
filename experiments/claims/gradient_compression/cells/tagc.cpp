#include "experiments/claims/gradient_compression/cells/tagc.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "experiments/claims/arms.h"

namespace thinwire::claims::gradient_compression {
namespace {

constexpr double smaller = 50;  ///< of parameters and of rates
constexpr std::array stated_gbps = {1.0, 2.5, 5.0, 10.0, 25.0, 100.0};
constexpr std::int64_t hidden = 256;

std::string text(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

std::vector<RuleArm> timed_arms() {
  return {{"FSDP", {}}, tagc(tagc_release, hidden), tagc({.all_layers = true}, hidden), tagc(tagc_smallest, hidden), tagc({.all_layers = true, .bits = 4}, hidden),
          {"gradients omitted", {{"omit", "grad_reduce_scatter,dp_gradient"}}}};
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

}  // namespace

RuleArm tagc(const TagcSetting& s, std::int64_t width) {
  RuleArm arm{std::string(s.all_layers ? "all layers" : "MLP") + ", c = " + std::to_string(s.ratio) + ", " + std::to_string(s.bits) + (s.bits == 1 ? " bit" : " bits") + (s.ladder ? ", ladder" : ""),
              {{"compress.grad_reduce_scatter", "sketch:ratio=" + std::to_string(s.ratio) + ",target=0.8,index_bits=" + std::to_string(s.bits) + (s.ladder ? ",threshold=ladder" : "") + "+ef"}}};
  if (!s.all_layers) arm.settings["compress.grad_reduce_scatter.min_elements"] = std::to_string(4 * width * width);
  return arm;
}

double TimedArm::typical_ms() const { return location_of(step_ms).mean; }

std::size_t TagcSteps::arm(const TagcSetting& setting) const {
  const auto found = std::ranges::find(arms, tagc(setting, hidden).name, &RuleArm::name);
  if (found == arms.end()) throw std::logic_error(tagc(setting, hidden).name + " is not timed");
  return static_cast<std::size_t>(found - arms.begin());
}

const std::vector<TimedArm>& TagcSteps::at(double rate) const { return of.at(static_cast<std::size_t>(std::ranges::find(gbps, rate) - gbps.begin())); }

TagcSteps tagc_steps(JudgeContext& context) {
  const std::vector<RuleArm> all = timed_arms();
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition)  // in turn: what disturbs the machine for a while meets all arms
    for (const double gbps : stated_gbps)
      for (const RuleArm& arm : all) requests.push_back(request_of(arm, gbps, repetition));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  TagcSteps s{all, {stated_gbps.begin(), stated_gbps.end()}, std::vector(stated_gbps.size(), std::vector<TimedArm>(all.size())), ""};
  const std::size_t cells = stated_gbps.size() * all.size();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const results::CellRecord& record = records[i];
    if (!measured_well(record)) s.untrusted = reason_of(record);
    TimedArm& timed = s.of[i % cells / all.size()][i % all.size()];
    std::vector<double> run;
    for (const results::SampleRow& sample : record.samples)
      if (sample.traffic == "step") run.push_back(sample.total_us * 1e-3);
    timed.run_ms.push_back(location_of(run).mean);
    timed.step_ms.insert(timed.step_ms.end(), run.begin(), run.end());
    for (const results::TrainingTrafficRow& row : record.training.traffic)
      if (row.traffic == "grad_reduce_scatter") timed.codec_ms += (row.encode_us + row.decode_us) * 1e-3 / context.seeds();
  }
  return s;
}

Rule tagc_steps_rule() {
  std::vector<NamedRequest> all;
  for (const RuleArm& arm : timed_arms()) all.push_back({arm.name, request_of(arm, 10, 0)});
  std::string links;
  for (const double gbps : stated_gbps) links += (links.empty() ? "" : ", ") + text(gbps);
  return with_arms({.settings = {{"seed", "1, 2, ...: another order of the data each"}, {"plan", "the arm"}, {"link", "emulated, latency 50 us, " + links + " Gbit/s, each over " + text(smaller)}}}, all);
}

std::vector<Table> tables_of(const TagcSteps& s) {
  const std::vector<RuleArm>& all = s.arms;
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

double exposed_ms(const std::vector<TimedArm>& of_link, std::size_t arm) { return of_link[arm].typical_ms() - of_link.back().typical_ms(); }

Interval saved_of(const std::vector<TimedArm>& of_link, std::size_t arm) {
  std::vector<double> saved;
  for (std::size_t r = 0; r < of_link[0].run_ms.size(); ++r) {
    const double without = of_link.back().run_ms[r];
    saved.push_back(1 - (of_link[arm].run_ms[r] - without) / (of_link[0].run_ms[r] - without));
  }
  return interval_of(saved);
}

Interval gain_of(const TimedArm& fsdp, const TimedArm& arm) {
  Interval gain = speedup_of(fsdp.step_ms, arm.step_ms);
  for (double* v : {&gain.mean, &gain.low, &gain.high}) *v -= 1;
  return gain;
}

}  // namespace thinwire::claims::gradient_compression
