// gradient_compression.C19: ZeRO++'s sum of gradients in INT4, inside nodes and then across, encodes a contribution twice, whatever the ranks; a ring encodes a partial sum at
// every hop. W ranks in one process, as nodes x ranks of a node, independent normal gradients. The released path, whose result is L times the mean
// (docs/papers/gradient_compression.md, "Defects of the released code" 15), is not built.
#include <algorithm>
#include <cmath>

#include "experiments/claims/gradient_compression/local/local_ranks.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr const char* int4 = "group:bits=4,range=full,group=2048";
const Shape shape{16, 8192};  // a row for each of at most 16 ranks, which each owns
struct Split {
  int nodes, inside;
  int ranks() const { return nodes * inside; }
};
const std::vector<Split> splits = {{2, 2}, {2, 4}, {4, 4}};

/// What the codec makes of x; the scale's groups lie inside a row, so that whole tensors and pieces of rows are coded alike.
Floats coded(Codec& codec, const Floats& x, int step) { return send(codec, x, shape, step).decoded; }
void add(Floats& sum, const Floats& x) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

Floats two_hops(const std::vector<Floats>& gradients, const Split& s) {
  CodecStack stack = make_codec(int4);
  Floats sum(gradients.front().size(), 0.0f);
  for (int node = 0; node < s.nodes; ++node) {
    Floats inside(sum.size(), 0.0f);
    for (int l = 0; l < s.inside; ++l) add(inside, coded(*stack.codec, gradients[static_cast<std::size_t>(node * s.inside + l)], 0));
    add(sum, coded(*stack.codec, inside, 1));
  }
  return sum;
}

/// The piece of rank d goes from d + 1 through all others to d, and is encoded for every hop.
Floats ring(const std::vector<Floats>& gradients) {
  CodecStack stack = make_codec(int4);
  const auto ranks = static_cast<std::int64_t>(gradients.size()), piece = shape.elements() / ranks;
  const Shape part{shape.rows() / ranks, shape.columns()};
  Floats sum;
  for (std::int64_t d = 0; d < ranks; ++d) {
    Floats partial(static_cast<std::size_t>(piece), 0.0f);
    for (std::int64_t hop = 1; hop <= ranks; ++hop) {
      const float* const own = gradients[static_cast<std::size_t>((d + hop) % ranks)].data() + d * piece;
      for (std::size_t i = 0; i < partial.size(); ++i) partial[i] += own[i];
      if (hop < ranks) partial = send(*stack.codec, partial, part, hop).decoded;
    }
    sum.insert(sum.end(), partial.begin(), partial.end());
  }
  return sum;
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("coded sums in this process (seconds)");
  Table table{"relative L2 of a sum in INT4", {"ranks", "two hops", "low", "high", "ring", "low", "high"}, {}};
  std::vector<double> hops, rings;
  for (const Split& s : splits) {
    std::vector<double> of_hops, of_ring;
    for (int seed = 1; seed <= context.seeds(); ++seed) {
      std::vector<Floats> gradients;
      for (int r = 0; r < s.ranks(); ++r) gradients.push_back(normal_numbers(shape.elements(), static_cast<std::uint64_t>(seed), "rank " + std::to_string(r)));
      const Doubles dense = sum_of(gradients);
      of_hops.push_back(relative_l2(two_hops(gradients, s), dense));
      of_ring.push_back(relative_l2(ring(gradients), dense));
    }
    const Interval a = interval_of(of_hops), b = interval_of(of_ring);
    hops.push_back(a.mean), rings.push_back(b.mean);
    table.rows.push_back({std::to_string(s.nodes) + " x " + std::to_string(s.inside), {static_cast<double>(s.ranks()), a.mean, a.low, a.high, b.mean, b.low, b.high}});
  }
  const auto [least, most] = std::minmax_element(hops.begin(), hops.end());
  double grows = INFINITY;
  for (std::size_t i = 1; i < rings.size(); ++i) grows = std::min(grows, rings[i] / rings[i - 1]);
  Finding f;
  f.measures = {{"error of two hops, the largest over the least", *most / *least, no_number, no_number, 1.25, "ratio", "flat"},
                {"error of the ring over that at half the ranks, the least", grows, no_number, no_number, 1.25, "ratio", "grows"},
                {"error of the ring over that of two hops at 16 ranks", rings.back() / hops.back(), no_number, no_number, no_number, "ratio"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C19",
     .statement = "ZeRO++'s gradient collective quantises twice and needs no more.",
     .provenance = "read: DeepSpeed's code",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", int4}, {"ranks", "4, 8, 16 as 2 x 2, 2 x 4, 4 x 4 (nodes x ranks of a node), in one process"}, {"gradients", "16 x 8192, normal, independent"}},
              .quantities = {{"flat", "relative L2 of the sum by two hops, mean over seeds, the largest of 4, 8, 16 ranks over the least"},
                             {"grows", "the same of a ring that encodes at every hop, at 8 over 4 and 16 over 8 ranks, the less"}},
              .constants = {{"band", 1.25, "x: 25 % is the smallest growth worth naming"}},
              .clauses = {{Verdict::confirmed, "flat <= band && grows > band"}},
              .otherwise = Verdict::not_reproduced,
              .smallest_effect = "band"},
     .seeds = {5},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
