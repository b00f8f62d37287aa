// Synthetic tensors of known structure, beside captured traffic: the spectrum, sparsity or spread that a
// codec lives on can be set. Every element is a pure function of (seed, name, step, rank).
//
//   gaussian                       independent standard normal
//   power_law:exponent=1.0         singular values sigma_i = i^-exponent (i = 1..min(rows, columns)) with
//   random
//                                  orthonormal factors, scaled to root mean square 1
//   low_rank:rank=16,noise=0.01    rank-r signal of root mean square 1 plus normal noise
//   sparse:zeros=0.99              a fraction `zeros` of exact zeros, the others standard normal
//   log_normal:sigma=2.0           sign * exp(sigma * normal): heavy-tailed magnitude
//   integers:largest=8             whole numbers from -largest to largest, equally likely: their sums are exact in f32
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

/// A generator and its parameters, defaults filled in.
struct Generator {
  std::string kind;
  std::map<std::string, double> parameters;
  /// "power_law:exponent=1"
  std::string to_string() const;
};

struct GeneratorDescription {
  std::string kind, summary;
  std::map<std::string, double> defaults;
};
const std::vector<GeneratorDescription>& generators();

/// Parses "KIND[:key=value,...]". UsageError listing kinds or keys when unknown, or when a value is out of
/// range.
Generator parse_generator(std::string_view text);

/// Fills f32 `to`, seen as a matrix rows() x columns() of `shape`. Different step or rank: an independent
/// tensor.
void generate(const Generator& generator, const Shape& shape, std::uint64_t seed, std::int64_t step,
              std::int64_t rank, std::span<float> to);
Tensor generate(const Generator& generator, const Shape& shape, std::uint64_t seed, std::int64_t step = 0,
                std::int64_t rank = 0);

}  // namespace thinwire
