// optimus_cc.C8a by the event model: how many first stages must compress their gradients.
#include <cstdio>

#include "experiments/claims/claim.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

constexpr int stages = 4, micro_batches = 16;
constexpr double forward = 1, backward = 3, message = 0.3;

Outcome judge(JudgeContext&) {
  Outcome o;
  bool falls = true, flat = true;
  for (const auto& [dense, compressed] : {std::pair{10.0, 2.0}, {6.0, 1.5}, {14.0, 1.0}}) {
    const int worth = stages_worth_compressing(dense, compressed, backward + message, stages);
    double before = no_number;
    for (int k = 0; k <= stages; ++k) {
      StepCosts costs;
      costs.stage.assign(stages, {forward, backward, 0, 0});
      costs.forward_message_us = costs.backward_message_us = [](int, int) { return message; };
      for (int s = 0; s < stages; ++s) costs.gradient_us.push_back(s < k ? compressed : dense);
      const double step = predict_step(make_schedule("1f1b", stages, micro_batches), costs).step_us;
      if (k > 0 && k <= worth) falls = falls && step < before * 0.99;
      if (k > worth) flat = flat && step > before * 0.99;
      before = step;
    }
    char name[64];
    std::snprintf(name, sizeof name, "K* for t_dp = %g, t_dp' = %g", dense, compressed);
    o.measures.push_back({name, static_cast<double>(worth), no_number, no_number, no_number, "stages"});
  }
  o.verdict = falls && flat ? Verdict::confirmed : flat ? Verdict::inconclusive : Verdict::refuted;
  o.because = falls && flat ? "the step falls by more than 1 % with every stage up to K* and is flat within 1 % beyond"
              : flat        ? "the step is flat beyond K*, but a stage below it gains less than 1 %"
                            : "a stage beyond K* still shortens the step by more than 1 %";
  return o;
}

const bool registered = register_claim({.id = "optimus_cc.C8a",
                                        .statement = "Compressing the gradients of the first K* = ceil((t_dp - t_dp')/(tb + c)) stages gives all the time.",
                                        .provenance = "derived; the idea is read (abstract page)",
                                        .rule = "CONFIRMED if the step falls until K* (each stage > 1 %) and is flat within 1 % beyond; REFUTED if a larger K is faster",
                                        .basis = Basis::event_model,
                                        .judge = judge});

}  // namespace
}  // namespace thinwire::claims
