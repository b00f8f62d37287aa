// gradient_compression.C25: a gradient whose sign is wrong in the mean. It is 4 with probability 1/4, else -1: mean 1/4, mean sign -1/2, so on [-1, 1] the minimiser is -1 and
// signSGD climbs to 1. In one dimension the scaled sign loses nothing, so EF-SGD is SGD there; 64 independent copies share a scale. SGD itself is the control.
// Least squares beside it: one random row per step, whose equations have a common solution.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr int steps = 10000, seeds = 3;
constexpr double learning_rate = 0.002;

/// A rule of update: what is sent of a step, and whether that is the step or the gradient.
struct Method {
  std::string name, codec;
  bool sends_steps;
};
const std::vector<Method> methods = {{"SGD", "none", true}, {"signSGD", "sign:scale=none", false}, {"EF-SGD", "sign:scale=l1+ef", true}};

/// One update by `method`: what to subtract.
Floats update(LocalRanks& rank, const Method& method, Floats gradient, double rate, int step) {
  const Shape shape{static_cast<std::int64_t>(gradient.size())};
  const auto factor = static_cast<float>(rate);
  if (method.sends_steps)
    for (float& v : gradient) v *= factor;
  Floats applied = rank.reduce({std::move(gradient)}, shape, step).sum;
  if (!method.sends_steps)
    for (float& v : applied) v *= factor;
  return applied;
}

/// Mean of x over the last quarter of the steps, and over copies.
double position(const Method& method, std::int64_t copies, std::uint64_t seed) {
  LocalRanks rank(method.codec, 1);
  const Random random(seed, "two points");
  Doubles x(static_cast<std::size_t>(copies), 0.0);
  double sum = 0;
  for (int step = 0; step < steps; ++step) {
    Floats gradient(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) gradient[i] = random.uniform(static_cast<std::uint64_t>(step) * x.size() + i) < 0.25f ? 4.0f : -1.0f;
    const Floats applied = update(rank, method, std::move(gradient), learning_rate, step);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = std::clamp(x[i] - double{applied[i]}, -1.0, 1.0);
      if (step >= steps * 3 / 4) sum += x[i];
    }
  }
  return sum / (static_cast<double>(x.size()) * (steps - steps * 3 / 4));
}

/// Loss after all steps over the loss of x = 0, of 64 equations for 32 unknowns.
double least_squares(const Method& method, std::uint64_t seed) {
  constexpr std::int64_t equations = 64, unknowns = 32;
  const Floats a = normal_numbers(equations * unknowns, seed, "rows"), solution = normal_numbers(unknowns, seed, "solution");
  const Random random(seed, "choice");
  Doubles x(unknowns, 0.0);
  const auto residual = [&](std::int64_t row) {
    double r = 0;
    for (std::size_t j = 0; j < x.size(); ++j) r += double{a[static_cast<std::size_t>(row * unknowns) + j]} * (x[j] - double{solution[j]});
    return r;
  };
  const auto loss = [&] {
    double sum = 0;
    for (std::int64_t row = 0; row < equations; ++row) sum += residual(row) * residual(row);
    return sum;
  };
  const double at_start = loss();
  LocalRanks rank(method.codec, 1);
  for (int step = 0; step < steps; ++step) {
    const auto row = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(step), equations));
    const double r = residual(row);
    Floats gradient(unknowns);
    for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] = static_cast<float>(r * double{a[static_cast<std::size_t>(row * unknowns) + j]});
    const Floats applied = update(rank, method, std::move(gradient), learning_rate, step);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] -= double{applied[j]};
  }
  return loss() / at_start;
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("descents on two-point gradients in this process (seconds)");
  Finding f;
  Table positions{"mean x of the last quarter", {"copies", "seed", "SGD", "signSGD", "EF-SGD"}, {}}, losses{"least squares, loss over that at the start", {"seed", "SGD", "signSGD", "EF-SGD"}, {}};
  std::vector<double> lowest(methods.size(), 1), highest(methods.size(), -1);
  for (const std::int64_t copies : {1, 64})
    for (int seed = 1; seed <= seeds; ++seed) {
      std::vector<double> row = {static_cast<double>(copies), static_cast<double>(seed)};
      for (std::size_t m = 0; m < methods.size(); ++m) {
        const double x = position(methods[m], copies, static_cast<std::uint64_t>(seed));
        lowest[m] = std::min(lowest[m], x), highest[m] = std::max(highest[m], x);
        row.push_back(x);
      }
      positions.rows.push_back({"", std::move(row)});
    }
  for (int seed = 1; seed <= seeds; ++seed) {
    std::vector<double> row = {static_cast<double>(seed)};
    for (const Method& method : methods) row.push_back(least_squares(method, static_cast<std::uint64_t>(seed)));
    losses.rows.push_back({"", std::move(row)});
  }
  f.measures = {{"control: x of SGD, the largest", highest[0], no_number, no_number, -0.9, "", "sgd"},
                {"x of signSGD, the least", lowest[1], no_number, no_number, 0.9, "", "sign"},
                {"x of EF-SGD, the largest", highest[2], no_number, no_number, -0.9, "", "feedback"}};
  f.tables = {std::move(positions), std::move(losses)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C25",
     .statement = "signSGD can fail where EF-SGD converges.",
     .provenance = "read: abstract of EF-SGD",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"gradient", "4 with probability 1/4, else -1; x in [-1, 1] from 0; a single one, and 64 with a common scale"},
                           {"codecs", "SGD none, signSGD sign:scale=none, EF-SGD sign:scale=l1+ef"},
                           {"learning rate", "0.002"},
                           {"steps", std::to_string(steps)},
                           {"seeds", "1 to 3"}},
              .quantities = {{"sgd", "mean x of the last quarter of the steps under SGD, the largest of copies and seeds"}, {"sign", "the same under signSGD, the least"}, {"feedback", "the same under EF-SGD, the largest"}},
              .constants = {{"near", 0.1, "from an end of [-1, 1]; SGD's own noise is 0.02"}},
              .clauses = {{Verdict::invalid, "sgd > -1 + near"}, {Verdict::confirmed, "sign >= 1 - near && feedback <= -1 + near"}},
              .otherwise = Verdict::not_reproduced},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
