#include "experiments/claims/interval.h"

#include <cmath>

#include "core/error.h"
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

Measure measure_of(const std::string& name, const Interval& interval, double margin, const std::string& unit, const std::string& symbol) {
  return {name, interval.mean, interval.low, interval.high, margin, unit, symbol};
}

}  // namespace thinwire::claims
