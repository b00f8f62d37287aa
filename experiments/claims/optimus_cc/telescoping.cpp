// optimus_cc.C3: what a weight gradient loses to compressed boundary gradients, with and without lazy error propagation.
//   with:     G = G_true + sum_{i<M} (X_{i+1} - X_i)^T e_i + X_1^T e_0 - X_M^T e_M
//   without:  G = G_true - sum_i X_i^T e_i
// in float64, over random layers; e_0 is the leftover of the mini-batch before. Bias gradients lose e_0 - e_M exactly.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/random.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims {
namespace {

constexpr int tokens = 6, in_width = 5, out_width = 4;
constexpr double bound = 1e-10;
using Matrix = std::vector<double>;  // row-major

Matrix random_matrix(const Random& random, int elements, std::uint64_t from) {
  Matrix m(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = random.normal(from + i);
  return m;
}

/// Keeps the largest third.
Matrix compress(const Matrix& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  Matrix kept(x.size(), 0.0);
  for (std::size_t k = 0; k < x.size() / 3; ++k) kept[order[k]] = x[order[k]];
  return kept;
}

/// sum += factor * X^T D.
void add_product(Matrix& sum, const Matrix& x, const Matrix& d, double factor) {
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < in_width; ++i)
      for (std::size_t o = 0; o < out_width; ++o) sum[i * out_width + o] += factor * x[t * in_width + i] * d[t * out_width + o];
}

double distance(const Matrix& a, const Matrix& b) {
  double d = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    d += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(d) / std::max(std::sqrt(norm), 1e-300);
}

/// The largest relative distance between the measured gradient and the formula over M = 2..16 and three mini-batches.
std::pair<double, double> worst(bool propagates) {
  double weights = 0, biases = 0;
  for (int m = 2; m <= 16; ++m) {
    const Random random(7, "telescoping" + std::to_string(m));
    Matrix error(tokens * out_width, 0.0);
    std::uint64_t from = 0;
    for (int iteration = 0; iteration < 3; ++iteration) {
      Matrix measured(in_width * out_width, 0.0), formula = measured, bias(out_width, 0.0), bias_formula = bias;
      const Matrix error_before = error;
      Matrix x_before;
      for (int i = 0; i < m; ++i) {
        const Matrix x = random_matrix(random, tokens * in_width, from), d = random_matrix(random, tokens * out_width, from + 1000);
        from += 2000;
        Matrix sent = d;
        if (propagates)
          for (std::size_t k = 0; k < sent.size(); ++k) sent[k] += error[k];
        const Matrix arrived = compress(sent);
        Matrix now(sent.size());
        for (std::size_t k = 0; k < sent.size(); ++k) now[k] = sent[k] - arrived[k];
        add_product(measured, x, arrived, 1);
        add_product(formula, x, d, 1);
        for (std::size_t t = 0; t < tokens; ++t)
          for (std::size_t o = 0; o < out_width; ++o) {
            bias[o] += arrived[t * out_width + o];
            bias_formula[o] += d[t * out_width + o];
          }
        if (propagates) {
          if (i == 0) add_product(formula, x, error_before, 1);
          if (i > 0) {
            Matrix step = x;
            for (std::size_t k = 0; k < step.size(); ++k) step[k] -= x_before[k];
            add_product(formula, step, error, 1);  // e of the message before
          }
          if (i == m - 1) add_product(formula, x, now, -1);
        } else {
          add_product(formula, x, now, -1);
        }
        error = now;
        x_before = x;
      }
      for (std::size_t t = 0; propagates && t < tokens; ++t)
        for (std::size_t o = 0; o < out_width; ++o) bias_formula[o] += error_before[t * out_width + o] - error[t * out_width + o];
      weights = std::max(weights, distance(measured, formula));
      if (propagates) biases = std::max(biases, distance(bias, bias_formula));
    }
  }
  return {weights, biases};
}

Finding measure(JudgeContext&) {
  const auto [with, bias] = worst(true);
  const double without = worst(false).first;
  Finding f;
  f.measures = {{"weight gradient against the formula, with propagation", with, no_number, no_number, bound, "relative", "propagated"},
                {"the same without", without, no_number, no_number, bound, "relative", "dropped"},
                {"bias gradient against e_0 - e_M", bias, no_number, no_number, bound, "relative", "biases"}};
  return f;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C3",
     .statement = "Errors handed from micro-batch to micro-batch telescope in the weight gradient.",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule = {.settings = {{"M", "2 to 16"}, {"mini-batches", "3"}, {"numbers", "float64, random layers; of a message its largest third arrives"}},
              .quantities = {{"propagated", "largest relative distance of the weight gradient from G_true + sum (X_{i+1} - X_i)^T e_i + X_1^T e_0 - X_M^T e_M, errors handed on"},
                             {"dropped", "the same from G_true - sum X_i^T e_i, errors dropped"},
                             {"biases", "the same of the bias gradient's error from e_0 - e_M, errors handed on"}},
              .constants = {{"bound", bound, "relative: rounding of float64 sums"}},
              .clauses = {{Verdict::pass, "propagated <= bound && dropped <= bound && biases <= bound"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
