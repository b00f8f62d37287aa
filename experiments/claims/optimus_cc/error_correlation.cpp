// optimus_cc.C10: errors of messages against differences of activations, the check behind the paper's Fig. 11. That mean(e) vanishes says
// little: every branch behind the boundary begins with a layernorm, through which each token's gradient sums to zero over the hidden axis.
#include <cmath>
#include <cstdio>

#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/boundary_probe.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;
constexpr double margin = 0.02, control_bound = 1e-3;

/// Over seeds: mean over pairs of one number.
template <typename Member>
Interval over_seeds(const std::vector<ProbedSeed>& seeds, std::size_t checkpoint, std::size_t activation, Member&& number) {
  std::vector<double> means;
  for (const ProbedSeed& s : seeds) {
    double sum = 0;
    const auto& pairs = s.checkpoints[checkpoint].pairs[activation];
    for (const ErrorPair& p : pairs) sum += number(p);
    means.push_back(sum / static_cast<double>(pairs.size()));
  }
  return interval_of(means);
}

Table figure(const ProbedSeed& seed) {
  Table t{"error and activation, seed " + std::to_string(seed.seed), {"training (%)", "cosine", "mean of e", "mean of dX"}, {}};
  for (std::size_t c = 0; c < seed.checkpoints.size(); ++c)
    for (const ErrorPair& p : seed.checkpoints[c].pairs[0])
      t.rows.push_back({"pair " + std::to_string(t.rows.size() + 1), {static_cast<double>(probe_percent[c]), p.cosine, p.mean_error, p.mean_difference}});
  return t;
}

Outcome judge_seeds(const std::vector<ProbedSeed>& seeds) {
  Outcome o;
  bool inside = true, outside = false;
  double control = 0, largest_cosine = 0, largest_ratio = 0;
  std::vector<double> gap;
  for (const ProbedSeed& s : seeds) {
    gap.push_back(s.unigram - s.loss);
    for (const Checkpoint& c : s.checkpoints) control = std::max(control, c.control);
  }
  Table others{"other activations", {"training (%)", "mean cosine", "low", "high", "RMS of the cosine", "|mean(dX)|/rms(dX)"}, {}};
  for (std::size_t c = 0; c < probe_percent.size(); ++c) {
    const std::string at = " at " + std::to_string(probe_percent[c]) + " %";
    const Interval cosine = over_seeds(seeds, c, 0, [](const ErrorPair& p) { return p.cosine; });
    const Interval error = over_seeds(seeds, c, 0, [](const ErrorPair& p) { return p.error_ratio; });
    const Interval difference = over_seeds(seeds, c, 0, [](const ErrorPair& p) { return p.difference_ratio; });
    const double rms = std::sqrt(over_seeds(seeds, c, 0, [](const ErrorPair& p) { return p.cosine * p.cosine; }).mean);
    o.measures.push_back(measure_of("mean cosine of e_i and X_i - X_{i+1}" + at, cosine, margin, ""));
    o.measures.push_back({"RMS of the cosine" + at, rms, no_number, no_number, no_number, ""});
    o.measures.push_back(measure_of("|mean(e)|/rms(e)" + at, error, margin, ""));
    o.measures.push_back(measure_of("|mean(dX)|/rms(dX)" + at, difference, margin, ""));
    inside = inside && cosine.low > -margin && cosine.high < margin && error.mean < margin && difference.mean < margin;
    outside = outside || cosine.low > margin || cosine.high < -margin || error.low > margin || difference.low > margin;
    largest_cosine = std::max(largest_cosine, std::abs(cosine.mean));
    largest_ratio = std::max({largest_ratio, error.mean, difference.mean});
    for (std::size_t k = 0; k < probe_activations().size(); ++k) {
      const Interval i = over_seeds(seeds, c, k, [](const ErrorPair& p) { return p.cosine; });
      others.rows.push_back({probe_activations()[k], {static_cast<double>(probe_percent[c]), i.mean, i.low, i.high, std::sqrt(over_seeds(seeds, c, k, [](const ErrorPair& p) { return p.cosine * p.cosine; }).mean), over_seeds(seeds, c, k, [](const ErrorPair& p) { return p.difference_ratio; }).mean}});
    }
  }
  o.measures.push_back({"control: cos(e, M) against ||e||/||M||", control, no_number, no_number, control_bound, "largest difference"});
  o.measures.push_back(measure_of("unigram entropy - training loss at the end", interval_of(gap), no_number, "nats per token"));
  o.tables = {figure(seeds.front()), others};
  char text[224];
  if (!(control <= control_bound)) {
    o.because = "the control failed: cos(e, M) is not ||e||/||M||, so e is not the error of M";
    return o;
  }
  o.verdict = inside ? Verdict::confirmed : outside ? Verdict::refuted : Verdict::inconclusive;
  std::snprintf(text, sizeof text, "largest of three checkpoints: mean cosine %.4f, ratio of mean to RMS %.4f (both to stay within 0.02); %zu seeds, %zu pairs each", largest_cosine,
                largest_ratio, seeds.size(), seeds.front().checkpoints.front().pairs.front().size());
  o.because = text;
  return o;
}

const bool registered =
    register_claim({.id = "optimus_cc.C10",
                    .statement = "Errors of messages and differences of successive activations are uncorrelated, with means near zero.",
                    .provenance = "the check [read: megatron/schedules.py], its outcome [recollected]",
                    .rule = "last stage, all backward messages, 210 pairs after 10, 50 and 100 % of training, means over a seed's pairs: CONFIRMED if each mean cosine has its interval "
                            "inside +-0.02 and |mean|/rms of e and of dX are below 0.02 (means over pairs); REFUTED if an interval lies wholly outside; INVALID unless "
                            "cos(e, M) = ||e||/||M||",
                    .basis = Basis::training,
                    .from = Profile::standard,
                    .judge = [](JudgeContext& context) {
                      return with_doubled_seeds(context, [&](int seeds) { return judge_seeds(probed_seeds(context, seeds)); });
                    }});

}  // namespace
}  // namespace thinwire::claims
