// gradient_compression.C22: QSGD's levels are drawn without bias, and their variance stays below min(n/s^2, sqrt(n)/s) of the squared norm. A bucket of normal numbers, and one of
// equal magnitudes, where the bound is nearest; a row of a message is a draw.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr std::int64_t n = 128, rows = 1000;
constexpr int messages = 100;
const std::vector<int> levels = {1, 4, 16, 64};

struct Drawn {
  double bias = 0;      ///< |mean - x| in standard errors, of the worst element
  double variance = 0;  ///< sum over elements, over the squared norm
};
Drawn draw(const Floats& x, int s) {
  CodecStack stack = make_codec("qsgd:bucket=128,levels=" + std::to_string(s));
  Floats message;
  for (std::int64_t r = 0; r < rows; ++r) message.insert(message.end(), x.begin(), x.end());
  Doubles sum(x.size(), 0.0), squares(x.size(), 0.0);
  for (int m = 0; m < messages; ++m) {
    const Floats decoded = send(*stack.codec, message, Shape{rows, n}, m).decoded;
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const double off = double{decoded[i]} - x[i % x.size()];
      sum[i % x.size()] += off, squares[i % x.size()] += off * off;
    }
  }
  const double draws = static_cast<double>(rows) * messages;
  Drawn result;
  double norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    norm += double{x[i]} * x[i];
    const double mean = sum[i] / draws, variance = squares[i] / draws - mean * mean;
    result.variance += variance;
    result.bias = std::max(result.bias, std::abs(mean) / std::sqrt(variance / draws));
  }
  result.variance /= norm;
  return result;
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("draws of QSGD in this process (seconds)");
  Finding f;
  Table table{"QSGD's draws of a bucket of 128", {"s", "largest bias (standard errors)", "variance over the squared norm", "bound", "variance over the bound"}, {}};
  double bias = 0, ratio = 0;
  for (const bool equal : {false, true}) {
    Floats x = normal_numbers(n, 1, "bucket");
    if (equal)
      for (float& v : x) v = std::copysign(1.0f, v);
    for (const int s : levels) {
      const Drawn d = draw(x, s);
      const double bound = std::min(static_cast<double>(n) / (s * s), std::sqrt(static_cast<double>(n)) / s);
      bias = std::max(bias, d.bias), ratio = std::max(ratio, d.variance / bound);
      table.rows.push_back({equal ? "equal magnitudes" : "normal", {static_cast<double>(s), d.bias, d.variance, bound, d.variance / bound}});
    }
  }
  f.measures = {{"bias of an element, the largest", bias, no_number, no_number, 4, "standard errors", "bias"}, {"variance over its bound, the largest", ratio, no_number, no_number, 1, "", "variance"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C22",
     .statement = "QSGD is unbiased with variance at most min(n/s^2, sqrt(n)/s) of the squared norm.",
     .provenance = "recollected",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", "qsgd:bucket=128"}, {"s", "1, 4, 16, 64"}, {"n", "128: normal numbers, and equal magnitudes"}, {"draws", "100000"}},
              .quantities = {{"bias", "|mean - x| of an element in standard errors of the mean, the largest of all elements, s and both buckets"}, {"variance", "summed over elements, over min(n/s^2, sqrt(n)/s) ||x||^2, the largest"}},
              .constants = {{"chance", 4, "standard errors"}},
              .clauses = {{Verdict::confirmed, "bias <= chance && variance < 1"}},
              .otherwise = Verdict::not_reproduced},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
