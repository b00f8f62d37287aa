// Whole matrices in float64 with plain loops, and the shards of them that a rank of a grid must hold: what the layers of 2-D, 2.5-D and
// 3-D tensor parallelism are compared with, in tests and in check_tensor_parallel.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "models/layout/layout.h"
#include "models/layout/parameter.h"

namespace thinwire::reference {

struct Whole {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

Whole zeros(std::int64_t rows, std::int64_t columns);
/// Normal(0, 1) by (seed, name): equal on all ranks.
Whole random_matrix(std::uint64_t seed, const std::string& name, std::int64_t rows, std::int64_t columns);
Whole transposed(const Whole& a);
Whole product(const Whole& a, const Whole& b);
/// [1, columns].
Whole column_sums(const Whole& a);

/// Layer normalisation of every row, y = gamma (x - mean) / sqrt(variance + epsilon) + beta, variance by its definition, and its gradients.
struct Normed {
  Whole y, dx, dgamma, dbeta;
};
Normed layernorm(const Whole& x, const Whole& gamma, const Whole& beta, const Whole& dy, double epsilon);

/// Mean over rows of -log softmax(logits)[target], and its gradient.
struct Loss {
  double mean = 0;
  Whole gradient;
};
Loss cross_entropy(const Whole& logits, const std::vector<std::int32_t>& targets);

/// The part of [batch x seq, columns] that `layout` gives this rank.
std::vector<double> shard(const Whole& m, const Layout& layout, std::int64_t seq);
/// The part of a parameter; rows beyond `m`, which pad a vocabulary, are 0.
std::vector<double> shard(const Whole& m, const ParameterLayout& layout);
template <typename T>
void set(Parameter<T>& p, const Whole& m) {
  const std::vector<double> part = shard(m, p.layout);
  for (std::size_t i = 0; i < part.size(); ++i) p.w()[i] = static_cast<T>(part[i]);
}

/// Relative L2 distance over the shards of all ranks; 0 where they are equal, infinite where it is not finite. Collective.
template <typename T>
double distance(Communicator& world, const T* mine, const std::vector<double>& reference) {
  double sums[2] = {0, 0}, all[2];
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(mine[i]) - reference[i];
    sums[0] += d * d, sums[1] += reference[i] * reference[i];
  }
  world.all_reduce(sums, all, 2, DType::f64, ReduceOp::sum)->wait();
  if (all[0] == 0) return 0;
  const double distance = std::sqrt(all[0] / all[1]);
  return std::isfinite(distance) ? distance : INFINITY;
}

}  // namespace thinwire::reference
