#include "experiments/claims/interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/statistics.h"
#include "results/compare/compare_statistics.h"

namespace thinwire::claims {

Interval interval_of(std::span<const double> values) {
  Interval i;
  i.count = static_cast<int>(values.size());
  if (values.empty()) return i;
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  i.mean = sum / i.count;
  if (i.count < 2) return i;
  for (const double v : values) squares += (v - i.mean) * (v - i.mean);
  i.deviation = std::sqrt(squares / (i.count - 1));
  const double half = results::student_quantile(0.05, i.count - 1) * i.deviation / std::sqrt(i.count);
  i.low = i.mean - half;
  i.high = i.mean + half;
  return i;
}

Interval paired_interval(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw UsageError("paired_interval: " + std::to_string(a.size()) + " values against " + std::to_string(b.size()));
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(b[i] - a[i]);
  return interval_of(differences);
}

Interval location_of(const std::vector<double>& values) {
  Interval i;
  i.count = static_cast<int>(values.size());
  std::vector<double> means;
  for (std::size_t a = 0; a < values.size(); ++a)
    for (std::size_t b = a; b < values.size(); ++b) means.push_back((values[a] + values[b]) / 2);
  std::sort(means.begin(), means.end());
  i.mean = median(means);
  const double n = i.count, half = n * (n + 1) / 4, spread = std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
  const double cut = std::floor(half - 1.96 * spread);
  if (n < 6 || cut < 0) return i;  // fewer ranks cannot reach 95 %
  i.low = means[static_cast<std::size_t>(cut)];
  i.high = means[means.size() - 1 - static_cast<std::size_t>(cut)];
  return i;
}

Interval shift_of(const std::vector<double>& a, const std::vector<double>& b) {
  Interval i;
  i.count = static_cast<int>(std::min(a.size(), b.size()));
  std::vector<double> differences;
  for (const double x : a)
    for (const double y : b) differences.push_back(x - y);
  std::sort(differences.begin(), differences.end());
  i.mean = median(differences);
  const double n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double cut = std::floor(n * m / 2 - 1.96 * std::sqrt(n * m * (n + m + 1) / 12));
  if (i.count < 4 || cut < 0) return i;
  i.low = differences[static_cast<std::size_t>(cut)];
  i.high = differences[differences.size() - 1 - static_cast<std::size_t>(cut)];
  return i;
}

Interval speedup_of(const std::vector<double>& before, const std::vector<double>& after) {
  const Interval longer = shift_of(after, before);
  const double base = location_of(before).mean;
  Interval times = longer;
  times.mean = base / (base + longer.mean), times.low = base / (base + longer.high), times.high = base / (base + longer.low);
  return times;
}

Interval quotient_of(const Interval& a, const Interval& b) {
  Interval x;
  x.mean = a.mean / b.mean;
  if (b.low <= 0) {
    x.low = -std::numeric_limits<double>::infinity(), x.high = std::numeric_limits<double>::infinity();
  } else {
    x.low = a.low / (a.low > 0 ? b.high : b.low);
    x.high = a.high / (a.high > 0 ? b.low : b.high);
  }
  return x;
}

bool is_larger(const Interval& interval, const Interval& than) {
  return interval.mean > than.mean || (std::isnan(than.mean) && !std::isnan(interval.mean));
}

Measure measure_of(const std::string& name, const Interval& interval, double margin, const std::string& unit, const std::string& symbol) {
  return {name, interval.mean, interval.low, interval.high, margin, unit, symbol};
}

}  // namespace thinwire::claims
