// optimus_cc.C10: errors of messages against differences of activations, the check behind the paper's Fig. 11. That mean(e) vanishes says
// little: every branch behind the boundary begins with a layernorm, through which each token's gradient sums to zero over the hidden axis.
#include <cmath>

#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/boundary_probe.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

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

/// "cosine_10": of a quantity at each point of the training.
std::vector<std::string> at_each_point(const std::string& quantity) {
  std::vector<std::string> symbols;
  for (const int percent : probe_percent) symbols.push_back(quantity + "_" + std::to_string(percent));
  return symbols;
}

Rule make_rule() {
  Rule rule = probe_rule();
  rule.settings["pairs"] = "210 at each point, of successive micro-batches of a mini-batch; X is the last stage's input";
  const std::vector<std::string> cosine = at_each_point("cosine"), error = at_each_point("error"), difference = at_each_point("difference");
  for (std::size_t c = 0; c < probe_percent.size(); ++c) {
    const std::string how = " after " + std::to_string(probe_percent[c]) + " % of training, mean over a seed's pairs, mean over seeds, 95 % interval by Student's t";
    rule.quantities.push_back({cosine[c], "cosine of a message's error e_i and X_i - X_{i+1}" + how});
    rule.quantities.push_back({error[c], "|mean| / root mean square of e" + how});
    rule.quantities.push_back({difference[c], "|mean| / root mean square of X_i - X_{i+1}" + how});
    rule.scatter.push_back({cosine[c], "none", "margin"});
  }
  rule.quantities.push_back({"control", "largest |cos(e, M) - ||e|| / ||M|||, which is 0 if e is the error of the message M"});
  rule.constants = {{"none", 0, "uncorrelated"}, {"margin", 0.02, "the smallest correlation, or mean in root mean squares, worth naming"}, {"control_bound", 1e-3, "float32 sums"}};
  rule.clauses.insert(rule.clauses.begin(), {Verdict::invalid, "control > control_bound"});
  rule.clauses.push_back({Verdict::confirmed, of_each("min", cosine, ".low") + " > -margin && " + of_each("max", cosine, ".high") + " < margin && " + of_each("max", error) + " < margin && " +
                                                  of_each("max", difference) + " < margin"});
  rule.clauses.push_back({Verdict::not_reproduced, of_each("max", cosine, ".low") + " > margin || " + of_each("min", cosine, ".high") + " < -margin || " + of_each("max", error, ".low") +
                                                       " > margin || " + of_each("max", difference, ".low") + " > margin"});
  rule.smallest_effect = "margin";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<ProbedSeed> seeds = probed_seeds(context, context.seeds());
  const double margin = rule.constant("margin");
  Finding o;
  double control = 0;
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
    o.measures.push_back(measure_of("mean cosine of e_i and X_i - X_{i+1}" + at, cosine, margin, "", at_each_point("cosine")[c]));
    o.measures.push_back({"RMS of the cosine" + at, rms, no_number, no_number, no_number, ""});
    o.measures.push_back(measure_of("|mean(e)|/rms(e)" + at, error, margin, "", at_each_point("error")[c]));
    o.measures.push_back(measure_of("|mean(dX)|/rms(dX)" + at, difference, margin, "", at_each_point("difference")[c]));
    for (std::size_t k = 0; k < probe_activations().size(); ++k) {
      const Interval i = over_seeds(seeds, c, k, [](const ErrorPair& p) { return p.cosine; });
      others.rows.push_back({probe_activations()[k], {static_cast<double>(probe_percent[c]), i.mean, i.low, i.high, std::sqrt(over_seeds(seeds, c, k, [](const ErrorPair& p) { return p.cosine * p.cosine; }).mean), over_seeds(seeds, c, k, [](const ErrorPair& p) { return p.difference_ratio; }).mean}});
    }
  }
  o.measures.push_back({"control: cos(e, M) against ||e||/||M||", control, no_number, no_number, rule.constant("control_bound"), "largest difference", "control"});
  o.measures.push_back(measure_of("unigram entropy - training loss at the end", interval_of(gap), no_number, "nats per token"));
  o.tables = {figure(seeds.front()), others};
  o.measures.push_back(learned_measure(seeds));
  o.note = std::to_string(seeds.front().checkpoints.front().pairs.front().size()) + " pairs each";
  return o;
}

Claim claim() {
  const Rule rule = make_rule();
  return {.id = "optimus_cc.C10",
          .statement = "Errors of messages and differences of successive activations are uncorrelated, with means near zero.",
          .provenance = "the check [read: megatron/schedules.py], its outcome [recollected]",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {5, 10},
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .past = {one_control()},
          .figure = "optimus_cc_errors"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
