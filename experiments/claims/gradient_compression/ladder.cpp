// gradient_compression.C11: TAGC's ladder takes the threshold before the first one that leaves out the target, so less is left out than asked for. Made-up gradients of known
// distributions, whose scale runs through a decade (the ladder has three steps in each): what is left out, and the load of the sketch over two independent ranks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"
#include "kernels/codec/codecs/sketch/row_sketch.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

const Shape shape{256, 1024};
constexpr int ranks = 2, scales = 16;
constexpr std::int64_t ratio = 2;
constexpr double first_scale = 1e-3, judged_target = 0.8;

struct Distribution {
  std::string name;
  std::function<double(const Random&, std::uint64_t)> draw;
};
std::vector<Distribution> distributions() {
  std::vector<Distribution> all = {{"Gaussian", [](const Random& random, std::uint64_t i) { return random.normal(i); }},
                                   {"Laplace", [](const Random& random, std::uint64_t i) {
                                      const double u = (random.bits32(i) + 0.5) * 0x1p-32 - 0.5;
                                      return std::copysign(std::log(1 - 2 * std::abs(u)), u);
                                    }}};
  for (const double width : {1.0, 1.5, 2.0}) {
    char name[40];
    std::snprintf(name, sizeof name, "log-normal, log-std %g", width);
    all.push_back({name, [width](const Random& random, std::uint64_t i) { return (i % 2 == 0 ? 1 : -1) * std::exp(width * random.normal(i)); }});
  }
  return all;
}

struct Sparsity {
  double left_out = 0;  ///< of a rank's elements
  double load = 0, unpeeled = 0;
};
std::int64_t ones_in(const Bytes& bits) {
  std::int64_t ones = 0;
  for (const std::byte byte : bits) ones += std::popcount(std::to_integer<std::uint8_t>(byte));
  return ones;
}
Sparsity sparsity_of(const std::string& rule, double target, const std::vector<Floats>& inputs) {
  char codec[80];
  std::snprintf(codec, sizeof codec, "sketch:ratio=%d,target=%g,threshold=%s", static_cast<int>(ratio), target, rule.c_str());
  const Reduced r = LocalRanks(codec, ranks).reduce(inputs, shape);
  const auto n = static_cast<double>(shape.elements());
  std::int64_t own = 0;
  for (const Bytes& index : r.sent.front()) own += ones_in(index);
  // What the codec's decoding leaves to the median, asked of its sketch with what it received.
  std::vector<std::uint64_t> words(RowSketch::index_words(shape.elements()));
  Floats counters(r.received.back().size() / sizeof(float)), out(r.sum.size());
  std::memcpy(words.data(), r.received.front().data(), r.received.front().size());
  std::memcpy(counters.data(), r.received.back().data(), r.received.back().size());
  RowSketch sketch({}, Form::fair);
  const auto unpeeled = sketch.recover(counters.data(), static_cast<std::int64_t>(counters.size()) / RowSketch::lanes, words, out).unpeeled;
  const auto any = static_cast<double>(ones_in(r.received.front()));
  return {1 - static_cast<double>(own) / n / ranks, any / n * ratio, static_cast<double>(unpeeled) / any};
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("sketches of made-up gradients in this process (seconds)");
  Table table{"what ladder and quantile leave out, mean over scales", {"target", "left out, ladder", "least", "largest", "load, ladder", "unpeeled share, ladder", "left out, quantile", "load, quantile", "unpeeled share, quantile"}, {}};
  double ladder_load = INFINITY, quantile_load = 0;
  int above = 0;
  for (const Distribution& d : distributions()) {
    std::vector<Floats> base(ranks, Floats(static_cast<std::size_t>(shape.elements())));
    for (std::size_t r = 0; r < base.size(); ++r) {
      const Random random(r + 1, d.name);
      for (std::size_t i = 0; i < base[r].size(); ++i) base[r][i] = static_cast<float>(d.draw(random, i));
    }
    for (const double target : {0.8, 0.9, 0.95}) {
      Sparsity ladder, quantile;
      double least = 1, largest = 0;
      for (int s = 0; s < scales; ++s) {
        const auto scale = static_cast<float>(first_scale * std::pow(10.0, static_cast<double>(s) / scales));
        std::vector<Floats> inputs = base;
        for (Floats& x : inputs)
          for (float& v : x) v *= scale;
        const Sparsity by_ladder = sparsity_of("ladder", target, inputs);
        ladder.left_out += by_ladder.left_out / scales, ladder.load += by_ladder.load / scales, ladder.unpeeled += by_ladder.unpeeled / scales;
        least = std::min(least, by_ladder.left_out), largest = std::max(largest, by_ladder.left_out);
        above += by_ladder.left_out > target ? 1 : 0;
        if (s == 0) quantile = sparsity_of("quantile", target, inputs);  // it knows no scale
      }
      table.rows.push_back({d.name, {target, ladder.left_out, least, largest, ladder.load, ladder.unpeeled, quantile.left_out, quantile.load, quantile.unpeeled}});
      if (target != judged_target) continue;
      ladder_load = std::min(ladder_load, ladder.load), quantile_load = std::max(quantile_load, quantile.load);
    }
  }
  Finding f;
  f.measures = {{"distributions, targets and scales at which the ladder leaves out more than its target", static_cast<double>(above), no_number, no_number, 0, "", "above"},
                {"mean load with the ladder at target 0.8, the least of distributions", ladder_load, no_number, no_number, 0.82, "", "ladder"},
                {"load with the exact quantile at target 0.8, the largest", quantile_load, no_number, no_number, 0.73, "", "quantile"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C11",
     .statement = "The ladder of thresholds misses its target.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", "sketch:ratio=2, threshold ladder and quantile"},
                           {"ranks", "2 independent ones, in one process"},
                           {"tensors", "256 x 1024; Gaussian, Laplace, log-normal of log-std 1, 1.5 and 2; no captured gradients"},
                           {"scales", "16, evenly over the logarithms of a decade from 1e-3"},
                           {"targets", "0.8, 0.9, 0.95; loads are judged at 0.8"}},
              .quantities = {{"above", "(distribution, target, scale) at which the ladder leaves out more than its target"},
                             {"ladder", "load, (share of elements that any rank keeps) x c, with the ladder at target 0.8, mean over scales, the least of the distributions"},
                             {"quantile", "the same with the exact quantile, the largest"}},
              .constants = {{"peels", 0.82, "load above which no sketch peels"}, {"right", 0.73, "load: 1 - 0.8^2 times 2 is 0.72"}},
              .clauses = {{Verdict::invalid, "quantile > right"}, {Verdict::confirmed, "above == 0 && ladder > peels"}},
              .otherwise = Verdict::not_reproduced},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
