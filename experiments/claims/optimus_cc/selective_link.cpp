// optimus_cc.C8b: on an emulated link: timed steps in which the first K stages compress their gradients.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/timed_arms.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr int stages = 4;

Outcome judge(JudgeContext& context) {
  std::vector<TimedArm> arms;
  for (const double backward : selective_backward_us)
    for (int k = 0; k <= stages; ++k) arms.push_back(selective_arm(backward, k));
  const std::vector<TimedStep> steps = timed_steps(context, arms, repetitions_of(context));
  Outcome o;
  bool falls = true, flat = true, refuted = false;
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
    o.measures.push_back({name, static_cast<double>(worth), no_number, no_number, no_number, "stages"});
    for (int k = 0; k <= stages; ++k) {
      const Interval step = location_of(at[k].step_ms);
      std::snprintf(name, sizeof name, "tb %g ms, K = %d", backward * 1e-3, k);
      table.rows.push_back({name, {backward * 1e-3, static_cast<double>(k), static_cast<double>(worth), step.mean, step.low, step.high, at[k].predicted_ms}});
      if (k == 0) continue;
      if (k <= worth) {
        const Interval gain = shift_of(at[k - 1].step_ms, at[k].step_ms);
        falls = falls && gain.mean > 0.01 * step.mean && !(gain.low <= 0);
      } else {
        const Interval gain = shift_of(at[worth].step_ms, at[k].step_ms);
        const double reference = location_of(at[worth].step_ms).mean;
        std::snprintf(name, sizeof name, "gain of K = %d over K* = %d at tb = %g ms", k, worth, backward * 1e-3);
        Interval share = gain;
        for (double* v : {&share.mean, &share.low, &share.high}) *v /= reference;
        o.measures.push_back(measure_of(name, share, 0.01, "of the step"));
        flat = flat && std::abs(share.mean) <= 0.01;
        refuted = refuted || share.low > 0.02;
      }
    }
  }
  o.tables.push_back(std::move(table));
  o.verdict = refuted ? Verdict::refuted : falls && flat ? Verdict::confirmed : Verdict::inconclusive;
  o.because = refuted ? "a stage beyond K* still shortens the step by more than 2 %"
              : falls && flat ? "the step falls by more than 1 % with every stage up to K* and is flat within 1 % beyond"
              : flat          ? "the step is flat beyond K*, but a stage up to it gains less than 1 % or within its interval nothing"
                              : "beyond K* the step is not flat within 1 %";
  return o;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C8b",
     .statement = "Compressing the gradients of the first K* = ceil((t_dp - t_dp')/(tb + c)) stages gives all the time, measured.",
     .provenance = "derived; the idea is read (abstract page)",
     .rule = "K = 0..P at three settings of t_dp/(tb + c), embedding left out: CONFIRMED if the step falls until K* (each stage > 1 %) and is flat within 1 % beyond; "
             "REFUTED if a larger K is faster by more than 2 % with its interval",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
