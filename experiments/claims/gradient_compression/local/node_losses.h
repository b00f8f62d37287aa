// Losses of several nodes with data of their own, in float64: what methods of distributed optimisation are run on where neither model nor link matters.
#pragma once

#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims::gradient_compression {

/// f = mean over nodes i of f_i, f_i the mean over its samples (a, y) of
///   logistic: log(1 + exp(-y a.x)) + 0.1 sum x_j^2 / (1 + x_j^2)        (non-convex; the regulariser of EF21's experiments)
///   squares:  (a.x - y)^2 / 2
class NodeLosses {
 public:
  enum class Kind { logistic, squares };
  /// Samples of node i are normal around a centre of its own, so that its gradient is not the mean one.
  NodeLosses(Kind kind, int nodes, int samples, int dimension, std::uint64_t seed);

  int nodes() const { return nodes_; }
  int dimension() const { return dimension_; }
  Doubles gradient_of(int node, const Doubles& x) const;
  Doubles gradient(const Doubles& x) const;
  double value(const Doubles& x) const;
  /// Bounds of the second derivative: L of f, the root mean square of the nodes' L_i, and for squares the least eigenvalue mu.
  double smoothness() const { return smoothness_; }
  double mean_smoothness() const { return mean_smoothness_; }
  double convexity() const { return convexity_; }

 private:
  double term(const double* a, double y, const Doubles& x, double* slope) const;
  /// x -> mean of a (a.x) over the samples of nodes [first, last).
  Doubles second_moments(int first, int last, const Doubles& x) const;

  Kind kind_;
  int nodes_, samples_, dimension_;
  Doubles a_, y_;
  double smoothness_ = 0, mean_smoothness_ = 0, convexity_ = 0;
};

double squared_norm(const Doubles& x);

}  // namespace thinwire::claims::gradient_compression
