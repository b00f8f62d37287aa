// Student's interval of a mean.
#pragma once

#include <span>

#include "experiments/claims/context.h"

namespace thinwire::claims {

/// Mean of paired differences (or of repetitions) and its two-sided 95 % interval by Student's t with n - 1 degrees of freedom.
struct Interval {
  double mean = no_number, low = no_number, high = no_number;
  double deviation = no_number;  ///< standard deviation of one value
  int count = 0;
};
/// NaN bounds for fewer than two values.
Interval interval_of(std::span<const double> values);
/// b[i] - a[i]; UsageError when the lengths differ.
Interval paired_interval(std::span<const double> a, std::span<const double> b);

Measure measure_of(const std::string& name, const Interval& interval, double margin, const std::string& unit, const std::string& symbol = "");

}  // namespace thinwire::claims
