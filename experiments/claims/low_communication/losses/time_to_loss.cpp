// low_communication.C23: time to the dense run's loss is steps to it, of the small model's losses (the cells of C3, C7
// and C10), times a step's mean time, of the large model's timed cells (those of C22). PowerSGD with error feedback is
// one of them: by bytes it beats DiLoCo at 30 steps a round.
#include <algorithm>
#include <cmath>

#include "experiments/claims/interval.h"
#include "experiments/claims/low_communication/cells/small_model.h"
#include "experiments/claims/low_communication/cells/step_times.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

constexpr int steps = 900, repetitions = 3;
constexpr double slow = 0.1, fast = 10, delta = 0.02;

const std::string sparse = "chunk_topk:k=64,values=codebook2+ef:beta=0.95";
const Trained dense = arm("dense", "adamw"),
              low_rank = arm("PowerSGD, rank 4", "adamw", 1, {{"compress.dp_gradient", "powersgd:rank=4+ef"}}),
              whole = arm("DiLoCo", diloco(), 4),
              fragments = arm("Streaming DiLoCo",
                              "adamw+streaming_diloco:inner_steps=30,rate=0.7,momentum=0.9,fragments=3,overlap=1,"
                              "mixing=0.5,layout=blocks",
                              4),
              two_bits = sparse_loop("SparseLoCo", sparse);

/// Steps of an arm over the dense run's, to the dense run's final loss + delta, which that run reaches; geometric mean
/// over seeds. A run that does not arrive counts as all its steps, fewer than it takes.
struct StepRatio {
  Interval of;
  int censored = 0;  ///< runs that did not arrive
};
StepRatio step_ratio(const std::vector<results::CellRecord>& of_arm, const std::vector<results::CellRecord>& of_dense) {
  std::vector<double> logarithms;
  StepRatio ratio;
  for (std::size_t seed = 0; seed < of_arm.size(); ++seed) {
    const double target = final_loss(of_dense[seed]) + delta, taken = steps_to(target, of_arm[seed]);
    ratio.censored += std::isnan(taken) ? 1 : 0;
    logarithms.push_back(std::log((std::isnan(taken) ? steps : taken) / steps_to(target, of_dense[seed])));
  }
  ratio.of = interval_of(logarithms);
  for (double* value : {&ratio.of.mean, &ratio.of.low, &ratio.of.high}) *value = std::exp(*value);
  return ratio;
}

void add_times(JudgeContext& context, const std::vector<RuleArm>& arms,
               const std::vector<std::vector<results::CellRecord>>& records, Finding& f) {
  std::vector<CellRequest> cells;
  for (const double gbps : {slow, fast})
    for (int r = 0; r < repetitions; ++r)
      for (const RuleArm& a : arms) cells.push_back(timed_cell(timed_method(a.name), gbps, /*overlapped=*/true, r));
  const std::vector<results::CellRecord> timed = context.cells.run(cells);
  for (const results::CellRecord& record : timed)
    if (!measured_well(record)) {
      f.instead = Verdict::skipped;
      f.note = "a link was not measured well: " + reason_of(record);
      return;
    }
  const auto steps_of = [&](std::size_t arm, bool on_fast) {
    std::vector<double> seconds;
    for (std::size_t r = 0; r < repetitions; ++r)
      seconds.push_back(step_time(timed[((on_fast ? repetitions : 0) + r) * arms.size() + arm]).seconds);
    return seconds;
  };
  Table table{"time to the dense run's final loss + 0.02 nats",
              {"steps over dense", "low", "high", "step at 100 Mbit/s (ms)", "time over dense", "step at 10 Gbit/s (ms)",
               "time over dense there", "runs that did not arrive"},
              {}};
  Interval shorter;
  StepRatio of_whole;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const StepRatio ratio = step_ratio(records[a], records[0]);
    const Interval& n = ratio.of;
    const std::vector<double> at_slow = steps_of(a, false), at_fast = steps_of(a, true);
    std::vector<double> over_slow, over_fast, saved;
    for (std::size_t r = 0; r < repetitions; ++r) {
      over_slow.push_back(at_slow[r] / steps_of(0, false)[r]), over_fast.push_back(at_fast[r] / steps_of(0, true)[r]);
      saved.push_back(1 - over_fast.back());
    }
    if (a > 0 && is_larger(interval_of(saved), shorter)) shorter = interval_of(saved);
    const double slow_ratio = interval_of(over_slow).mean, fast_ratio = interval_of(over_fast).mean;
    if (arms[a].name == whole.arm.name) {
      of_whole = ratio;
      for (double* value : {&of_whole.of.mean, &of_whole.of.low, &of_whole.of.high}) *value *= slow_ratio;
    }
    table.rows.push_back({arms[a].name,
                          {n.mean, n.low, n.high, 1e3 * interval_of(at_slow).mean, n.mean * slow_ratio, 1e3 * interval_of(at_fast).mean,
                           n.mean * fast_ratio, static_cast<double>(ratio.censored)}});
  }
  f.measures.push_back(measure_of("DiLoCo's time over dense's at 100 Mbit/s", of_whole.of, 0.2, "", "ratio"));
  f.measures.push_back({"DiLoCo's runs that did not arrive", static_cast<double>(of_whole.censored), no_number, no_number,
                        no_number, "", "censored"});
  f.measures.push_back(measure_of("largest part by which a method's step is shorter than dense's at 10 Gbit/s", shorter, 0.02, "of the step", "shorter"));
  f.tables.push_back(std::move(table));
}

LossClaim claim() {
  LossClaim of;
  of.claim = {
      .id = "low_communication.C23",
      .statement = "Low communication wins time to loss on slow links, and only there.",
      .provenance = "read in spirit: abstracts of 2311.08105, 2501.18512 and 2508.15706",
      .from = Profile::standard,
      .rule = {.settings = {},
               .quantities = {{"ratio",
                               "DiLoCo's time over the dense run's to the dense run's final loss + 0.02 nats, at 100 Mbit/s: "
                               "steps to the first validation at or below it (of a run that does not arrive its 900, fewer "
                               "than it takes), geometric mean over paired seeds with its 95 % interval, times the mean step "
                               "of three timed cells of the large model over dense's (emulated link, latency 50 us, passes of 0.2 s "
                               "stated, gradients beside the backward pass)"},
                              {"censored",
                               "runs of DiLoCo that did not arrive; with any, the ratio says nothing, and only the fast link "
                               "may decide"},
                              {"shorter",
                               "1 - mean step over the dense one's at 10 Gbit/s, of PowerSGD, DiLoCo, Streaming DiLoCo and SparseLoCo "
                               "the largest, over three paired repetitions with its 95 % interval"}},
               .constants = {{"fifth", 0.2, "of dense's time"}, {"small", 0.02, "of the step"}},
               .clauses = {{Verdict::not_decidable, "censored > 0 && shorter.low <= small"},
                           {Verdict::confirmed, "ratio.high <= fifth && shorter.high <= small"},
                           {Verdict::not_reproduced, "ratio.low > fifth || shorter.low > small"}},
               .smallest_effect = "small"},
      .seeds = {3, 5},
      .figure = "replica_losses"};
  of.comparison = small_model("4 replicas, 30 steps apart", 4, steps);
  of.unit = LossUnit::nats;
  set_arms(of, {dense, low_rank, whole, fragments, two_bits});
  of.differences = {loss_difference("lost", whole.arm.name, dense.arm.name)};
  of.more = add_times;
  return of;
}

const bool registered_ = register_loss_claim(claim());

}  // namespace
}  // namespace thinwire::claims
