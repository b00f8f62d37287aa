// The robust statistics behind `sweep compare` (docs/comparing.md). Everything works on logarithms of times,
// so that an effect is a ratio and A against B is exactly the mirror of B against A.
#pragma once

#include <span>
#include <vector>

namespace thinwire::results {

/// Two-sided p-value of Student's t with `degrees` (> 0, any real) degrees of freedom.
double student_two_sided(double t, double degrees);
/// The t whose two-sided p-value is `p` in (0, 1).
double student_quantile(double p, double degrees);

/// Hodges and Lehmann's shift from `a` to `b`: the median of all differences b[j] - a[i] (of the medians
/// where those are more than a million). NaN when one of them is empty.
double shift_between(std::span<const double> a, std::span<const double> b);
/// Their one-sample form: the median of the means of all pairs, each value with itself included. NaN for an
/// empty input.
double centre_of(std::span<const double> values);

/// Standard deviation of normal values from the median absolute deviation, made unbiased (in its square) for
/// few values. 0 for fewer than two.
double robust_scale(std::span<const double> values);
/// How many degrees of freedom the square of robust_scale over `count` values is worth: about 0.37 (count -
/// 1), as the median absolute deviation is 37 % efficient.
double degrees_of_scale(std::size_t count);

/// Benjamini and Hochberg's adjusted p-values: those of at most `rate` are discoveries with that expected
/// share of false ones, and when there is no effect at all, with that probability of any.
std::vector<double> adjust_for_many(std::span<const double> p_values);

}  // namespace thinwire::results
