// gradient_compression.C12: what a threshold drops is sent later where a residual keeps it. A gradient that does not change, on each of two ranks another one, through TAGC's sketch
// for 500 steps: the mean of what was delivered against the mean gradient, with error feedback and without. The load is one at which all is peeled: what a median gets wrong is in
// no residual, so it stays wrong, as the settings beside it show: TAGC's own target, and a message of few rows, of which some meet in all their buckets
// (docs/papers/gradient_compression.md, "Sketches").
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr int ranks = 2, steps = 500, steps_without = 5;  ///< without a residual every step delivers the same

struct Setting {
  std::int64_t rows;
  double target;
};
constexpr Setting judged{512, 0.85};
const std::vector<Setting> beside = {{512, 0.8}, {128, 0.85}};

/// Relative L2 of the mean of all updates so far from the mean gradient, at the steps `at`, of which the last is the end.
std::vector<double> distances(const Setting& s, bool residual, const std::vector<int>& at) {
  const Shape shape{s.rows, 1024};
  char codec[60];
  std::snprintf(codec, sizeof codec, "sketch:ratio=2,target=%g%s", s.target, residual ? "+ef" : "");
  LocalRanks sum(codec, ranks);
  std::vector<Floats> gradients;
  for (std::uint64_t r = 1; r <= ranks; ++r) gradients.push_back(normal_numbers(shape.elements(), r, "gradient"));
  const Doubles expected = sum_of(gradients);
  Doubles delivered(expected.size(), 0.0);
  std::vector<double> result;
  for (int step = 1; step <= at.back(); ++step) {
    const Floats arrived = sum.reduce(gradients, shape, step).sum;
    for (std::size_t i = 0; i < arrived.size(); ++i) delivered[i] += double{arrived[i]};
    if (std::find(at.begin(), at.end(), step) == at.end()) continue;
    double wrong = 0, all = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double d = delivered[i] / step - expected[i];
      wrong += d * d, all += expected[i] * expected[i];
    }
    result.push_back(std::sqrt(wrong / all));
  }
  return result;
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("500 steps of a sketch in this process (seconds)");
  const std::vector<int> at = {1, 5, 20, 100, steps};
  Table table{"mean update against a constant gradient, relative L2", {"rows", "target", "step", "with the residual"}, {}};
  const auto follow = [&](const Setting& s) {
    const std::vector<double> with = distances(s, true, at);
    for (std::size_t i = 0; i < at.size(); ++i) table.rows.push_back({"", {static_cast<double>(s.rows), s.target, static_cast<double>(at[i]), with[i]}});
    return with.back();
  };
  Finding f;
  f.measures = {{"relative L2 of the mean update with the residual", follow(judged), no_number, no_number, 0.01, "", "with"},
                {"the same without it", distances(judged, false, {steps_without}).back(), no_number, no_number, 0.01, "", "without"}};
  if (context.profile >= Profile::standard)
    for (const Setting& s : beside) {
      char name[90];
      std::snprintf(name, sizeof name, "beside it: with the residual, %d rows, target %g", static_cast<int>(s.rows), s.target);
      f.measures.push_back({name, follow(s), no_number, no_number, no_number, ""});
    }
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C12",
     .statement = "Dropped values are not lost: the residual brings them later.",
     .provenance = "derived; read: TAGC's code",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", "sketch:ratio=2,target=0.85, with +ef and without"},
                           {"ranks", "2, in one process: a load of 0.56, at which all is peeled"},
                           {"gradient", "512 x 1024, normal, constant, on each rank another"},
                           {"steps", "500; without a residual 5, which are alike"},
                           {"beside it", "from the profile standard on: 512 rows at target 0.8, 128 rows at 0.85"}},
              .quantities = {{"with", "relative L2 of the mean of all updates from the mean gradient, with the residual"}, {"without", "the same without it"}},
              .constants = {{"same", 0.01, "relative L2"}},
              .clauses = {{Verdict::confirmed, "with <= same && without > same"}},
              .otherwise = Verdict::not_reproduced},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
