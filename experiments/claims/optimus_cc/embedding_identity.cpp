// optimus_cc.C6: the fused embedding synchronisation gives the gradient of the two steps. One synchronisation of equal gradients
// (bench_embedding, whose reference is then the two steps, dense in f32), and a training run each (train_gpt). The control is the
// authors' single group over all tensor ranks (docs/papers/optimus_cc.md, "Defects of the released code" 1), which must be told from it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "experiments/claims/context.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using optimus_cc::add_arms, optimus_cc::NamedRequest;

constexpr int most_steps = 100;

struct Sync {
  int tp, dp;
  std::string generator, form;
};

CellRequest sync_request(const Sync& s) {
  CellRequest r;
  r.program = "bench_embedding";
  r.timed = false;
  r.ranks = 2 * s.tp * s.dp;
  r.parameters.set("tp", std::int64_t{s.tp});
  r.parameters.set("dp", std::int64_t{s.dp});
  r.parameters.set("scheme", "fused");
  r.parameters.set("reference", "two_step");
  r.parameters.set("generator", s.generator);
  r.parameters.set("comm-dtype", "f32");
  r.parameters.set("rows", std::int64_t{251});  // a prime: no block of a ring is like another
  r.parameters.set("hidden", std::int64_t{128});
  r.parameters.set("repetitions", std::int64_t{1});
  if (s.form != "fair") r.parameters.set("form", s.form);
  r.tags = {"optimus_cc.C6"};
  return r;
}

CellRequest training_request(const std::string& sync, const std::string& form, int steps) {
  CellRequest r;
  r.program = "train_gpt";
  r.timed = false;
  r.ranks = 8;
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"tp", 2}, {"pp", 2}, {"dp", 2}, {"layers", 4}, {"hidden", 128},
                                                                        {"heads", 4}, {"seq", 64}, {"micro-batch", 2}, {"global-batch", 16}})
    r.parameters.set(name, value);
  r.parameters.set("steps", std::int64_t{steps});
  r.parameters.set("schedule-steps", std::int64_t{most_steps});
  r.parameters.set("comm-dtype", "f32");
  r.parameters.set("embedding-sync", sync);
  if (form != "fair") r.parameters.set("form", form);
  r.tags = {"optimus_cc.C6"};
  return r;
}

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

struct Distance {
  double last = 0, largest = 0;  ///< of the last step's and validation's losses; over all steps
};
Distance distance(const results::CellRecord& a, const results::CellRecord& b) {
  const auto &x = a.training.curve, &y = b.training.curve;
  if (x.empty() || x.size() != y.size()) throw RuntimeFailure("optimus_cc.C6: two training runs have " + std::to_string(x.size()) + " and " +
                                                              std::to_string(y.size()) + " steps; remove their records and run again");
  Distance d;
  for (std::size_t i = 0; i < x.size(); ++i) d.largest = std::max(d.largest, relative(x[i].loss, y[i].loss));
  d.last = std::max(relative(x.back().loss, y.back().loss), relative(x.back().validation_loss, y.back().validation_loss));
  return d;
}

std::vector<Sync> all_syncs() {
  std::vector<Sync> syncs;
  for (const int tp : {1, 2})
    for (const int dp : {1, 2, 4})
      for (const char* generator : {"integers", "gaussian"}) syncs.push_back({tp, dp, generator, "fair"});
  syncs.push_back({2, 2, "integers", "released"});
  return syncs;
}

/// NaN is farther off than any bound.
double distance_of(double x) {
  return std::isnan(x) ? std::numeric_limits<double>::infinity() : x;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<Sync> syncs = all_syncs();
  const double random_bound = rule.constant("random_bound"), loss_bound = rule.constant("loss_bound");
  const int steps = std::min(context.steps(), most_steps);
  std::vector<CellRequest> requests;
  for (const Sync& s : syncs) requests.push_back(sync_request(s));
  requests.push_back(training_request("two_step", "fair", steps));
  requests.push_back(training_request("fused", "fair", steps));
  requests.push_back(training_request("fused", "released", steps));
  const std::vector<results::CellRecord> records = context.cells.run(requests);

  Finding o;
  double integers = 0, random = 0, control = 0;
  Table table{"fused against two steps", {"T", "D", "relative difference"}, {}};
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    const double error = records[i].rows.front().relative_l2;
    const bool released = syncs[i].form == "released";
    double& worst = released ? control : syncs[i].generator == "integers" ? integers : random;
    worst = std::max(worst, distance_of(error));
    table.rows.push_back({(released ? "released, " : "") + syncs[i].generator, {double(syncs[i].tp), double(syncs[i].dp), error}});
  }
  const std::size_t first = syncs.size();
  const Distance fused = distance(records[first + 1], records[first]), released = distance(records[first + 2], records[first]);
  const std::string after = " after " + std::to_string(steps) + " steps";
  o.measures = {{"integer gradients, relative difference", integers, no_number, no_number, 0, "", "integers"},
                {"random gradients, relative difference", random, no_number, no_number, random_bound, "", "random"},
                {"losses" + after + ", relative difference", distance_of(fused.last), no_number, no_number, loss_bound, "", "losses"},
                {"losses of any step, largest relative difference", fused.largest, no_number, no_number, no_number, ""},
                {"control: released group at T = 2, gradient", control, no_number, no_number, random_bound, "", "control"},
                {"control: released group at T = 2, losses" + after, released.last, no_number, no_number, loss_bound, "", "control_losses"}};
  o.tables.push_back(std::move(table));
  return o;
}

Rule make_rule() {
  Rule rule;
  std::vector<NamedRequest> arms;
  for (const Sync& s : all_syncs())
    arms.push_back({"one sum, T " + std::to_string(s.tp) + ", D " + std::to_string(s.dp) + ", " + s.generator + (s.form == "released" ? ", released group" : ""), sync_request(s)});
  arms.push_back({"training, two steps", training_request("two_step", "fair", most_steps)});
  arms.push_back({"training, fused", training_request("fused", "fair", most_steps)});
  arms.push_back({"training, fused, released group", training_request("fused", "released", most_steps)});
  add_arms(rule, arms);
  rule.settings["steps of the trainings"] = std::to_string(most_steps) + " (10 in the profile quick)";
  for (RuleArm& arm : rule.arms) arm.settings.erase("steps");
  rule.quantities = {{"integers", "relative difference of one fused sum of integer gradients from two steps, largest over T and D"},
                     {"random", "the same of Gaussian gradients in float32"},
                     {"losses", "relative difference of the last step's and the validation's losses, fused against two steps, the larger one"},
                     {"control", "what `integers` is for the released code's single group over all tensor ranks, at T = 2"},
                     {"control_losses", "what `losses` is for that group"}};
  rule.constants = {{"random_bound", 1e-6, "relative: another order of float32 sums"}, {"loss_bound", 1e-5, "relative: the same after training"}};
  rule.clauses = {{Verdict::invalid, "control <= random_bound || control_losses <= loss_bound"}, {Verdict::pass, "integers == 0 && random <= random_bound && losses <= loss_bound"}};
  rule.otherwise = Verdict::fail;
  return rule;
}

Claim claim() {
  const Rule rule = make_rule();
  return {.id = "optimus_cc.C6",
          .statement = "Fusing the embedding's two reductions into one changes no number",
          .provenance = "method read in megatron/training.py and megatron/model/distributed.py of the authors' code; identity derived",
          .basis = Basis::exact,
          .from = Profile::quick,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); }};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
