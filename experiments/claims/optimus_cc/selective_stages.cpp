// optimus_cc.C8a by the event model: how many first stages must compress their gradients.
#include <array>
#include <cmath>
#include <cstdio>

#include "experiments/claims/claim.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

using optimus_cc::digits;

constexpr int stages = 4, micro_batches = 16;
constexpr double forward = 1, backward = 3, message = 0.3;

/// Times of a sum of gradients, dense and compressed, in forward passes.
constexpr std::array<std::pair<double, double>, 3> sums = {{{10.0, 2.0}, {6.0, 1.5}, {14.0, 1.0}}};

Finding measure(JudgeContext&) {
  Finding f;
  double least = no_number, beyond = no_number;
  for (const auto& [dense, compressed] : sums) {
    const int worth = stages_worth_compressing(dense, compressed, backward + message, stages);
    double before = no_number;
    for (int k = 0; k <= stages; ++k) {
      StepCosts costs;
      costs.stage.assign(stages, {forward, backward, 0, 0});
      costs.forward_message_us = costs.backward_message_us = [](int, int) { return message; };
      for (int s = 0; s < stages; ++s) costs.gradient_us.push_back(s < k ? compressed : dense);
      const double step = predict_step(make_schedule("1f1b", stages, micro_batches), costs).step_us;
      if (k > 0 && k <= worth) least = std::fmin(least, 1 - step / before);  // fmin passes over NaN
      if (k > worth) beyond = std::fmax(beyond, 1 - step / before);
      before = step;
    }
    char name[64];
    std::snprintf(name, sizeof name, "K* for t_dp = %g, t_dp' = %g", dense, compressed);
    f.measures.push_back({name, static_cast<double>(worth), no_number, no_number, no_number, "stages"});
  }
  f.measures.push_back({"least gain of a stage up to K*", least, no_number, no_number, no_number, "of the step", "gain"});
  f.measures.push_back({"largest gain of a stage beyond K*", beyond, no_number, no_number, no_number, "of the step", "beyond"});
  return f;
}

Rule make_rule() {
  Rule rule;
  rule.settings = {{"schedule", "1f1b"}, {"P", digits(stages)}, {"M", digits(micro_batches)}, {"tb/tf", digits(backward / forward)}, {"c/tf", digits(message / forward)}};
  for (const auto& [dense, compressed] : sums)
    rule.arms.push_back({"t_dp " + digits(dense) + " tf, t_dp' " + digits(compressed) + " tf", {}});
  rule.quantities = {{"gain", "share of the modelled step that compressing one stage more saves, least over arms and stages up to K*"},
                     {"beyond", "the same, largest over arms and stages beyond K*"}};
  rule.constants = {{"smallest", 0.01, "of the step: the smallest gain worth naming"}};
  rule.clauses = {{Verdict::not_reproduced, "beyond >= smallest"}, {Verdict::confirmed, "gain > smallest"}};
  rule.otherwise = Verdict::direction_only;
  rule.smallest_effect = "smallest";
  return rule;
}

// Not MODEL ONLY: M1 times sweeps of K on the same schedule, and the model is within 10 % of each step and 20 % of each saving.
const bool registered = register_claim({.id = "optimus_cc.C8a",
                                        .statement = "Compressing the gradients of the first K* = ceil((t_dp - t_dp')/(tb + c)) stages gives all the time.",
                                        .provenance = "derived; the idea is read (abstract page)",
                                        .basis = Basis::event_model,
                                        .rule = make_rule(),
                                        .measure = measure,
                                        .figure = "optimus_cc_stages"});

}  // namespace
}  // namespace thinwire::claims
