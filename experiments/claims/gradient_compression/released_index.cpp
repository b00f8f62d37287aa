// gradient_compression.C4: TAGC and LHC add an index of one bit per element over ranks as bytes, where 1 + 1 carries into the neighbour's bit
// (docs/papers/gradient_compression.md, "Defects of the released code" 1). Two ranks keep a share of correlated normal numbers; released and OR-ed index, same elements.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

const Shape shape{1152, 1024};
const std::vector<double> keeps = {0.05, 0.1, 0.2, 0.3}, correlations = {0, 0.3, 0.8};
constexpr double judged_keep = 0.2;

std::vector<Floats> correlated(double correlation) {
  const Floats common = normal_numbers(shape.elements(), 1, "common");
  std::vector<Floats> all;
  for (const std::uint64_t r : {2, 3}) {
    Floats x = normal_numbers(shape.elements(), r, "own");
    const auto a = static_cast<float>(std::sqrt(correlation)), b = static_cast<float>(std::sqrt(1 - correlation));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = a * common[i] + b * x[i];
    all.push_back(std::move(x));
  }
  return all;
}

struct Index {
  double lost = 0, invented = 0;  ///< of the places where a rank kept something
  double cosine = 0;              ///< of the decoded sum to the sum of what was kept
};
Index index_of(const std::vector<Floats>& inputs, double keep, Form form) {
  char codec[80];
  std::snprintf(codec, sizeof codec, "sketch:ratio=2,target=%g,threshold=quantile", 1 - keep);
  const Reduced r = LocalRanks(codec, static_cast<int>(inputs.size()), form).reduce(inputs, shape);
  const Bytes& summed = r.received.front();
  std::int64_t held = 0, lost = 0, invented = 0;
  for (std::size_t i = 0; i < r.sum.size(); ++i) {
    const bool somewhere = std::any_of(r.own.begin(), r.own.end(), [&](const Floats& own) { return own[i] != 0; });
    const bool named = (std::to_integer<int>(summed[i / 8]) >> i % 8 & 1) != 0;
    held += somewhere, lost += somewhere && !named, invented += named && !somewhere;
  }
  const auto share = [&](std::int64_t count) { return static_cast<double>(count) / static_cast<double>(held); };
  return {share(lost), share(invented), cosine(r.sum, sum_of(r.own))};
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("sums of sketches in this process (seconds)");
  Table table{"index of one bit, added and OR-ed", {"keep", "correlation", "lost, added", "invented, added", "cosine, added", "lost, OR", "invented, OR", "cosine, OR"}, {}};
  double lost = 1, cosine = -1, lost_or = 0, cosine_or = 1;
  for (const double correlation : correlations) {
    const std::vector<Floats> inputs = correlated(correlation);
    for (const double keep : keeps) {
      const Index added = index_of(inputs, keep, Form::released), any = index_of(inputs, keep, Form::fair);
      table.rows.push_back({"", {keep, correlation, added.lost, added.invented, added.cosine, any.lost, any.invented, any.cosine}});
      if (keep != judged_keep) continue;
      lost = std::min(lost, added.lost), cosine = std::max(cosine, added.cosine);
      lost_or = std::max(lost_or, any.lost), cosine_or = std::min(cosine_or, any.cosine);
    }
  }
  Finding f;
  f.measures = {{"share of places lost by the added index at keep 20 %, the least of correlations", lost, no_number, no_number, 0.05, "", "lost"},
                {"cosine of the sum at keep 20 %, the largest of correlations", cosine, no_number, no_number, 0.9, "", "cosine"},
                {"share of places lost by the OR-ed index", lost_or, no_number, no_number, 0, "", "lost_or"},
                {"cosine of the sum with the OR-ed index, the least", cosine_or, no_number, no_number, 0.99, "", "cosine_or"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C4",
     .statement = "The released index of one bit per element, added over ranks, is wrong from two ranks on.",
     .provenance = "read: TAGC's and LHC's code; derived (effect)",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", "sketch:ratio=2,threshold=quantile, released and fair form"}, {"ranks", "2, in one process"}, {"tensors", "1152 x 1024, normal, correlation 0, 0.3 and 0.8"}, {"keep", "20 % (the table: 5 to 30 %)"}},
              .quantities = {{"lost", "share of the places where a rank kept something that the added index does not name, the least of the correlations"},
                             {"cosine", "of the decoded sum to the sum of what ranks kept, the largest of the correlations"},
                             {"lost_or", "what `lost` is for the OR-ed index, the largest"},
                             {"cosine_or", "what `cosine` is for the OR-ed index, the least"}},
              .constants = {{"many", 0.05, "of the places"}, {"far", 0.9, "cosine"}, {"near", 0.99, "cosine"}},
              .clauses = {{Verdict::invalid, "lost_or > 0 || cosine_or <= near"}, {Verdict::confirmed, "lost > many && cosine < far"}},
              .otherwise = Verdict::not_reproduced},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
