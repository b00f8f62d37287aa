#include "experiments/claims/gradient_compression/local/node_losses.h"

#include <cmath>
#include <functional>

namespace thinwire::claims::gradient_compression {
namespace {

constexpr double regulariser = 0.1;

/// The largest eigenvalue of a symmetric map without negative ones: power iteration from all ones.
double largest_eigenvalue(std::size_t n, const std::function<Doubles(const Doubles&)>& map) {
  Doubles x(n, 1.0);
  double value = 0;
  for (int i = 0; i < 500; ++i) {
    value = std::sqrt(squared_norm(x));
    for (double& v : x) v /= value;
    x = map(x);
  }
  return std::sqrt(squared_norm(x));
}

}  // namespace

double squared_norm(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}

NodeLosses::NodeLosses(Kind kind, int nodes, int samples, int dimension, std::uint64_t seed)
    : kind_(kind), nodes_(nodes), samples_(samples), dimension_(dimension), a_(static_cast<std::size_t>(nodes * samples * dimension)), y_(static_cast<std::size_t>(nodes * samples)) {
  const Random values(seed, "samples"), centres(seed, "centres"), truth(seed, "truth"), noise(seed, "noise");
  for (std::size_t s = 0; s < y_.size(); ++s) {
    const std::size_t node = s / static_cast<std::size_t>(samples), d = static_cast<std::size_t>(dimension);
    double label = 0.5 * noise.normal(s);
    for (std::size_t j = 0; j < d; ++j) {
      a_[s * d + j] = values.normal(s * d + j) + 0.5 * centres.normal(node * d + j);
      label += a_[s * d + j] * truth.normal(j);
    }
    y_[s] = kind == Kind::logistic ? std::copysign(1.0, label) : label;
  }
  // The second derivative of the logistic term is at most 1/4, of x^2 / (1 + x^2) at most 2.
  const double steepest = kind == Kind::logistic ? 0.25 : 1, more = kind == Kind::logistic ? 2 * regulariser : 0;
  const auto n = static_cast<std::size_t>(dimension);
  const auto largest = [&](int first, int last) {
    return largest_eigenvalue(n, [&](const Doubles& x) { return second_moments(first, last, x); });
  };
  const double all = largest(0, nodes);
  smoothness_ = steepest * all + more;
  double squares = 0;
  for (int i = 0; i < nodes; ++i) {
    const double own = steepest * largest(i, i + 1) + more;
    squares += own * own / nodes;
  }
  mean_smoothness_ = std::sqrt(squares);
  convexity_ = all - largest_eigenvalue(n, [&](const Doubles& x) {
    Doubles rest = second_moments(0, nodes, x);
    for (std::size_t j = 0; j < n; ++j) rest[j] = all * x[j] - rest[j];
    return rest;
  });
}

Doubles NodeLosses::second_moments(int first, int last, const Doubles& x) const {
  const std::size_t d = x.size(), begin = static_cast<std::size_t>(first * samples_), end = static_cast<std::size_t>(last * samples_);
  Doubles sum(d, 0.0);
  for (std::size_t s = begin; s < end; ++s) {
    double dot = 0;
    for (std::size_t j = 0; j < d; ++j) dot += a_[s * d + j] * x[j];
    for (std::size_t j = 0; j < d; ++j) sum[j] += dot * a_[s * d + j] / static_cast<double>(end - begin);
  }
  return sum;
}

double NodeLosses::term(const double* a, double y, const Doubles& x, double* slope) const {
  double dot = 0;
  for (std::size_t j = 0; j < x.size(); ++j) dot += a[j] * x[j];
  if (kind_ == Kind::squares) {
    *slope = dot - y;
    return 0.5 * (dot - y) * (dot - y);
  }
  *slope = -y / (1 + std::exp(y * dot));
  return std::log1p(std::exp(-y * dot));
}

Doubles NodeLosses::gradient_of(int node, const Doubles& x) const {
  const std::size_t d = x.size();
  Doubles g(d, 0.0);
  for (int s = 0; s < samples_; ++s) {
    const auto at = static_cast<std::size_t>(node * samples_ + s);
    double slope = 0;
    (void)term(&a_[at * d], y_[at], x, &slope);
    for (std::size_t j = 0; j < d; ++j) g[j] += slope * a_[at * d + j] / samples_;
  }
  if (kind_ == Kind::logistic)
    for (std::size_t j = 0; j < d; ++j) g[j] += regulariser * 2 * x[j] / ((1 + x[j] * x[j]) * (1 + x[j] * x[j]));
  return g;
}

Doubles NodeLosses::gradient(const Doubles& x) const {
  Doubles sum(x.size(), 0.0);
  for (int i = 0; i < nodes_; ++i) {
    const Doubles g = gradient_of(i, x);
    for (std::size_t j = 0; j < g.size(); ++j) sum[j] += g[j] / nodes_;
  }
  return sum;
}

double NodeLosses::value(const Doubles& x) const {
  double sum = 0, slope = 0;
  for (std::size_t s = 0; s < y_.size(); ++s) sum += term(&a_[s * x.size()], y_[s], x, &slope) / static_cast<double>(y_.size());
  if (kind_ == Kind::logistic)
    for (const double v : x) sum += regulariser * v * v / (1 + v * v);
  return sum;
}

}  // namespace thinwire::claims::gradient_compression
