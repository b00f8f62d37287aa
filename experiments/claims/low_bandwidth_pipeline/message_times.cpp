// low_bandwidth_pipeline.C2: a 1F1B step on the contest's link takes 2m + 2P - 5 message times: walked for
// all pairs (C2), by sleeping ranks at six points (C2b).
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

constexpr std::int64_t bytes = 262144;  // of a walk

Finding measure(JudgeContext&) {
  Table table{"message times of a step",
              {"stages", "micro-batches", "1F1B, walked", "2m + 2P - 5", "GPipe, walked"},
              {}};
  double off = 0, control = 0;
  int pairs = 0;
  const double tau = contest.message_time(bytes);
  for (const int p : {2, 3, 4, 5, 6, 8, 16})
    for (int m = p; m <= 128; ++m, ++pairs) {
      const double one = walked_step(make_schedule("1f1b", p, m), contest, bytes) / tau,
                   all = walked_step(make_schedule("gpipe", p, m), contest, bytes) / tau;
      off = std::max(off, std::abs(one - messages_of_1f1b(p, m)));
      if (p > 2) control = std::max(control, std::abs(all - one - 1));
      if (m == p || m == 64)
        table.rows.push_back({"",
                              {static_cast<double>(p), static_cast<double>(m), one,
                               static_cast<double>(messages_of_1f1b(p, m)), all}});
    }
  Finding f;
  f.measures = {
      {"walked message times of 1F1B from 2m + 2P - 5 (m + 1 for two stages), the farthest", off, no_number,
       no_number, 1e-9, "message times", "off"},
      {"GPipe's from one more, the farthest", control, no_number, no_number, 1e-9, "message times",
       "control"},
      {"pairs of stages and micro-batches", static_cast<double>(pairs), no_number, no_number, no_number, ""}};
  f.tables = {std::move(table)};
  return f;
}

// Dense messages of the contest, as in C1b: 36 ms each. Timers and schedulers make a message some 0.08 ms late: windows of messages of 3 ms lay 2.6 % apart.
constexpr double faster = 20;
constexpr std::int64_t slept_bytes = 16777216, smaller = 64;

struct Point {
  int stages, micro_batches;
};
constexpr Point points[] = {{2, 8}, {3, 3}, {4, 4}, {4, 8}, {6, 16}, {8, 8}};

const bool walks = register_claim(
    {.id = "low_bandwidth_pipeline.C2",
     .statement = "A 1F1B step on such a link takes 2m + 2P - 5 message times.",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule = {.settings = {{"stages", "2, 3, 4, 5, 6, 8, 16"},
                           {"micro-batches", "from the number of stages to 128"},
                           {"computing", "none"}},
              .quantities = {{"off",
                              "message times of a walked 1F1B step less 2m + 2P - 5, of two stages less m + "
                              "1, the farthest from 0"},
                             {"control",
                              "message times of a walked GPipe step less those of 1F1B less 1, of three "
                              "stages and more, the farthest from 0"}},
              .constants = {{"exact", 1e-9, "message times: rounding"}},
              .clauses = {{Verdict::invalid, "control > exact"}, {Verdict::pass, "off <= exact"}},
              .otherwise = Verdict::fail},
     .measure = measure});

SleptSteps asleep() {
  SleptSteps of;
  of.claim.id = "low_bandwidth_pipeline.C2b";
  of.claim.statement = "On the emulated link sleeping ranks take 2m + 2P - 5 message times a step.";
  of.claim.provenance = "derived";
  of.times = "a twentieth of the contest's, dense messages and rate a 64th: 36 ms each";
  of.step = "median of three windows over message time x (2m + 2P - 5), or (m + 1), - 1, the farthest from 0 of six points";
  of.apart = "largest over smallest of these windows - 1, the largest";
  of.table = {"message times of sleeping ranks' steps", {"measured", "formula", "distance", "windows apart"}, {}};
  of.step_name = "step over message time x (2m + 2P - 5), - 1, the farthest of six points";
  of.apart_name = "largest over smallest of three windows - 1, the largest";
  of.faster = faster;
  of.unit = contest.message_time(slept_bytes);
  for (const Point& p : points) {
    of.cells.push_back({std::to_string(p.stages) + " stages, " + std::to_string(p.micro_batches) + " micro-batches",
                        sleeping(p.stages, p.micro_batches, slept_bytes, {}, faster, smaller, 3)});
    of.expected.push_back(messages_of_1f1b(p.stages, p.micro_batches));
  }
  return of;
}
const bool sleeps = register_slept(asleep());

}  // namespace
}  // namespace thinwire::claims
