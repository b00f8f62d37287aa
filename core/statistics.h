// Robust statistics of samples. One definition for tables, records and plots.
#pragma once

#include <span>
#include <vector>

namespace thinwire {

/// Linear interpolation between order statistics (type 7 of Hyndman and Fan; numpy's default).
/// `p` in [0, 1]; NaN for an empty input.
double quantile(std::span<const double> samples, double p);
inline double median(std::span<const double> samples) { return quantile(samples, 0.5); }

struct Summary {
  std::size_t count = 0;
  double minimum = 0, median = 0, mean = 0, maximum = 0;
  double interquartile_range = 0;
  double p95 = 0;
  double p99 = 0;  ///< NaN below 100 samples: too few to say
  /// Inter-quartile range over median, the noise measure of the stop rule; 0 when the median is 0.
  double relative_noise() const { return median > 0 ? interquartile_range / median : 0; }
};
Summary summarize(std::span<const double> samples);

/// Shannon entropy of a histogram, in nats.
double entropy_nats(std::span<const double> counts);

}  // namespace thinwire
