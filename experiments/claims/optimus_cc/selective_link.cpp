// optimus_cc.C8b and C8c: on an emulated link and between namespaces: timed steps in which the first K stages compress their gradients.
#include <cmath>
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "experiments/claims/optimus_cc/cells/timed_arms.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr int stages = 4;

std::vector<TimedArm> all_arms(const std::string& kind) {
  std::vector<TimedArm> arms;
  for (const double backward : selective_backward_us)
    for (int k = 0; k <= stages; ++k) arms.push_back(selective_arm(backward, k, kind));
  return arms;
}

Finding measure(JudgeContext& context, const Rule& rule, const std::string& kind) {
  const std::vector<TimedStep> steps = timed_steps(context, all_arms(kind), context.seeds());
  Finding f;
  Interval up_to, beyond;
  Table table{"sweep of K", {"tb (ms)", "K", "K*", "step (ms)", "low", "high", "model (ms)"}, {}};
  for (std::size_t s = 0; s < selective_backward_us.size(); ++s) {
    const TimedStep* const at = &steps[s * (stages + 1)];
    const double backward = selective_backward_us[s], rate = 8e-3 / selective_gbps;
    const double message = rate * 8 * 16 * 128 * 4;
    // Per rank: dense at K = 0; compressed, with the codec's work, at K = P.
    const double dense = rate * at[0].bytes.at("dp_gradient");
    const double compressed = rate * at[stages].bytes.at("dp_gradient") + 1e3 * at[stages].codec_ms.at("dp_gradient");
    const int worth = stages_worth_compressing(dense, compressed, backward + message, stages);
    char name[96];
    std::snprintf(name, sizeof name, "K* at t_dp = %.1f ms, t_dp' = %.1f ms, tb = %g ms", dense * 1e-3, compressed * 1e-3, backward * 1e-3);
    f.measures.push_back({name, static_cast<double>(worth), no_number, no_number, no_number, "stages"});
    for (int k = 0; k <= stages; ++k) {
      const Interval step = location_of(at[k].step_ms);
      std::snprintf(name, sizeof name, "tb %g ms, K = %d", backward * 1e-3, k);
      table.rows.push_back({name, {backward * 1e-3, static_cast<double>(k), static_cast<double>(worth), step.mean, step.low, step.high, at[k].predicted_ms}});
      if (k == 0) continue;
      if (k <= worth) {
        const Interval gain = shift_of(at[k - 1].step_ms, at[k].step_ms);
        // fmin and fmax pass over NaN.
        up_to.mean = std::fmin(up_to.mean, gain.mean / step.mean), up_to.low = std::fmin(up_to.low, gain.low / step.mean), up_to.high = std::fmin(up_to.high, gain.high / step.mean);
      } else {
        Interval share = shift_of(at[worth].step_ms, at[k].step_ms);
        const double reference = location_of(at[worth].step_ms).mean;
        std::snprintf(name, sizeof name, "gain of K = %d over K* = %d at tb = %g ms", k, worth, backward * 1e-3);
        for (double* v : {&share.mean, &share.low, &share.high}) *v /= reference;
        f.measures.push_back(measure_of(name, share, rule.constant("smallest"), "of the step"));
        beyond.mean = std::fmax(beyond.mean, std::abs(share.mean)), beyond.low = std::fmax(beyond.low, share.low), beyond.high = std::fmax(beyond.high, share.high);
      }
    }
  }
  f.measures.push_back(measure_of("least gain of a stage up to K*", up_to, rule.constant("smallest"), "of the step", "gain"));
  f.measures.push_back(measure_of("largest change of the step beyond K*", beyond, rule.constant("smallest"), "of the step", "beyond"));
  f.tables.push_back(std::move(table));
  return f;
}

Rule make_rule(const std::string& kind) {
  Rule rule;
  add_timed_arms(rule, all_arms(kind));
  const std::string how = ", of the step; shift of all repetitions' steps with the 95 % interval of Mann and Whitney's ranks";
  rule.quantities = {{"gain", "what compressing one stage more saves, least over tb and stages up to K*, value and bounds each" + how},
                     {"beyond", "by how much the step with more stages than K* differs from that with K*, largest over tb and stages, of the bounds the largest gain" + how}};
  rule.constants = {{"none", 0, "no gain"}, {"smallest", 0.01, "of the step: the smallest gain worth naming"}, {"too_much", 0.02, "of the step: a gain beyond K* that contradicts the claim"}};
  rule.scatter = {{"gain", "none", "smallest"}, {"beyond", "none", "smallest"}};
  rule.clauses = {{Verdict::not_reproduced, "beyond.low > too_much"}, {Verdict::confirmed, "gain > smallest && gain.low > none && beyond <= smallest"}};
  rule.smallest_effect = "smallest";
  return rule;
}

bool judged(const char* id, const std::string& kind, Basis basis) {
  const Rule rule = make_rule(kind);
  return register_claim({.id = id,
                         .statement = std::string("Compressing the gradients of the first K* = ceil((t_dp - t_dp')/(tb + c)) stages gives all the time, measured") +
                                      (basis == Basis::namespaces ? " between namespaces." : "."),
                         .provenance = "derived; the idea is read (abstract page)",
                         .basis = basis,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {2, 4},
                         .measure = [rule, kind](JudgeContext& context) { return measure(context, rule, kind); },
                         .past = {one_control()},
                         .figure = "optimus_cc_stages"});
}

const bool emulated = judged("optimus_cc.C8b", "emulated", Basis::emulated_link);
const bool namespaces = judged("optimus_cc.C8c", "netns", Basis::namespaces);

}  // namespace
}  // namespace thinwire::claims
