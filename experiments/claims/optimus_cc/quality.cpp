// optimus_cc.C1: low-rank compression of backward messages with lazy error propagation keeps the loss.
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

Outcome judge_arm(JudgeContext& context, const Arm& arm) {
  return with_doubled_seeds(context, [&](int seeds) {
    const std::vector<Arm> arms = {dense(), arm};
    const std::vector<std::vector<double>> of = losses(context, arms, seeds);
    const Interval difference = paired_interval(of[0], of[1]);
    Outcome o;
    o.measures = {measure_of("L(" + arm.name + ") - L(dense)", difference, delta, "nats per token"),
                  measure_of("L(dense)", interval_of(of[0]), no_number, "nats per token")};
    o.tables = tables_of(context, arms, seeds);
    o.because = invalid_because(of[0], difference, delta);
    if (!o.because.empty()) return o;
    o.verdict = difference.high < delta ? Verdict::confirmed : difference.low > delta ? Verdict::refuted : Verdict::inconclusive;
    char text[160];
    std::snprintf(text, sizeof text, "the loss changes by %+.4f nat, 95 %% interval [%+.4f, %+.4f], %d seeds, %d steps, against the margin %.2f", difference.mean,
                  difference.low, difference.high, seeds, context.steps(), delta);
    o.because = text + remark_on_scatter(difference);
    return o;
  });
}

const char* const rule = "Delta = L(arm) - L(none), paired over seeds: CONFIRMED if its upper bound < 0.02 nat, REFUTED if its lower bound > 0.02 nat";

const bool epilogue = register_claim({.id = "optimus_cc.C1a",
                                      .statement = "Low-rank compression of the epilogue's backward messages with lazy error propagation keeps quality (the paper's setting).",
                                      .provenance = "read: the paper's abstract page",
                                      .rule = rule,
                                      .basis = Basis::training,
                                      .from = Profile::standard,
                                      .judge = [](JudgeContext& context) { return judge_arm(context, backward(boundary_rank, Lep::carry, true)); }});
const bool all = register_claim({.id = "optimus_cc.C1b",
                                 .statement = "Low-rank compression of all backward messages with lazy error propagation keeps quality (a stress that the paper does not claim).",
                                 .provenance = "derived from the paper's abstract page",
                                 .rule = rule,
                                 .basis = Basis::training,
                                 .from = Profile::standard,
                                 .judge = [](JudgeContext& context) { return judge_arm(context, backward(boundary_rank, Lep::carry, false)); }});

const bool dropped = register_claim({.id = "optimus_cc.C1c",
                                     .statement = "C1a with the leftover of a mini-batch dropped, which section 2.2 of the page leaves open.",
                                     .provenance = "derived",
                                     .rule = rule,
                                     .basis = Basis::training,
                                     .from = Profile::standard,
                                     .judge = [](JudgeContext& context) { return judge_arm(context, backward(boundary_rank, Lep::drop, true)); }});
const bool warmed = register_claim({.id = "optimus_cc.C1d",
                                    .statement = "C1a after a tenth of the steps without compression.",
                                    .provenance = "derived",
                                    .rule = rule,
                                    .basis = Basis::training,
                                    .from = Profile::standard,
                                    .judge = [](JudgeContext& context) {
                                      return judge_arm(context, warmed_up(backward(boundary_rank, Lep::carry, true), context.steps() / 10));
                                    }});
const bool unprotected = register_claim({.id = "optimus_cc.C1e",
                                         .statement = "C1a without lazy error propagation.",
                                         .provenance = "derived",
                                         .rule = rule,
                                         .basis = Basis::training,
                                         .from = Profile::standard,
                                         .judge = [](JudgeContext& context) { return judge_arm(context, backward(boundary_rank, Lep::off, true)); }});

}  // namespace
}  // namespace thinwire::claims
