// low_bandwidth_pipeline.C19: how the scale of a block of 32 is chosen decides the error of microscaling formats (docs/papers/low_bandwidth_pipeline.md, "MX and NVFP4").
#include <cmath>
#include <map>

#include "core/random.h"
#include "experiments/claims/activation_compression/cells/sent.h"
#include "experiments/claims/context.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr std::int64_t rows = 256, columns = 1024;
const std::vector<std::string> elements = {"e4m3", "e5m2", "e3m2", "e2m1"}, rules = {"floor", "ceil", "even", "rceil"};

struct Distribution {
  std::string name;
  Floats numbers;
};

/// Normal; Student's t with 4 degrees of freedom (a normal over the root of a mean of four squares); normal with 1 % of it times 20.
std::vector<Distribution> distributions() {
  const Floats normal = normal_numbers(rows * columns, "numbers"), squares = normal_numbers(4 * rows * columns, "squares");
  Floats t = normal, outliers = normal;
  const Random random(19, "outliers");
  for (std::size_t i = 0; i < t.size(); ++i) {
    double mean = 0;
    for (std::size_t k = 0; k < 4; ++k) mean += double{squares[4 * i + k]} * squares[4 * i + k] / 4;
    t[i] = static_cast<float>(t[i] / std::sqrt(mean));
    if (random.uniform(i) < 0.01f) outliers[i] *= 20;
  }
  return {{"normal", normal}, {"Student's t (4)", t}, {"1 % times 20", outliers}};
}

Finding measure(JudgeContext&) {
  Finding found;
  double rceil = 0, even = 0, ceil = INFINITY;
  for (const Distribution& d : distributions()) {
    Table table{"square error over the square of the numbers (1e-4), " + d.name, rules, {}};
    for (const std::string& element : elements) {
      std::map<std::string, double> error;
      table.rows.push_back({element, {}});
      for (const std::string& rule : rules) {
        error[rule] = square_error(send("mx:element=" + element + ",scale=" + rule, d.numbers, Shape{rows, columns}).decoded, d.numbers);
        table.rows.back().values.push_back(1e4 * error[rule]);
      }
      if (element != "e2m1") {
        rceil = std::max(rceil, error["rceil"] / error["floor"]);
        continue;
      }
      even = std::max(even, error["even"] / error["floor"]);
      for (const char* other : {"floor", "even", "rceil"}) ceil = std::min(ceil, error["ceil"] / error[other]);
    }
    found.tables.push_back(std::move(table));
  }
  found.measures = {{"error of rceil over floor, largest of e4m3, e5m2, e3m2", rceil, no_number, no_number, 1, "ratio", "rceil"},
                    {"error of even over floor, e2m1, largest", even, no_number, no_number, 1, "ratio", "even"},
                    {"error of ceil over any other, e2m1, least", ceil, no_number, no_number, 1, "ratio", "ceil"}};
  return found;
}

const bool registered =
    register_claim({.id = "low_bandwidth_pipeline.C19",
                    .statement = "The rounding of a block's scale decides: round up for e4m3, e5m2, e3m2; to even for e2m1.",
                    .provenance = "derived",
                    .basis = Basis::exact,
                    .rule = {.settings = {{"numbers", "256 x 1024 of a normal distribution, of Student's t with 4 degrees of freedom, and normal with 1 % times 20"}, {"codec", "mx, blocks of 32"}},
                             .quantities = {{"rceil", "square error with scale rule rceil over that with floor, largest over e4m3, e5m2, e3m2 and the three distributions"},
                                            {"even", "of e2m1 with even over floor, largest of the three"},
                                            {"ceil", "of e2m1 with ceil over each other rule, least of the three"}},
                             .constants = {{"one", 1, "the same error"}},
                             .clauses = {{Verdict::pass, "rceil <= one && even <= one && ceil > one"}},
                             .otherwise = Verdict::fail},
                    .measure = measure});

}  // namespace
}  // namespace thinwire::claims
