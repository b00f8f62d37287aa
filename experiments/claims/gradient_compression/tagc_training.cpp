// gradient_compression.C7: how much faster TAGC trains at 10 Gbit/s, by a setting whose loss C9 lets pass. Times are those of C6 and C8, losses those of C9: settings that have both.
#include <algorithm>
#include <array>

#include "experiments/claims/gradient_compression/cells/tagc_trainings.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

struct Setting {
  std::string symbol;
  TagcSetting tagc;
};
const std::array settings = {Setting{"release", tagc_release}, Setting{"fewest", tagc_smallest}};

Rule make_rule() {
  Rule rule = tagc_steps_rule();
  for (const Setting& s : settings) {
    const std::string name = tagc(s.tagc, trained_width).name;
    rule.quantities.push_back({"gain_" + s.symbol, "T(FSDP) / T(" + name + ") - 1 at 10 Gbit/s, 95 % interval by Mann and Whitney's ranks"});
    rule.quantities.push_back({"lost_" + s.symbol, "final validation loss of " + name + " over that of FSDP, less 1, mean over seeds: the arms of C9a"});
  }
  rule.constants = {{"stated", 0.12, "of the 15 % that the paper states, by the page's rule"}, {"none", 0, "no gain"}, {"allowed", 0.036, "of the loss of FSDP: C9's"}, {"smallest", 0.01, "of the step: the smallest gain worth naming"}};
  const auto any = [](const std::string& gains) {
    std::string all;
    for (const Setting& s : settings) {
      std::string one = "(lost_S <= allowed && " + gains + ")";
      for (std::size_t at; (at = one.find("_S")) != std::string::npos;) one.replace(at, 2, "_" + s.symbol);
      all += (all.empty() ? "" : " || ") + one;
    }
    return all;
  };
  rule.clauses = {{Verdict::confirmed, any("gain_S.low >= stated")}, {Verdict::direction_only, any("gain_S.low > none && gain_S >= smallest")}, {Verdict::inconclusive, any("gain_S.high >= smallest")}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "smallest";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<RuleArm> arms = fsdp_arms(trained_width);
  const std::vector<std::vector<double>> losses = final_losses(train(context, cells_of(fsdp_training(trained_width), arms, context.seeds()), arms.size()));
  const TagcSteps steps = tagc_steps(context);
  Finding f;
  for (const Setting& s : settings) {
    const std::string name = tagc(s.tagc, trained_width).name;
    const auto trained = static_cast<std::size_t>(std::ranges::find(arms, name, &RuleArm::name) - arms.begin());
    const double lost = paired_interval(losses[0], losses.at(trained)).mean / interval_of(losses[0]).mean;
    f.measures.push_back(measure_of("T(FSDP) / T - 1 at 10 Gbit/s, " + name, gain_of(steps.at(10)[0], steps.at(10)[steps.arm(s.tagc)]), rule.constant("stated"), "", "gain_" + s.symbol));
    f.measures.push_back({"L over that of FSDP, less 1, " + name, lost, no_number, no_number, rule.constant("allowed"), "", "lost_" + s.symbol});
  }
  f.tables = tables_of(steps);
  if (!steps.untrusted.empty()) f.note = "not all links were measured well: " + steps.untrusted;
  return f;
}

bool registers() {
  const Rule rule = make_rule();
  return register_claim({.id = "gradient_compression.C7",
                         .statement = "TAGC trains up to 15 % faster at 10 Gbit/s.",
                         .provenance = "read: abstract page of 2504.05638",
                         .basis = Basis::emulated_link,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {3, 5},
                         .measure = [rule](JudgeContext& context) { return measure(context, rule); }});
}

const bool registered = registers();

}  // namespace
}  // namespace thinwire::claims
