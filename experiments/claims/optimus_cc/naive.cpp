// optimus_cc.C13: naive compression harms quality, the full stack does not.
#include <algorithm>
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

Outcome judge_seeds(JudgeContext& context, int seeds) {
  Outcome o;
  Interval full, harm;
  std::vector<Arm> arms = {dense(), full_stack()};
  bool harmless_at_all = true;
  std::string tried;
  for (int divisor = 1; divisor <= 4; divisor *= 2) {  // the profile's ranks, half, a quarter
    arms.push_back(naive(std::max(1, boundary_rank / divisor), gradient_rank / divisor));
    const std::vector<std::vector<double>> of = losses(context, arms, seeds);
    full = paired_interval(of[0], of[1]);
    harm = paired_interval(of[0], of.back());
    o.measures.push_back(measure_of("L(" + arms.back().name + ") - L(dense)", harm, delta, "nats per token"));
    tried = arms.back().name;
    harmless_at_all = harmless_at_all && harm.high < delta;
    o.because = invalid_because(of[0], full, delta);
    if (!o.because.empty() || harm.low > delta) break;
  }
  o.measures.push_back(measure_of("L(CB+FE+SC) - L(dense)", full, delta, "nats per token"));
  if (context.profile == Profile::full) {  // not part of the verdict: the other treatment of the residual
    arms.push_back(full_stack(Lep::drop));
    const Interval dropped = paired_interval(losses(context, {dense()}, seeds)[0], losses(context, {arms.back()}, seeds)[0]);
    o.measures.push_back(measure_of("L(" + arms.back().name + ") - L(dense)", dropped, no_number, "nats per token"));
  }
  o.tables = tables_of(context, arms, seeds);
  if (!o.because.empty()) return o;
  if (harm.low > delta && full.high < delta)
    o.verdict = Verdict::confirmed;
  else if (full.low > delta || harmless_at_all)
    o.verdict = Verdict::refuted;
  else
    o.verdict = Verdict::inconclusive;
  char text[240];
  std::snprintf(text, sizeof text, "the full stack changes the loss by %+.4f [%+.4f, %+.4f] nat, %s by %+.4f [%+.4f, %+.4f], %d seeds, %d steps, margin %.2f", full.mean,
                full.low, full.high, tried.c_str(), harm.mean, harm.low, harm.high, seeds, context.steps(), delta);
  o.because = text + remark_on_scatter(full);
  return o;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C13",
     .statement = "Naive compression harms quality, the full stack CB+FE+SC does not.",
     .provenance = "read: the paper's abstract page",
     .rule = "CONFIRMED if L(naive) - L(none) has a lower bound > 0.02 nat and L(full) - L(none) an upper bound < 0.02; REFUTED if full's lower bound > 0.02 or naive's upper "
             "bound < 0.02 at all ranks tried (the profile's, half, a quarter)",
     .basis = Basis::training,
     .from = Profile::standard,
     .judge = [](JudgeContext& context) { return with_doubled_seeds(context, [&](int seeds) { return judge_seeds(context, seeds); }); }});

}  // namespace
}  // namespace thinwire::claims
