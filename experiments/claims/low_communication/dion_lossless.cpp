// low_communication.C20: four ranks that send Dion's factors move as one that sends whole gradients. The
// matrices are those of a layer of 64, the gradients those of least squares on each rank's own
// data, at the weights of the moment, float64; a whole model does the same in
// tests/models/update/test_dion.cpp.
#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/claims/context.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/threads.h"
#include "models/update/policies/low_rank_momentum.h"

namespace thinwire::claims {
namespace {

using Doubles = std::vector<double>;

constexpr int ranks = 4, steps = 50;
constexpr double fraction = 0.25, mu = 0.95, rate = 0.02, decay = 0.01;
const std::vector<Shape> shapes = {{64, 192}, {64, 64}, {64, 256}, {256, 64}};

double relative(std::span<const double> a, std::span<const double> b) {
  double apart = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) apart += (a[i] - b[i]) * (a[i] - b[i]), all += b[i] * b[i];
  return std::sqrt(apart / all);
}

/// X [examples, m] and Y [examples, n] of one rank: the gradient of |X W - Y|^2 / 2 is X^T (X W - Y).
struct LeastSquares {
  static constexpr std::int64_t examples = 32;
  Shape shape;
  Doubles x, residual, y;
  LeastSquares(const Shape& of, int rank)
      : shape(of),
        x(draw(of.rows(), 2 * rank)),
        residual(static_cast<std::size_t>(examples * of.columns())),
        y(draw(of.columns(), 2 * rank + 1)) {}
  static Doubles draw(std::int64_t width, int stream) {
    const Random random(static_cast<std::uint64_t>(stream), "least squares");
    Doubles values(static_cast<std::size_t>(examples * width));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = random.normal(i) / std::sqrt(static_cast<double>(examples));
    return values;
  }
  Doubles gradient(const Doubles& w) {
    using nn::Transpose;
    const std::int64_t m = shape.rows(), n = shape.columns();
    residual = y;
    nn::gemm<double>(Transpose::no, Transpose::no, examples, n, m, 1, x.data(), m, w.data(), n, -1,
                     residual.data(), n);
    Doubles g(static_cast<std::size_t>(m * n));
    nn::gemm<double>(Transpose::yes, Transpose::no, m, n, examples, 1, x.data(), m, residual.data(), n, 0,
                     g.data(), n);
    return g;
  }
};

Doubles mean(const std::vector<Doubles>& all) {
  Doubles sum(all.front().size(), 0.0);
  for (const Doubles& one : all)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i] / static_cast<double>(all.size());
  return sum;
}

/// Ranks with the momentum that each keeps, and the weights, which all have alike.
struct Group {
  std::vector<LowRankMomentum<double>> of;
  Doubles w;
  bool alike = true;  ///< weights of all ranks, after every step
  Group(int count, const Shape& shape) : w(static_cast<std::size_t>(shape.elements()), 0.0) {
    for (int r = 0; r < count; ++r)
      of.emplace_back(ParameterLayout::whole("w", shape), rank_of_fraction(shape, fraction), mu, 1);
  }
  void step(const std::vector<Doubles>& gradients, const Shape& shape) {
    std::vector<Doubles> left, right;
    for (std::size_t r = 0; r < of.size(); ++r) {
      of[r].add(gradients[r].data());
      of[r].project(left.emplace_back(static_cast<std::size_t>(of[r].long_side() * of[r].rank())).data());
    }
    Doubles p = mean(left);
    of.front().orthonormalise(p.data());
    for (LowRankMomentum<double>& one : of)
      one.back(p.data(), right.emplace_back(static_cast<std::size_t>(one.short_side() * one.rank())).data());
    const Doubles s = mean(right), before = w;
    const double factor = std::sqrt(static_cast<double>(shape.columns()) / static_cast<double>(shape.rows()));
    for (std::size_t r = 0; r < of.size(); ++r) {
      Doubles moved = before;
      of[r].finish(p.data(), s.data(), rate, factor, decay, moved.data());
      alike = alike && (r == 0 || moved == w);
      w = moved;
    }
  }
};

