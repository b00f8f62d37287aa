// Spearman's correlation of scores (STS-B): Pearson's of the ranks, where equal values share the mean of their ranks.
#include <algorithm>
#include <numeric>

#include "models/metrics/metric.h"

namespace thinwire {
namespace {

std::vector<double> ranks(Judged values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) rank[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return rank;
}

double spearman(Judged predicted, Judged wanted) { return pearson_correlation(ranks(predicted), ranks(wanted)); }

const RegisterMetric registered({"spearman", "Spearman's correlation, ties by mean rank", spearman});

}  // namespace
}  // namespace thinwire
