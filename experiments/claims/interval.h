// Intervals: Student's of a mean, and those of ranks, which do not follow the outliers of a shared machine.
#pragma once

#include <span>
#include <vector>

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

/// Typical value (median of the means of all pairs) and 95 % interval by Wilcoxon's signed ranks; steps of a shared machine have outliers
/// on one side, which a mean follows. NaN bounds for too few values.
Interval location_of(const std::vector<double>& values);
/// Typical a - b and its 95 % interval by Mann and Whitney's ranks (Hodges and Lehmann 1963).
Interval shift_of(const std::vector<double>& a, const std::vector<double>& b);
/// Typical before / after, from the shift and the typical `before`, with its 95 % interval: how many times as fast.
Interval speedup_of(const std::vector<double>& before, const std::vector<double>& after);

/// a / b of two intervals at their unfavourable ends, so wider than 95 %. Unbounded (infinite) where b may be 0 or negative: then nothing is known of the quotient.
Interval quotient_of(const Interval& a, const Interval& b);

/// Whether the mean is larger than that of another, or the first number there is: of what was not measured (NaN) none is the largest.
bool is_larger(const Interval& interval, const Interval& than);

Measure measure_of(const std::string& name, const Interval& interval, double margin, const std::string& unit, const std::string& symbol = "");

}  // namespace thinwire::claims
