// optimus_cc.C9: selecting stages beats compressing all of them to the same step time. Times are the event model's, losses of training runs.
#include <array>
#include <cmath>
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/arms.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "models/cost_model/link_model.h"
#include "models/cost_model/step_model.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

// A stage of the profile is one layer: its matrices, and the elements of its vectors (biases, two layernorms).
constexpr std::array<std::pair<double, double>, 4> matrices = {{{hidden, 3 * hidden}, {hidden, hidden}, {hidden, 4 * hidden}, {4 * hidden, hidden}}};
constexpr double vector_elements = (3 + 1 + 4 + 1 + 4) * hidden;

// Chosen so that the sum of gradients outlasts more than one stage's backward pass (K* = 2): at rates above, one compressed stage is enough and
// there is nothing to compare.
const LinkModel link{50, 0.1};           // us, Gbit/s
constexpr double flops_per_us = 25e3;    // of one rank

const Ground ground = two_replicas();

/// PowerSGD's work and its two sums, of all P and of all Q, and one of the vectors; rank 0: everything dense in one. Work of a matrix [n, m]: the products
/// M Q, M^T P and P Q^T, 2 n m r each, Gram-Schmidt, 2 n r^2, and error feedback, two additions per element.
double gradient_us(int rank) {
  double dense = vector_elements, p = 0, q = 0, work = 0;
  for (const auto& [n, m] : matrices) {
    dense += n * m;
    p += rank * n;
    q += rank * m;
    work += 6 * n * m * rank + 2 * n * rank * rank + 2 * n * m;
  }
  const int replicas = ground.replicas;
  if (rank == 0) return link.ring_all_reduce_us(4 * dense, replicas);
  return work / flops_per_us + link.ring_all_reduce_us(4 * p, replicas) + link.ring_all_reduce_us(4 * q, replicas) + link.ring_all_reduce_us(4 * vector_elements, replicas);
}

double forward_us() {
  double weights = 0;
  for (const auto& [n, m] : matrices) weights += n * m;
  return 2 * weights * static_cast<double>(micro_batch * seq) / flops_per_us;
}

double backward_us() {
  return 2 * forward_us();
}

double message_us() {
  return link.message_us(4 * static_cast<double>(micro_batch * seq * hidden));
}

/// Step time when the first `count` stages send their gradients at `rank`.
double step_us(int count, int rank) {
  StepCosts costs;
  costs.stage.assign(stages, {forward_us(), backward_us(), 0, 0});
  for (int s = 0; s < stages; ++s) costs.gradient_us.push_back(gradient_us(s < count ? rank : 0));
  costs.forward_message_us = costs.backward_message_us = [](int, int) { return message_us(); };
  return predict_step(make_schedule("1f1b", stages, ground.micro_batches), costs).step_us;
}

int uniform_rank_for(double time) {
  int best = 1;
  for (int rank = 1; rank < hidden / 2; ++rank)  // beyond, the square matrix is sent dense
    if (std::abs(step_us(stages, rank) - time) < std::abs(step_us(stages, best) - time)) best = rank;
  return best;
}

/// Nearest rank, and of equally good ones the profile's: with as many stages as it takes, time no longer depends on the others' rank.
int matched_rank(double time) {
  const int best = uniform_rank_for(time);
  return std::abs(step_us(stages, gradient_rank) - time) <= std::abs(step_us(stages, best) - time) ? gradient_rank : best;
}

/// Which K a claim asks about; 0: the mean over all of them.
std::vector<int> counts(int k) {
  return k > 0 ? std::vector{k} : std::vector{1, 2, 3};
}
static_assert(stages == 4);

