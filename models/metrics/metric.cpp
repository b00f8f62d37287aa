#include "models/metrics/metric.h"

#include <cmath>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/joined.h"

namespace thinwire {
namespace {

std::map<std::string, Metric>& registry() {
  static std::map<std::string, Metric> all;
  return all;
}

}  // namespace

RegisterMetric::RegisterMetric(Metric metric) {
  const std::string name = metric.name;
  TW_ASSERT(registry().emplace(name, std::move(metric)).second, "two metrics of one name");
}

std::vector<Metric> metrics() {
  std::vector<Metric> all;
  for (const auto& [name, metric] : registry()) all.push_back(metric);
  return all;
}

double metric_value(const std::string& name, Judged predicted, Judged wanted) {
  const auto found = registry().find(name);
  if (found == registry().end()) throw UsageError("there is no metric '" + name + "'; there is " + joined_keys(registry()));
  TW_ASSERT(predicted.size() == wanted.size() && !wanted.empty(), "a metric takes a prediction for each label, and one at least");
  for (std::size_t i = 0; i < predicted.size(); ++i)
    if (!std::isfinite(predicted[i]))
      throw RuntimeFailure("prediction " + std::to_string(i) + " is " + std::to_string(predicted[i]) + ", which " + name +
                           " cannot judge; the model has diverged: lower the learning rate");
  return found->second.value(predicted, wanted);
}

Confusion confusion(Judged predicted, Judged wanted) {
  Confusion counts;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    double& cell = wanted[i] == 1 ? (predicted[i] == 1 ? counts.true_positive : counts.false_negative)
                                  : (predicted[i] == 1 ? counts.false_positive : counts.true_negative);
    ++cell;
  }
  return counts;
}

double pearson_correlation(Judged x, Judged y) {
  const auto mean = [](Judged v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); };
  const auto constant = [](Judged v) {
    for (const double value : v)
      if (value != v.front()) return false;
    return true;
  };
  if (constant(x) || constant(y)) return 0;  // asked of the values: the sums below are of rounded differences
  const double mean_x = mean(x), mean_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xy / (std::sqrt(xx) * std::sqrt(yy));
}

}  // namespace thinwire
