// optimus_cc.C16: what a message loses when the power iteration starts from the last message's Q, and when it starts anew.
#include <array>
#include <cstdio>
#include <numeric>

#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/boundary_probe.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// Ratio of the mean losses, warm over cold: of one checkpoint, or (-1) of all sends.
Interval ratio(const std::vector<ProbedSeed>& seeds, std::size_t warm, int checkpoint) {
  std::vector<double> values;
  for (const ProbedSeed& s : seeds) {
    double with = 0, without = 0;
    for (std::size_t c = 0; c < s.checkpoints.size(); ++c)
      if (checkpoint < 0 || static_cast<int>(c) == checkpoint) with += mean(s.checkpoints[c].lost[warm]), without += mean(s.checkpoints[c].lost[warm + 1]);
    values.push_back(with / without);
  }
  return interval_of(values);
}

Rule rule_of(bool propagates) {
  Rule rule = probe_rule();
  rule.settings["sends"] = std::to_string(probe_sends) + " at each point, the same gradients for both";
  rule.settings["messages"] = propagates ? "the gradient and what the same codec lost of the message before" : "the bare gradient";
  rule.arms = {{"reuse of Q", {{"codec", "powersgd:rank=2"}}}, {"new Q", {{"codec", "powersgd:rank=2,warm_start=false"}}}};
  rule.quantities.push_back({"lost", "mean ||E|| / ||M|| over points and sends with reuse of Q over that with a new one; mean over seeds, 95 % interval by Student's t"});
  rule.constants = {{"none", 1, "ratio: reuse changes nothing"}, {"smallest", 0.01, "ratio: the smallest change worth naming"}};
  rule.scatter = {{"lost", "none", "smallest"}};
  rule.clauses.push_back({Verdict::confirmed, "lost.high <= none - smallest"});
  rule.clauses.push_back({Verdict::not_reproduced, "lost.low > none"});
  rule.clauses.push_back({Verdict::direction_only, "lost.high < none"});
  rule.smallest_effect = "smallest";
  return rule;
}

/// `first`: which two of the four series (Checkpoint::lost) are compared.
Finding measure(JudgeContext& context, const Rule& rule, std::size_t first) {
  const std::vector<ProbedSeed> seeds = probed_seeds(context, context.seeds());
  const double none = rule.constant("none");
  Finding o;
  o.measures.push_back(measure_of("mean ||E||/||M|| with reuse of Q over that without", ratio(seeds, first, -1), none, "ratio", "lost"));
  for (std::size_t c = 0; c < probe_percent.size(); ++c)
    o.measures.push_back(measure_of("the same at " + std::to_string(probe_percent[c]) + " %", ratio(seeds, first, static_cast<int>(c)), none, "ratio"));
  std::array<double, 2> lost = {0, 0};
  for (std::size_t c = 0; c < probe_percent.size(); ++c) {
    Table t{"||E||/||M|| per send at " + std::to_string(probe_percent[c]) + " %", {"reuse of Q", "new Q"}, {}};
    for (std::size_t send = 0; send < static_cast<std::size_t>(probe_sends); ++send) {
      std::vector<double> row(2, 0);
      for (const ProbedSeed& s : seeds)
        for (std::size_t k = 0; k < 2; ++k) row[k] += s.checkpoints[c].lost[first + k][send] / static_cast<double>(seeds.size());
      for (std::size_t k = 0; k < 2; ++k) lost[k] += row[k] / (probe_sends * static_cast<double>(probe_percent.size()));
      t.rows.push_back({"send " + std::to_string(send + 1), row});
    }
    o.tables.push_back(t);
  }
  o.measures.push_back(learned_measure(seeds));
  char text[120];
  std::snprintf(text, sizeof text, "a message loses %.3f of its norm with reuse, %.3f without", lost[0], lost[1]);
  o.note = text;
  return o;
}

Claim claim(const char* id, const char* statement, bool propagates) {
  const Rule rule = rule_of(propagates);
  const std::size_t first = propagates ? 0 : 2;
  return {.id = id,
          .statement = statement,
          .provenance = "read: megatron/p2p_communication.py, a comment that calls reuse of Q essential in most cases",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {5, 10},
          .measure = [rule, first](JudgeContext& context) { return measure(context, rule, first); },
          .past = {one_control(), {"2026-11-22", "the loss must fall by 1 % to be CONFIRMED; less is DIRECTION ONLY", "every claim names the smallest effect worth naming"}}};
}

// The page leaves open which messages: the bare gradients, or gradients with the residual that the same codec left, as CB sends them.
const bool bare = register_claim(claim("optimus_cc.C16a", "Starting the power iteration from the last message's Q lowers what a message loses, without error propagation.", false));
const bool with_lep = register_claim(claim("optimus_cc.C16b", "The same where lazy error propagation adds to each message what the last one lost.", true));

}  // namespace
}  // namespace thinwire::claims
