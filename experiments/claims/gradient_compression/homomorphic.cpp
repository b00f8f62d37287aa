// gradient_compression.C3: what is decoded of the sum of sketches is the sum of the tensors. Sparse tensors of 2, 4 and 8 ranks, whose union of supports has a load of at
// most 0.6. The control has a load of 1.5, where medians take the place of sums.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr const char* codec = "sketch:ratio=2,target=0";
const Shape shape{1201, 1001};  // no whole rows of 1024
constexpr double load = 0.6, overload = 1.5;

/// Each of `ranks` tensors holds as many random elements as makes their union's load `of`.
std::vector<Floats> tensors(int ranks, bool integers, double of) {
  const double share = 1 - std::pow(1 - of / 2, 1.0 / ranks);
  std::vector<Floats> all;
  for (int r = 0; r < ranks; ++r) {
    const auto seed = static_cast<std::uint64_t>(r) + 1;
    Floats x = normal_numbers(shape.elements(), seed, "values");
    const Random random(seed, "support");
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (static_cast<double>(random.uniform(i)) >= share) x[i] = 0;
      if (integers) x[i] = std::nearbyint(4 * x[i]);
    }
    all.push_back(std::move(x));
  }
  return all;
}

struct Sums {
  double decoded = 0;         ///< relative L2 from the dense sum
  std::int64_t elements = 0;  ///< that are not the dense sum's
  std::int64_t counters = 0;  ///< of the sum of sketches, that are not those of the sketch of the sum
};
Sums sums_of(int ranks, bool integers, double of) {
  const std::vector<Floats> inputs = tensors(ranks, integers, of);
  const Doubles dense = sum_of(inputs);
  const Reduced reduced = LocalRanks(codec, ranks).reduce(inputs, shape), alone = LocalRanks(codec, 1).reduce({Floats(dense.begin(), dense.end())}, shape);
  Sums s;
  s.decoded = relative_l2(reduced.sum, dense);
  for (std::size_t i = 0; i < dense.size(); ++i) s.elements += double{reduced.sum[i]} != dense[i];
  const Bytes &together = reduced.received.back(), &once = alone.received.back();
  for (std::size_t i = 0; i < together.size(); i += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, &together[i], sizeof a);
    std::memcpy(&b, &once[i], sizeof b);
    s.counters += a != b;
  }
  return s;
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("sums of sketches in this process (seconds)");
  Table table{"decoded sums against dense ones", {"ranks", "load", "relative L2, normal", "elements off, integers", "counters off, integers"}, {}};
  double error = 0;
  std::int64_t elements = 0, counters = 0;
  for (const int ranks : {2, 4, 8}) {
    const Sums normal = sums_of(ranks, false, load), integers = sums_of(ranks, true, load);
    error = std::max(error, normal.decoded);
    elements += integers.elements, counters += integers.counters;
    table.rows.push_back({"", {static_cast<double>(ranks), load, normal.decoded, static_cast<double>(integers.elements), static_cast<double>(integers.counters)}});
  }
  const Sums above = sums_of(2, false, overload);
  table.rows.push_back({"control", {2, overload, above.decoded, no_number, no_number}});
  Finding f;
  f.measures = {{"relative L2 of the decoded from the dense sum, the largest", error, no_number, no_number, 1e-6, "", "error"},
                {"elements of sums of integers that differ", static_cast<double>(elements), no_number, no_number, 0, "", "elements"},
                {"counters that differ between the sum of sketches and the sketch of the sum", static_cast<double>(counters), no_number, no_number, 0, "", "counters"},
                {"control: relative L2 at a load of 1.5", above.decoded, no_number, no_number, 0.1, "", "above"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C3",
     .statement = "The code is homomorphic: the sum of sketches is the sketch of the sum.",
     .provenance = "read: LHC's code",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", codec}, {"ranks", "2, 4, 8, in one process"}, {"tensors", "1201 x 1001, random supports of a rank, their union's load 0.6"}, {"control", "2 ranks at load 1.5"}},
              .quantities = {{"error", "relative L2 of the decoded sum from the dense sum in float64, normal numbers, the largest"},
                             {"elements", "elements of the decoded sum that are not those of the dense sum, small integers, all ranks' numbers together"},
                             {"counters", "counters of the sum of sketches that are not those of the sketch of the sum, small integers"},
                             {"above", "what `error` is at a load of 1.5"}},
              .constants = {{"rounding", 1e-6, "relative L2: sums in f32"}, {"wrong", 0.1, "relative L2: medians"}},
              .clauses = {{Verdict::invalid, "above <= wrong"}, {Verdict::pass, "error <= rounding && elements == 0 && counters == 0"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
