// optimus_cc.C2: without lazy error propagation the same compression costs more.
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

/// A pilot seed halves the rank until the arm without LEP loses at least 2 eps; 0 when none does.
int rank_that_hurts(JudgeContext& context, bool epilogue_only, Outcome& o) {
  const double baseline = pilot_loss(context, dense());
  for (int rank = boundary_rank; rank >= 1; rank /= 2) {
    const double loss = pilot_loss(context, backward(rank, Lep::off, epilogue_only)) - baseline;
    o.measures.push_back({"pilot: what rank " + std::to_string(rank) + " without LEP loses", loss, no_number, no_number, 2 * eps, "nats per token"});
    if (loss >= 2 * eps) return rank;
  }
  return 0;
}

Outcome judge_mode(JudgeContext& context, bool epilogue_only) {
  Outcome pilot;
  const int rank = rank_that_hurts(context, epilogue_only, pilot);
  if (rank == 0) {
    pilot.verdict = Verdict::inconclusive;
    pilot.because = "too mild: at no rank down to 1 does the arm without LEP lose 2 eps = 0.01 nat in the pilot, so there is nothing that LEP could win back";
    return pilot;
  }
  return with_doubled_seeds(context, [&](int seeds) {
    const std::vector<Arm> arms = {dense(), backward(rank, Lep::carry, epilogue_only), backward(rank, Lep::off, epilogue_only)};
    const std::vector<std::vector<double>> of = losses(context, arms, seeds);
    const Interval gain = paired_interval(of[1], of[2]);
    Outcome o = pilot;
    o.measures.push_back(measure_of("G = L(without LEP) - L(with LEP)", gain, eps, "nats per token"));
    o.measures.push_back(measure_of("L(without LEP) - L(dense)", paired_interval(of[0], of[2]), no_number, "nats per token"));
    o.tables = tables_of(context, arms, seeds);
    o.because = invalid_because(of[0], gain, eps);
    if (!o.because.empty()) return o;
    o.verdict = gain.low > 0 && gain.mean >= eps ? Verdict::confirmed : gain.high < eps ? Verdict::refuted : Verdict::inconclusive;
    char text[160];
    std::snprintf(text, sizeof text, "at rank %d LEP wins back %+.4f nat, 95 %% interval [%+.4f, %+.4f], %d seeds, %d steps", rank, gain.mean, gain.low, gain.high, seeds,
                  context.steps());
    o.because = text + remark_on_scatter(gain);
    return o;
  });
}

const char* const rule =
    "a pilot seed halves the rank until the arm without LEP loses 2 eps = 0.01 nat (else INCONCLUSIVE); G = L(off) - L(on), paired over seeds: CONFIRMED if its "
    "lower bound > 0 and its mean >= 0.005 nat, REFUTED if its upper bound < 0.005 nat";

const bool all = register_claim({.id = "optimus_cc.C2a",
                                 .statement = "Without lazy error propagation quality is worse, all backward messages compressed.",
                                 .provenance = "recollected; the arm without LEP exists [read: ASPLOS23/]",
                                 .rule = rule,
                                 .basis = Basis::training,
                                 .from = Profile::standard,
                                 .judge = [](JudgeContext& context) { return judge_mode(context, false); }});
const bool epilogue = register_claim({.id = "optimus_cc.C2b",
                                      .statement = "Without lazy error propagation quality is worse, the epilogue's backward messages compressed.",
                                      .provenance = "recollected; the arm without LEP exists [read: ASPLOS23/]",
                                      .rule = rule,
                                      .basis = Basis::training,
                                      .from = Profile::standard,
                                      .judge = [](JudgeContext& context) { return judge_mode(context, true); }});

}  // namespace
}  // namespace thinwire::claims