/// Arms: dense, then for each K the first K stages, and all stages at the rank that matched_rank() gives.
Rule make_rule(int asked) {
  std::vector<Arm> arms = {dense()};
  for (const int k : counts(asked)) {
    arms.push_back(selective(k, gradient_rank));
    arms.push_back({"uniform rank R for K = " + std::to_string(k), {{"compress.dp_gradient", "powersgd:rank=R+ef, R the one with the modelled step time nearest to that of K selected stages"}}});
  }
  Rule rule = training_rule(ground, arms);
  rule.settings["modelled link"] = digits(link.latency_us) + " us, " + digits(link.gbps) + " Gbit/s";
  rule.settings["modelled computing"] = digits(flops_per_us) + " operations per us of a rank, of model and codec alike";
  rule.quantities.push_back({"gain", std::string("final validation loss of the uniform arm less that of selected stages, nats per token, ") + (asked > 0 ? "" : "mean over K = 1 to 3 of one seed, ") +
                                         "paired over seeds, 95 % interval by Student's t"});
  rule.constants.insert(rule.constants.end(), {{"none", 0, "nats per token: no gain"}, smallest_gain(), resolution()});
  rule.scatter = {{"gain", "none", "resolution"}};
  rule.clauses.push_back({Verdict::confirmed, "gain.low > none && gain >= smallest"});
  rule.clauses.push_back({Verdict::direction_only, "gain.low > none"});
  rule.clauses.push_back({Verdict::not_reproduced, "gain.high < none"});
  rule.smallest_effect = "smallest";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule, int asked) {
  Finding f;
  std::vector<Arm> arms = {rule.arms[0]};
  Table times{"step time by the event model", {"stages K", "SC (ms)", "uniform rank", "uniform (ms)"}, {}};
  for (const int k : counts(asked)) {
    const double time = step_us(k, gradient_rank);
    const int rank = matched_rank(time);
    arms.push_back(selective(k, gradient_rank));
    arms.push_back(selective(stages, rank));
    times.rows.push_back({arms[arms.size() - 2].name, {1.0 * k, time / 1e3, 1.0 * rank, step_us(stages, rank) / 1e3}});
    f.measures.push_back({"K = " + std::to_string(k) + ": uniform arm's time over SC's (rank " + std::to_string(rank) + ")", step_us(stages, rank) / time, no_number, no_number, 1, "ratio"});
  }
  const int enough = stages_worth_compressing(gradient_us(0), gradient_us(gradient_rank), backward_us() + message_us(), stages);
  f.measures.push_back({"K* at this link", 1.0 * enough, no_number, no_number, no_number, "stages"});
  const int seeds = context.seeds();
  const std::vector<std::vector<double>> of = losses(context, ground, arms, seeds);
  const std::size_t pairs = counts(asked).size();
  std::vector<double> pooled(static_cast<std::size_t>(seeds), 0.0), zero(pooled);
  for (std::size_t k = 0; k < pairs; ++k) {
    const std::vector<double>&sc = of[1 + 2 * k], &uniform = of[2 + 2 * k];
    if (pairs > 1) f.measures.push_back(measure_of("G_" + std::to_string(k + 1) + " = L(uniform) - L(SC)", paired_interval(sc, uniform), no_number, "nats per token"));
    for (std::size_t i = 0; i < pooled.size(); ++i) pooled[i] += (uniform[i] - sc[i]) / static_cast<double>(pairs);
  }
  f.measures.push_back(measure_of(asked > 0 ? "G_" + std::to_string(asked) + " = L(uniform) - L(SC)" : "mean of G_K over K", paired_interval(zero, pooled), rule.constant("none"), "nats per token", "gain"));
  for (Measure& control : control_measures(context, ground, arms, of)) f.measures.push_back(std::move(control));
  f.tables = tables_of(context, ground, arms, seeds);
  f.tables.push_back(times);
  char text[160];
  std::snprintf(text, sizeof text, "at equal modelled time (%g Gbit/s, K* = %d), ", link.gbps, enough);
  f.note = text + ground.name();
  return f;
}

bool judged(const std::string& part, int asked) {
  const Rule rule = make_rule(asked);
  std::vector<PastChange> past = changes_of_training();
  past.push_back({"2026-11-22", "a gain must be 0.005 nat to be CONFIRMED; a smaller one is DIRECTION ONLY", "every claim names the smallest effect worth naming"});
  past.push_back({"2026-11-23", "equal time counts the work of the codec, and each K is judged apart beside their mean; profile full", "a rank that costs more computing is no equal time"});
  const std::string statement = "Compressing the gradients of selected stages keeps quality better than compressing all stages to the same step time";
  return register_claim({.id = "optimus_cc.C9" + part,
                         .statement = statement + (asked > 0 ? ": K = " + std::to_string(asked) + " stages." : "."),
                         .provenance = "recollected; \"reduces the error\" read: the paper's abstract page",
                         .basis = Basis::training,
                         .from = Profile::full,
                         .rule = rule,
                         .seeds = ground.seeds(),
                         .measure = [rule, asked](JudgeContext& context) { return measure(context, rule, asked); },
                         .past = past,
                         .figure = "optimus_cc_uniform"});
}

const bool mean = judged("", 0);
const bool one_stage = judged("a", 1);
const bool two_stages = judged("b", 2);
const bool three_stages = judged("c", 3);

}  // namespace
}  // namespace thinwire::claims
