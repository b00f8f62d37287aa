// Dion's arithmetic on one matrix of one rank (Ahn et al. 2025, arXiv 2504.05295; the authors' code,
// docs/papers/low_communication.md, "Dion"). With G [m, n] the rank's gradient, m >= n (else all of it
// transposed), and Q [n, r] of the step before:
//   M += G;   P = orth(mean M Q);   S = mean M^T P;   M -= (1 - mu) P S^T;   Q = columns of S over their
//   length;   W -= lr (factor P Q^T + decay W)
// Means are over the ranks, taken outside of here. All of it is linear in M, so P, S, Q and W are those of
// one rank with the mean gradient, and the mean of all M is its M: nothing is lost by sending factors. A rank
// may hold a block of the matrix (tensor parallelism): project() and back() then give its share of the rows
// of M Q and M^T P, to be added up where blocks have rows in common. P, S and Q are whole on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layout/layout.h"

namespace thinwire {

template <typename T>
class LowRankMomentum {
 public:
  /// Q begins normal, by (seed, name of the parameter), the same on all ranks. `released`: the authors'
  /// guard, which looks at this rank's M where ours looks at the mean of all.
  LowRankMomentum(const ParameterLayout& layout, std::int64_t rank, double mu, std::uint64_t seed,
                  bool released = false);

  /// M += g [local rows, local columns].
  void add(const T* g);
  /// y [here(), rank] = this block's share of M Q, for rows [first(), first() + here()) of it.
  void project(T* y) const;
  /// `p` [long_side(), rank] = M Q, summed up, becomes P.
  void orthonormalise(T* p);
  /// s [there(), rank] = this block's share of M^T P, for rows [first_there(), ...) of it.
  void back(const T* p, T* s) const;
  /// With S [short_side(), rank] summed up: M, Q and this block's weights `w` move.
  void finish(const T* p, const T* s, double learning_rate, double factor, double decay, T* w);

  std::int64_t rank() const { return rank_; }
  std::int64_t long_side() const { return long_side_; }
  std::int64_t short_side() const { return short_side_; }
  std::int64_t here() const { return along_.count; }
  std::int64_t first() const { return along_.begin; }
  std::int64_t there() const { return across_.count; }
  std::int64_t first_there() const { return across_.begin; }
  TensorView momentum() { return momentum_.view(); }  ///< M, this block
  TensorView right_factor() { return q_.view(); }     ///< Q [short_side(), rank]
  ParameterLayout layout_of_factor() const { return factor_; }

 private:
  bool transposed_, released_;
  std::int64_t rank_, long_side_, short_side_;
  double mu_;
  ParameterLayout factor_;
  AxisRange along_, across_;  ///< of the long side and the short one, what lies here
  Tensor momentum_, q_;
  bool nothing_here_ = true;  ///< M is all zeros
  std::vector<double> work_;
};

/// ceil(fraction * min(rows, columns)), at least 1.
std::int64_t rank_of_fraction(const Shape& global, double fraction);
/// Whether two factors are fewer numbers than the matrix.
bool pays_as_factors(const Shape& global, std::int64_t rank);

}  // namespace thinwire
