#include "results/compare/compare_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/statistics.h"

namespace thinwire::results {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < tiny ? tiny : d);
  double value = d;
  for (int m = 1; m <= 300; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < tiny ? tiny : d);
      c = 1 + term / c;
      if (std::abs(c) < tiny) c = tiny;
      step = c * d;
      value *= step;
    }
    if (std::abs(step - 1) < 1e-15) break;
  }
  return value;
}

/// Regularised incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_two_sided(double t, double degrees) {
  if (std::isnan(t)) return nan;
  if (std::isinf(t)) return 0;
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_quantile(double p, double degrees) {
  double low = 0, high = 1;
  while (student_two_sided(high, degrees) > p && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (student_two_sided(middle, degrees) > p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double shift_between(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return nan;
  if (a.size() * b.size() > 1'000'000) return median(b) - median(a);
  std::vector<double> differences;
  differences.reserve(a.size() * b.size());
  for (const double y : b)
    for (const double x : a) differences.push_back(y - x);
  return median(differences);
}

double centre_of(std::span<const double> values) {
  if (values.empty()) return nan;
  if (values.size() > 1000) return median(values);
  std::vector<double> means;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i; j < values.size(); ++j) means.push_back(0.5 * (values[i] + values[j]));
  return median(means);
}

double robust_scale(std::span<const double> values) {
  if (values.size() < 2) return 0;
  // 1 / root mean square of 1.4826 MAD over 200000 normal samples of 2, 3, ... values;
  // tests/results/compare/test_compare.cpp repeats it.
  constexpr std::array factor = {0.954, 1.151, 1.182, 1.049, 1.075, 1.026, 1.044, 1.018, 1.027};
  const double centre = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - centre));
  const std::size_t n = values.size();
  return 1.4826 * median(distances) * (n - 2 < factor.size() ? factor[n - 2] : 1.0);
}

double degrees_of_scale(std::size_t count) {
  return count < 2 ? 0 : 0.37 * static_cast<double>(count - 1);
}

std::vector<double> adjust_for_many(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double least = 1;
  for (std::size_t rank = order.size(); rank-- > 0;) {
    least = std::min(
        least, p_values[order[rank]] * static_cast<double>(order.size()) / static_cast<double>(rank + 1));
    adjusted[order[rank]] = least;
  }
  return adjusted;
}

}  // namespace thinwire::results
