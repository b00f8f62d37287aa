#include "models/cost_model/slice_times.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"

namespace thinwire {
namespace {

std::array<double, 4> regressors(int batch, int tokens, int context) {
  const double b = batch, s = tokens, c = context;
  return {1, b * s, b * c, b * s * c};
}

/// Solves the normal equations by elimination with row pivoting; a column that nothing speaks for gets 0.
std::array<double, 4> solve(std::array<std::array<double, 5>, 4> m) {
  constexpr std::size_t n = 4;
  double largest = 0;
  for (std::size_t k = 0; k < n; ++k) largest = std::max(largest, std::abs(m[k][k]));
  std::array<bool, n> used{};
  std::array<std::size_t, n> row_of{};
  std::array<double, n> x{};
  std::array<bool, n> known{};
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = n;
    for (std::size_t r = 0; r < n; ++r)
      if (!used[r] && (pivot == n || std::abs(m[r][column]) > std::abs(m[pivot][column]))) pivot = r;
    if (std::abs(m[pivot][column]) <= 1e-12 * largest) continue;
    used[pivot] = known[column] = true;
    row_of[column] = pivot;
    for (std::size_t r = 0; r < n; ++r) {
      if (r == pivot) continue;
      const double factor = m[r][column] / m[pivot][column];
      for (std::size_t k = column; k <= n; ++k) m[r][k] -= factor * m[pivot][k];
    }
  }
  for (std::size_t column = 0; column < n; ++column)
    if (known[column]) x[column] = m[row_of[column]][n] / m[row_of[column]][column];
  return x;
}

}  // namespace

SliceTimes::SliceTimes(std::vector<SliceSample> samples) : samples_(std::move(samples)) {
  int contexts = 0;
  for (const SliceSample& s : samples_) {
    if (!(s.forward_us > 0 && s.backward_us > 0))
      throw UsageError("slice times: a pass over " + std::to_string(s.tokens) + " tokens after " + std::to_string(s.context) + " has no time");
    if (s.context == 0)
      base_[s.batch][s.tokens] = s;
    else
      ++contexts;
  }
  if (base_.empty()) throw UsageError("slice times: nothing was measured without a context");
  if (contexts == 0) return;
  if (contexts < 4) throw UsageError("slice times: the model of the context has four numbers, but only " + std::to_string(contexts) + " samples have one");
  forward_ = fit(&SliceSample::forward_us);
  backward_ = fit(&SliceSample::backward_us);
}

double SliceTimes::without_context(int batch, int tokens, double SliceSample::*part) const {
  const auto found = base_.find(batch);
  if (found == base_.end()) throw UsageError("slice times: micro-batches of " + std::to_string(batch) + " sequences were not measured");
  const auto& by_tokens = found->second;
  const auto above = by_tokens.lower_bound(tokens);
  if (above == by_tokens.end() || (above == by_tokens.begin() && above->first != tokens))
    throw UsageError("slice times: slices of " + std::to_string(tokens) + " tokens are outside of the measured " + std::to_string(by_tokens.begin()->first) + " to " +
                     std::to_string(by_tokens.rbegin()->first));
  if (above->first == tokens) return above->second.*part;
  const auto below = std::prev(above);
  const double share = static_cast<double>(tokens - below->first) / (above->first - below->first);
  return (1 - share) * (below->second.*part) + share * (above->second.*part);
}

SliceTimes::Coefficients SliceTimes::fit(double SliceSample::*part) const {
  std::array<std::array<double, 5>, 4> m{};
  // In units of the largest tokens and context, so that the columns are of one size.
  int most = 1;
  for (const SliceSample& s : samples_) most = std::max({most, s.tokens, s.context});
  const std::array<double, 4> unit = {1, 1.0 / most, 1.0 / most, 1.0 / most / most};
  for (const SliceSample& s : samples_) {
    if (s.context == 0) continue;
    const auto x = regressors(s.batch, s.tokens, s.context);
    const double weight = 1 / (s.*part), y = s.*part - without_context(s.batch, s.tokens, part);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) m[i][j] += weight * weight * x[i] * unit[i] * x[j] * unit[j];
      m[i][4] += weight * weight * x[i] * unit[i] * y;
    }
  }
  Coefficients a = solve(m);
  for (std::size_t i = 0; i < 4; ++i) a[i] *= unit[i];
  return a;
}

double SliceTimes::at(int batch, int tokens, int context, double SliceSample::*part, const Coefficients& a) const {
  double t = without_context(batch, tokens, part);
  if (context == 0) return t;
  const auto x = regressors(batch, tokens, context);
  for (std::size_t i = 0; i < 4; ++i) t += a[i] * x[i];
  // A fit may undercut where the context costs next to nothing; a slice with context is never faster than without.
  return std::max(t, without_context(batch, tokens, part));
}

double SliceTimes::forward_us(int batch, int tokens, int context) const { return at(batch, tokens, context, &SliceSample::forward_us, forward_); }
double SliceTimes::backward_us(int batch, int tokens, int context) const { return at(batch, tokens, context, &SliceSample::backward_us, backward_); }

BatchSliceTime SliceTimes::times() const {
  return [this](int batch, int tokens, int context) { return pass_us(batch, tokens, context); };
}

double SliceTimes::largest_context_error() const {
  double worst = 0;
  for (const SliceSample& s : samples_)
    if (s.context > 0) worst = std::max(worst, std::abs(pass_us(s.batch, s.tokens, s.context) / (s.forward_us + s.backward_us) - 1));
  return worst;
}

}  // namespace thinwire
