// optimus_cc.C5 by the event model: what epilogue-only compression saves, and which share of the exposed backward traffic it is.
#include <array>
#include <cstdio>

#include "experiments/claims/claim.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "models/parallel/channels/epilogue.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

using optimus_cc::digits, optimus_cc::of_each;

constexpr int stages = 4, micro_batches = 16;
constexpr double forward = 1, backward = 3, ratio = 42;
constexpr double most_of_it = 0.8;
constexpr std::array shares = {0.1, 0.3, 1.0};  ///< c / tf
const std::vector<std::string> saving_symbols = {"saving_01", "saving_03", "saving_1"}, share_symbols = {"share_01", "share_03", "share_1"};

struct Times {
  double none, epilogue, all;
};

Times times(double message, SendMode sends) {
  StepCosts costs;
  costs.stage.assign(stages, {forward, backward, 0, 0});
  costs.gradient_us.assign(stages, 0);
  costs.sends = sends;
  costs.forward_message_us = [=](int, int) { return message; };
  const Schedule schedule = make_schedule("1f1b", stages, micro_batches);
  const auto step = [&](const std::function<bool(int, int)>& compressed) {
    costs.backward_message_us = [&](int sender, int micro) { return compressed(sender, micro) ? message / ratio : message; };
    return predict_step(schedule, costs).step_us;
  };
  return {step([](int, int) { return false; }), step([](int sender, int micro) { return in_epilogue(micro, sender, stages, micro_batches); }),
          step([](int, int) { return true; })};
}

Finding measure_saving(JudgeContext&) {
  Finding f;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double message = shares[i];
    const Times t = times(message, SendMode::eager);
    const double expected = (stages - 1) * (message - message / ratio), saving = t.none - t.epilogue;
    char name[64];
    std::snprintf(name, sizeof name, "saving at c/tf = %g over (P-1)(c-c')", message);
    f.measures.push_back({name, saving / expected, no_number, no_number, 1, "ratio", saving_symbols[i]});
  }
  return f;
}

Finding measure_share(JudgeContext&) {
  Finding f;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double message = shares[i];
    const Times t = times(message, SendMode::eager);
    const double share = (t.none - t.epilogue) / (t.none - t.all);
    char name[64];
    std::snprintf(name, sizeof name, "share at c/tf = %g", message);
    f.measures.push_back({name, share, no_number, no_number, most_of_it, "", share_symbols[i]});
  }
  f.note = "3/14 = 0.214 is expected";
  return f;
}

Rule rule_on(const std::vector<std::string>& symbols, const std::string& what) {
  Rule rule;
  rule.settings = {{"schedule", "1f1b"}, {"P", digits(stages)}, {"M", digits(micro_batches)}, {"tb/tf", digits(backward / forward)}, {"c/c'", digits(ratio)}, {"sends", "buffered"}};
  for (std::size_t i = 0; i < shares.size(); ++i) rule.quantities.push_back({symbols[i], what + " at c/tf = " + digits(shares[i])});
  return rule;
}

Rule saving_rule() {
  Rule rule = rule_on(saving_symbols, "what epilogue-only compression saves of a modelled step over (P-1)(c-c')");
  rule.constants = {{"one", 1, "exactly that"}, {"bound", 1e-9, "rounding of float64 sums: any larger difference is named"}};
  const std::string least = of_each("min", saving_symbols), most = of_each("max", saving_symbols);
  rule.clauses = {{Verdict::confirmed, most + " - one < bound && one - " + least + " < bound"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "bound";
  return rule;
}

Rule share_rule() {
  Rule rule = rule_on(share_symbols, "(T_none - T_epilogue)/(T_none - T_all) of modelled steps");
  rule.constants = {{"most", most_of_it, "of what compressing all backward traffic saves: the smallest share that is called all of it"}, {"half", 0.5, "of it"}};
  rule.clauses = {{Verdict::confirmed, of_each("min", share_symbols) + " >= most"}, {Verdict::not_reproduced, of_each("max", share_symbols) + " <= half"}};
  rule.otherwise = Verdict::direction_only;
  rule.smallest_effect = "most";
  return rule;
}

// Neither is MODEL ONLY: M1 times the same settings, and the model is within 10 % of each step and 20 % of each saving.
const bool saving = register_claim({.id = "optimus_cc.C5a",
                                    .statement = "Epilogue-only compression shortens a strict 1F1B step by (P-1)(c-c').",
                                    .provenance = "derived",
                                    .basis = Basis::event_model,
                                    .rule = saving_rule(),
                                    .measure = measure_saving});
const bool share = register_claim({.id = "optimus_cc.C5b",
                                   .statement = "Only the epilogue's backward traffic is exposed.",
                                   .provenance = "recollected",
                                   .basis = Basis::event_model,
                                   .rule = share_rule(),
                                   .measure = measure_share});

}  // namespace
}  // namespace thinwire::claims
