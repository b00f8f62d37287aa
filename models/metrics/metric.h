// What a task is judged by. Each metric is a file that registers itself; tasks name theirs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace thinwire {

/// Predictions and labels of the same rows: numbers of classes, or scores.
using Judged = std::span<const double>;

struct Metric {
  std::string name, help;
  std::function<double(Judged predicted, Judged wanted)> value;
};
struct RegisterMetric {
  explicit RegisterMetric(Metric metric);
};
/// By name.
std::vector<Metric> metrics();

/// The metric of this name. UsageError listing what there is; RuntimeFailure for a prediction that is no finite number.
double metric_value(const std::string& name, Judged predicted, Judged wanted);

/// Of two classes, 1 the positive one, any other the negative.
struct Confusion {
  double true_positive = 0, false_positive = 0, false_negative = 0, true_negative = 0;
};
Confusion confusion(Judged predicted, Judged wanted);

/// r = sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2). 0 when a side is constant: a model that says the same of everything
/// shows no correlation (scipy gives NaN there).
double pearson_correlation(Judged x, Judged y);

}  // namespace thinwire