/// Distances after all steps, relative L2.
struct Apart {
  double weights = 0, momentum = 0, own = 0;
  bool alike = false;
};
Apart compared(const Shape& shape) {
  std::vector<LeastSquares> losses;
  for (int r = 0; r < ranks; ++r) losses.emplace_back(shape, r);
  Group factors(ranks, shape), whole(1, shape);
  for (int step = 0; step < steps; ++step) {
    std::vector<Doubles> at_factors, at_whole;
    for (LeastSquares& loss : losses)
      at_factors.push_back(loss.gradient(factors.w)), at_whole.push_back(loss.gradient(whole.w));
    factors.step(at_factors, shape);
    whole.step({mean(at_whole)}, shape);
  }
  std::vector<Doubles> kept;
  for (LowRankMomentum<double>& one : factors.of) {
    const std::span<const double> m = one.momentum().as<double>();
    kept.emplace_back(m.begin(), m.end());
  }
  const std::span<const double> together = whole.of.front().momentum().as<double>();
  return {relative(factors.w, whole.w), relative(mean(kept), together), relative(kept.front(), together),
          factors.alike};
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("50 steps of Dion on four matrices in this process (seconds)");
  Table table{"four ranks with factors against one with whole gradients, relative L2",
              {"rows", "columns", "weights", "mean of M", "M of a rank"},
              {}};
  // A matrix per thread: small products gain nothing from several.
  std::vector<Apart> of(shapes.size());
  parallel_ranges(static_cast<std::int64_t>(shapes.size()), 1, 1,
                  [&](std::int64_t first, std::int64_t last, int) {
                    for (std::int64_t i = first; i < last; ++i)
                      of[static_cast<std::size_t>(i)] = compared(shapes[static_cast<std::size_t>(i)]);
                  });
  double weights = 0, momentum = 0, own = 1;
  bool alike = true;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    weights = std::max(weights, of[i].weights), momentum = std::max(momentum, of[i].momentum),
    own = std::min(own, of[i].own);
    alike = alike && of[i].alike;
    table.rows.push_back({shapes[i].to_string(),
                          {static_cast<double>(shapes[i].rows()), static_cast<double>(shapes[i].columns()),
                           of[i].weights, of[i].momentum, of[i].own}});
  }
  Finding f;
  f.measures = {
      {"weights after 50 steps from those of whole gradients, relative L2, the most", weights, no_number,
       no_number, 1e-8, "", "weights"},
      {"mean of all ranks' M from that of whole gradients, relative L2, the most", momentum, no_number,
       no_number, 1e-8, "", "momentum"},
      {"control: M of one rank from it, the least", own, no_number, no_number, no_number, "", "own"},
      {"weights of all ranks are equal bits after every step (1: yes)", alike ? 1.0 : 0.0, no_number,
       no_number, 1, "", "alike"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "low_communication.C20",
     .statement = "Dion's compressed reduction is lossless.",
     .provenance = "read: Dion's code",
     .basis = Basis::exact,
     .rule = {.settings = {{"matrices", "64 x 192, 64 x 64, 64 x 256, 256 x 64, from zero"},
                           {"gradients",
                            "of least squares, 32 examples on each rank, at the weights of the moment"},
                           {"ranks", "4"},
                           {"steps", "50"},
                           {"dion", "a quarter of the rank, mu 0.95, rate 0.02, decay 0.01, float64"}},
              .quantities = {{"weights",
                              "relative L2 distance of the weights from those of one rank with the mean "
                              "gradient, the most of all matrices"},
                             {"momentum", "the same of the mean of all M"},
                             {"own", "the same of the M of one rank, the least"},
                             {"alike", "1 where the weights of all ranks are equal bits after every step"}},
              .constants = {{"bound", 1e-8, "relative"},
                            {"other", 0.01, "relative: ranks whose M are the same show nothing"},
                            {"yes", 1, "all steps"}},
              .clauses = {{Verdict::invalid, "own < other"},
                          {Verdict::pass, "weights <= bound && momentum <= bound && alike == yes"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
