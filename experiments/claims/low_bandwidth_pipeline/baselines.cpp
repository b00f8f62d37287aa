// low_bandwidth_pipeline.C1: the speedrun's meter reproduces both published step times: walked (C1), and by
// sleeping ranks on the emulated link of that name, all times a twentieth (C1b).
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

double walked(const Baseline& b, const Wire& wire, const Passes& passes) {
  return walked_step(make_schedule("1f1b", stages, b.micro_batches), wire, b.message_bytes, passes);
}
double distance(const Baseline& b, double seconds) {
  return seconds / b.measured - 1;
}

/// The same step in so many micro-batches.
Baseline cut(Baseline b, int micro_batches) {
  const double longer = static_cast<double>(b.micro_batches) / micro_batches;
  b.message_bytes = std::llround(static_cast<double>(b.message_bytes) * longer),
  b.micro_batches = micro_batches;
  for (double* pass :
       {&b.passes.forward, &b.passes.backward, &b.passes.last_forward, &b.passes.last_backward})
    *pass *= longer;
  return b;
}

Finding measure(JudgeContext&) {
  Table table{"steps of the two records",
              {"message times", "2m + 2P - 5", "without computing (s)", "with computing (s)", "published (s)",
               "distance"},
              {}};
  double off = 0, farthest = 0;
  for (const Baseline& b : baselines()) {
    const double tau = contest.message_time(b.message_bytes), bare = walked(b, contest, {}),
                 step = walked(b, contest, b.passes);
    const int formula = messages_of_1f1b(stages, b.micro_batches);
    off = std::max(off, std::abs(bare / tau - formula));
    if (std::abs(distance(b, step)) > std::abs(farthest)) farthest = distance(b, step);
    table.rows.push_back(
        {b.name, {bare / tau, static_cast<double>(formula), bare, step, b.measured, distance(b, step)}});
  }
  // Each of them must miss a baseline, or the agreement above says nothing about the accounting.
  Table wrong{"what the accounting is not", {"dense (s)", "subspace (s)", "farther distance"}, {}};
  double nearest = INFINITY;
  const auto control = [&](const std::string& name, const Wire& wire, int dense_micro_batches) {
    std::vector<double> seconds;
    double miss = 0;
    for (Baseline b : baselines()) {
      if (b.name == baselines().front().name) b = cut(b, dense_micro_batches);
      seconds.push_back(walked(b, wire, b.passes));
      miss = std::max(miss, std::abs(distance(b, seconds.back())));
    }
    nearest = std::min(nearest, miss);
    wrong.rows.push_back({name, {seconds[0], seconds[1], miss}});
  };
  control("latency that propagates",
          {.rate = contest.rate, .latency = contest.latency, .latency_occupies = false}, 64);
  control("a wire for each neighbour", {.rate = contest.rate, .latency = contest.latency, .shared = false},
          64);
  control("no latency", {.rate = contest.rate}, 64);
  control("dense in 32 micro-batches", contest, 32);
  Finding f;
  f.measures = {{"message times of both steps, from 2m + 2P - 5", off, no_number, no_number, 1e-9,
                 "message times", "off"},
                {"step with computing over the published one - 1, the farther", farthest, no_number,
                 no_number, 0.01, "of the step", "step"},
                {"of four wrong links the one that comes nearest to both records: its farther distance",
                 nearest, no_number, no_number, 0.01, "of the step", "control"}};
  f.tables = {std::move(table), std::move(wrong)};
  return f;
}

const char* const statement =
    "A link that bills latency to the receiver's one inbound wire reproduces both published step times.";
const char* const provenance = "derived from the speedrun's code and records";

const bool walks = register_claim(
    {.id = "low_bandwidth_pipeline.C1",
     .statement = statement,
     .provenance = provenance,
     .basis = Basis::exact,
     .rule =
         {.settings =
              {{"link", "200 Mbit/s and 50 ms, billed to the receiver's one inbound wire; 8 stages, 1F1B"},
               {"records",
                "dense bf16: 64 micro-batches of 16777216 bytes, 100.4750 s; subspace network: 32 of "
                "5275648, 19.8890 s"},
               {"computing",
                "forward and backward of stages 0-6 and 7, 1 : 2: dense 1.66 and 7.92 ms, subspace 4.34 and "
                "18.9 ms; update 20 ms"},
               {"wrong links",
                "latency that propagates; a wire for each neighbour; no latency; dense in 32 micro-batches"}},
          .quantities =
              {{"off",
                "message times of a walked step without computing less 2m + 2P - 5, the farther from 0 of "
                "both records"},
               {"step",
                "walked step with computing over the published one - 1, the farther from 0 of both records"},
               {"control",
                "of four wrong links, with computing, the least of their farther distances from the two "
                "records"}},
          .constants = {{"exact", 1e-9, "message times: rounding"},
                        {"near", 0.01, "of the step: as far as computing is known"}},
          .clauses = {{Verdict::invalid, "control <= near"},
                      {Verdict::pass, "off <= exact && abs(step) <= near"}},
          .otherwise = Verdict::fail},
     .measure = measure});

SleptSteps asleep() {
  constexpr double faster = 20;
  constexpr std::int64_t smaller = 64;
  SleptSteps of;
  of.claim.id = "low_bandwidth_pipeline.C1b";
  of.claim.statement = "Sleeping ranks on the emulated link with meter=inbound reproduce both published step times.";
  of.claim.provenance = provenance;
  of.times = "a twentieth of the contest's, messages and rate a 64th";
  of.step =
      "twenty times the median of three windows over the published step - 1, the farther from 0 of both records";
  of.apart = "largest over smallest of these windows - 1, the larger of both";
  of.table = {"steps of sleeping ranks, of the full link",
              {"measured (s)", "published (s)", "distance", "windows apart"},
              {}};
  of.step_name = "step on the emulated link over the published one - 1, the farther";
  of.apart_name = "largest over smallest of the three windows - 1, the larger";
  of.faster = faster;
  for (const Baseline& b : baselines()) {
    of.cells.push_back(
        {b.name, sleeping(stages, b.micro_batches, b.message_bytes, b.passes, faster, smaller, 3)});
    of.expected.push_back(b.measured);
  }
  return of;
}
const bool sleeps = register_slept(asleep());

}  // namespace
}  // namespace thinwire::claims
