// low_bandwidth_pipeline.C3: into how many micro-batches a step is best cut on the contest's link: sqrt((2P -
// 5) 8 S / (2 L rate)), S the bytes that a step sends one way. Walked (C3); sleeping ranks around the best of
// three widths (C3b).
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

struct Width {
  std::string name;
  int bytes_per_token, predicted;  ///< one way; the best power of two, as the page's table has it
};
const std::vector<Width> widths = {{"bf16", 2048, 64},
                                   {"8 bits and a scale in f32", 1028, 64},
                                   {"4 bits and a scale", 516, 32},
                                   {"subspace in bf16 and an id", 322, 32},
                                   {"subspace in 8 bits and an id", 162, 16}};

std::int64_t message_of(const Width& w, int micro_batches) {
  return tokens_of_a_step / micro_batches * w.bytes_per_token;
}
double optimum(const Width& w) {
  return best_micro_batches(stages, static_cast<double>(tokens_of_a_step) * w.bytes_per_token, contest);
}

Finding measure(JudgeContext&) {
  Table table{"seconds of a step without computing",
              {"m = 8", "16", "32", "64", "128", "best", "sqrt((2P-5) 8S/(2 L rate))"},
              {}};
  int wrong = 0;
  double ratio = 1;
  for (const Width& w : widths) {
    std::vector<double> seconds;
    int best = 0;
    double least = INFINITY;
    for (const int m : {8, 16, 32, 64, 128}) {
      seconds.push_back(walked_step(make_schedule("1f1b", stages, m), contest, message_of(w, m)));
      if (seconds.back() < least) least = seconds.back(), best = m;
    }
    wrong += best != w.predicted;
    ratio = std::max({ratio, optimum(w) / best, best / optimum(w)});
    seconds.insert(seconds.end(), {static_cast<double>(best), optimum(w)});
    table.rows.push_back({w.name, seconds});
  }
  Finding f;
  f.measures = {{"byte widths whose best power of two is not the predicted one", static_cast<double>(wrong),
                 no_number, no_number, 0, "of 5", "wrong"},
                {"formula over the best power of two, or the other way round, the largest", ratio, no_number,
                 no_number, std::sqrt(2), "x", "ratio"}};
  f.tables = {std::move(table)};
  return f;
}

// Of the emulated form: three widths whose best differs, with both neighbours.
constexpr double faster = 20;
constexpr std::int64_t smaller = 64;

std::vector<const Width*> slept_widths() {
  return {&widths[0], &widths[2], &widths[4]};
}

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const Width* w : slept_widths())
    for (const int m : {w->predicted / 2, w->predicted, 2 * w->predicted})
      all.push_back({w->name + ", " + std::to_string(m) + " micro-batches",
                     sleeping(stages, m, message_of(*w, m), {}, faster, smaller, 1)});
  return all;
}

Finding measure_slept(JudgeContext& context) {
  Finding f;
  Table table{"seconds of a step of sleeping ranks", {"half as many", "predicted best", "twice as many"}, {}};
  int wrong = 0;
  const std::vector<NamedRequest> all = requests();
  for (std::size_t i = 0; i < all.size(); i += 3) {
    std::vector<double> seconds;
    for (std::size_t k = 0; k < 3; ++k)
      seconds.push_back(slept(context.cells.run_one(all[i + k].request), faster).seconds);
    wrong += !(seconds[1] < seconds[0] && seconds[1] < seconds[2]);
    table.rows.push_back({slept_widths()[i / 3]->name, seconds});
  }
  f.measures = {{"byte widths where half or twice as many micro-batches are as fast",
                 static_cast<double>(wrong), no_number, no_number, 0, "of 3", "wrong"}};
  f.tables = {std::move(table)};
  return f;
}

const bool walks = register_claim(
    {.id = "low_bandwidth_pipeline.C3",
     .statement = "The best number of micro-batches is sqrt((2P-5) 8S/(2 L rate)).",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule = {.settings = {{"link",
                            "200 Mbit/s and 50 ms, billed to the receiver's one inbound wire; 8 stages, "
                            "1F1B, no computing"},
                           {"tokens", "524288 of a step"},
                           {"bytes", "of a token, one way: 2048, 1028, 516, 322, 162"},
                           {"predicted", "64, 64, 32, 32, 16"}},
              .quantities =
                  {{"wrong",
                    "byte widths whose fastest of 8, 16, 32, 64, 128 micro-batches is not the predicted one"},
                   {"ratio", "formula over that number, or that number over the formula, the largest"}},
              .constants = {{"near", std::sqrt(2), "half a power of two"}},
              .clauses = {{Verdict::pass, "wrong == 0 && ratio <= near"}},
              .otherwise = Verdict::fail},
     .measure = measure});

const bool sleeps = register_claim(
    {.id = "low_bandwidth_pipeline.C3b",
     .statement = "On the emulated link the predicted number of micro-batches beats half and twice as many.",
     .provenance = "derived",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .rule =
         with_arms({.settings = {{"times", "a twentieth of the contest's, messages and rate a 64th"}},
                    .quantities = {{"wrong",
                                    "of three byte widths those where the predicted number of micro-batches "
                                    "is not faster than half and twice as many; medians of three windows"}},
                    .constants = {{"one", 1, "width for which the prediction is wrong"}},
                    .clauses = {{Verdict::confirmed, "wrong < one"}},
                    .otherwise = Verdict::not_reproduced,
          .smallest_effect = "one"},
                   requests()),
     .measure = measure_slept});

}  // namespace
}  // namespace thinwire::claims
