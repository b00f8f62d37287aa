// tensor_parallel.C16: TeraPipe's dynamic program against every way to cut a sequence.
#include <cmath>
#include <cstdio>
#include <map>

#include "core/random.h"
#include "experiments/claims/claim.h"
#include "models/parallel/schedule/token_slices.h"

namespace thinwire::claims {
namespace {

constexpr double bound = 1e-9;
constexpr int instances = 200;

double least_of_all_cuts(const SliceTime& time, int length, int stages) {
  double best = INFINITY;
  for (int bits = 0; bits < 1 << (length - 1); ++bits) {  // bit i: a cut behind token i
    std::vector<int> slices = {1};
    for (int i = 0; i < length - 1; ++i)
      if (bits >> i & 1)
        slices.push_back(1);
      else
        ++slices.back();
    best = std::min(best, sliced_step(time, slices, stages));
  }
  return best;
}

/// Section 8 of the page: t(s, c) = a + b s + e s (2c + s).
struct Vector {
  double a, b, e;
  int length, stages;
  double step;
  std::vector<int> slices;
  std::map<int, double> uniform;  ///< T of so many equal slices
  double time(int s, int c) const { return a + b * s + e * s * (2 * c + s); }
};
const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {{4, 2, 0, 8, 4, 56, {2, 2, 2, 2}, {{1, 80}, {2, 60}, {4, 56}, {8, 66}}},
                                          {20, 4, 1, 8, 4, 324, {4, 2, 2}, {{1, 464}, {2, 388}, {4, 344}, {8, 373}}},
                                          {6, 10, 1, 12, 8, 597, {2, 2, 1, 1, 1, 1, 1, 1, 1, 1}, {{1, 2160}, {2, 1494}, {3, 1164}, {4, 981}, {6, 790}, {12, 609}}}};
  return all;
}

Finding measure(JudgeContext&) {
  Finding found;
  int wrong_vectors = 0;
  for (const Vector& v : vectors()) {
    const SliceTime time = [&](int s, int c) { return v.time(s, c); };
    const SlicePlan plan = best_slices(time, v.length, v.stages);
    bool right = std::abs(plan.step - v.step) <= bound && plan.slices == v.slices && std::abs(least_of_all_cuts(time, v.length, v.stages) - v.step) <= bound;
    for (const auto& [count, step] : v.uniform) right = right && std::abs(sliced_step(time, uniform_slices(v.length, count), v.stages) - step) <= bound;
    wrong_vectors += !right;
  }
  double worst = 0;
  for (int n = 0; n < instances; ++n) {
    // Times without any order: neither growing with the tokens nor with the context.
    const Random random(static_cast<std::uint64_t>(n) + 1, "slice times");
    const int length = 1 + static_cast<int>(random.below(0, 12)), stages = 2 + static_cast<int>(random.below(1, 11));
    const SliceTime time = [&](int s, int c) { return 0.5 + 1e-6 * static_cast<double>(random.below(static_cast<std::uint64_t>(100 + 64 * s + c), 1000000)) * s; };
    worst = std::max(worst, std::abs(best_slices(time, length, stages).step - least_of_all_cuts(time, length, stages)));
  }
  found.measures = {{"largest |difference| to the best of all cuts", worst, no_number, no_number, bound, "time units", "worst"},
                {"instances", instances, no_number, no_number, no_number, ""},
                {"vectors of section 8 with another optimum or uniform time", static_cast<double>(wrong_vectors), no_number, no_number, 0, "", "wrong_vectors"}};
  found.note = "the best of all 2^(L-1) cuts in 200 random instances, L up to 12, K 2 to 12, and the three vectors of section 8";
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.C16",
                                        .statement = "The TeraPipe dynamic program is optimal.",
                                        .provenance = "derived; the program is as read in the authors' code",
                                        .basis = Basis::exact,
                                        .rule = {.settings = {{"instances", std::to_string(instances) + " random t(s, c), L up to 12, K from 2 to 12"}},
                                                 .quantities = {{"worst", "|step of the dynamic program's slices - least step of all 2^(L-1) cuts|, the largest of the random instances"},
                                                                {"wrong_vectors", "vectors of section 8 of the page of which slices, step or a uniform time differ by more than the bound"}},
                                                 .constants = {{"bound", bound, "units of time: rounding"}},
                                                 .clauses = {{Verdict::pass, "worst <= bound && wrong_vectors == 0"}},
                                                 .otherwise = Verdict::fail},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
