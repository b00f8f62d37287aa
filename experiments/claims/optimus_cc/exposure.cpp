// optimus_cc.C5 by the event model: what epilogue-only compression saves, and which share of the exposed backward traffic it is.
#include <algorithm>
#include <cstdio>

#include "experiments/claims/claim.h"
#include "models/parallel/channels/epilogue.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

constexpr int stages = 4, micro_batches = 16;
constexpr double forward = 1, backward = 3, ratio = 42;

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

Outcome judge_saving(JudgeContext&) {
  Outcome o;
  bool exact = true;
  for (const double message : {0.1, 0.3, 1.0}) {
    const Times t = times(message, SendMode::eager);
    const double expected = (stages - 1) * (message - message / ratio), saving = t.none - t.epilogue;
    char name[64];
    std::snprintf(name, sizeof name, "saving at c/tf = %g over (P-1)(c-c')", message);
    o.measures.push_back({name, saving / expected, no_number, no_number, 1, "ratio"});
    exact = exact && std::abs(saving / expected - 1) < 1e-9;
  }
  o.verdict = exact ? Verdict::pass : Verdict::fail;
  o.because = exact ? "the model saves (P-1)(c-c') at every ratio of message to computing" : "the model's saving differs from (P-1)(c-c')";
  return o;
}

Outcome judge_share(JudgeContext&) {
  Outcome o;
  double least = 1, most = 0;
  for (const double message : {0.1, 0.3, 1.0}) {
    const Times t = times(message, SendMode::eager);
    const double share = (t.none - t.epilogue) / (t.none - t.all);
    char name[64];
    std::snprintf(name, sizeof name, "share at c/tf = %g", message);
    o.measures.push_back({name, share, no_number, no_number, 0.8, ""});
    least = std::min(least, share);
    most = std::max(most, share);
  }
  o.verdict = least >= 0.8 ? Verdict::confirmed : most <= 0.5 ? Verdict::refuted : Verdict::inconclusive;
  char text[192];
  std::snprintf(text, sizeof text, "the epilogue is %.3f to %.3f of what compressing all backward traffic saves, at P = 4, M = 16 (expected 3/14 = 0.214): %s", least, most,
                o.verdict == Verdict::refuted ? "most of the exposed traffic lies in the steady state" : "see the rule");
  o.because = text;
  return o;
}

const bool saving = register_claim({.id = "optimus_cc.C5a",
                                    .statement = "Epilogue-only compression shortens a strict 1F1B step by (P-1)(c-c').",
                                    .provenance = "derived",
                                    .rule = "PASS if the event model saves exactly that, c/tf in {0.1, 0.3, 1}, P = 4, M = 16, buffered sends",
                                    .basis = Basis::event_model,
                                    .judge = judge_saving});
const bool share = register_claim({.id = "optimus_cc.C5b",
                                   .statement = "Only the epilogue's backward traffic is exposed.",
                                   .provenance = "recollected",
                                   .rule = "share x = (T_none - T_epilogue)/(T_none - T_all): CONFIRMED if x >= 0.8, REFUTED if x <= 0.5 at every c/tf",
                                   .basis = Basis::event_model,
                                   .judge = judge_share});

}  // namespace
}  // namespace thinwire::claims
