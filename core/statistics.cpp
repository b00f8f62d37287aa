#include "core/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thinwire {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double quantile_of_sorted(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return nan;
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  if (weight == 0) return sorted[below];  // not inf * 0 at an infinite neighbour
  return sorted[below] + weight * (sorted[above] - sorted[below]);
}

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

bool has_nan(std::span<const double> samples) {
  return std::any_of(samples.begin(), samples.end(), [](double x) { return std::isnan(x); });
}

}  // namespace

double quantile(std::span<const double> samples, double p) {
  if (has_nan(samples)) return nan;  // sorting NaN is undefined; numpy returns NaN, too
  return quantile_of_sorted(sorted_copy(samples), std::clamp(p, 0.0, 1.0));
}

Summary summarize(std::span<const double> samples) {
  if (samples.empty() || has_nan(samples)) return {samples.size(), nan, nan, nan, nan, nan, nan, nan};
  const std::vector<double> sorted = sorted_copy(samples);
  Summary s;
  s.count = sorted.size();
  s.minimum = sorted.front();
  s.maximum = sorted.back();
  s.median = quantile_of_sorted(sorted, 0.5);
  double sum = 0;
  for (double x : sorted) sum += x;
  s.mean = sum / static_cast<double>(s.count);
  s.interquartile_range = quantile_of_sorted(sorted, 0.75) - quantile_of_sorted(sorted, 0.25);
  s.p95 = quantile_of_sorted(sorted, 0.95);
  s.p99 = s.count >= 100 ? quantile_of_sorted(sorted, 0.99) : nan;
  return s;
}

double entropy_nats(std::span<const double> counts) {
  double total = 0;
  for (double c : counts) total += c;
  if (total <= 0) return 0;
  double entropy = 0;
  for (double c : counts)
    if (c > 0) entropy -= c / total * std::log(c / total);
  return entropy;
}

}  // namespace thinwire
