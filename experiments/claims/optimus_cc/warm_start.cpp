// optimus_cc.C16: what a message loses when the power iteration starts from the last message's Q, and when it starts anew.
#include <array>
#include <cstdio>
#include <numeric>

#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/boundary_probe.h"

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

/// `first`: which two of the four series (Checkpoint::lost) are compared.
Outcome judge_seeds(const std::vector<ProbedSeed>& seeds, std::size_t first) {
  Outcome o;
  const Interval all = ratio(seeds, first, -1);
  o.measures.push_back(measure_of("mean ||E||/||M|| with reuse of Q over that without", all, 1, "ratio"));
  for (std::size_t c = 0; c < probe_percent.size(); ++c)
    o.measures.push_back(measure_of("the same at " + std::to_string(probe_percent[c]) + " %", ratio(seeds, first, static_cast<int>(c)), 1, "ratio"));
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
  o.verdict = all.high < 1 ? Verdict::confirmed : all.low > 1 ? Verdict::refuted : Verdict::inconclusive;
  char text[200];
  std::snprintf(text, sizeof text, "a message loses %.3f of its norm with reuse, %.3f without: ratio %.3f, 95 %% interval [%.3f, %.3f]; %zu seeds, 3 x 200 sends each", lost[0], lost[1],
                all.mean, all.low, all.high, seeds.size());
  o.because = text;
  return o;
}

const char* const provenance = "read: megatron/p2p_communication.py, a comment that calls reuse of Q essential in most cases";
const char* const rule =
    "200 gradients of the last boundary at each of three checkpoints, the same for both, rank 2, with and without reuse of Q; ratio of the mean ||E||/||M||: CONFIRMED if its upper "
    "bound < 1, REFUTED if its lower bound > 1";

Claim claim(const char* id, const char* statement, std::size_t first) {
  return {.id = id,
          .statement = statement,
          .provenance = provenance,
          .rule = rule,
          .basis = Basis::training,
          .from = Profile::standard,
          .judge = [first](JudgeContext& context) {
            return with_doubled_seeds(context, [&](int seeds) { return judge_seeds(probed_seeds(context, seeds), first); });
          }};
}

// The page leaves open which messages: the bare gradients, or gradients with the residual that the same codec left, as CB sends them.
const bool bare = register_claim(claim("optimus_cc.C16a", "Starting the power iteration from the last message's Q lowers what a message loses, without error propagation.", 2));
const bool with_lep = register_claim(claim("optimus_cc.C16b", "The same where lazy error propagation adds to each message what the last one lost.", 0));

}  // namespace
}  // namespace thinwire::claims
