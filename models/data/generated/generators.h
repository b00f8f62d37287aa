// Synthetic tensors of known structure, beside captured traffic: the spectrum, sparsity or spread that a codec lives on can be set. Every element
// is a pure function of (seed, name, step, rank). A kind is a file of this folder, which registers itself.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"
#include "core/random.h"

namespace thinwire {

/// A generator and its parameters, defaults filled in.
struct Generator {
  std::string kind;
  std::map<std::string, double> parameters;
  double at(const char* key) const { return parameters.at(key); }
  /// "power_law:exponent=1"
  std::string to_string() const;
};

/// What a kind draws from: one stream per seed, generator, step and rank; beside it what all ranks of a step share.
struct Draws {
  std::uint64_t seed = 0, stream = 0, shared_stream = 0;
  Random values() const { return {seed, stream}; }
  Random choices() const { return {seed, mix_stream(stream, 3)}; }
  /// The same on every rank.
  Random shared_choices() const { return {seed, mix_stream(shared_stream, 3)}; }
};

/// Bounds of a parameter, both allowed.
struct GeneratorParameter {
  double otherwise, low, high;
  bool whole = false;  ///< whole numbers only
};

struct GeneratorKind {
  std::string kind, summary;
  std::map<std::string, GeneratorParameter> parameters = {};
  /// Fills `to`, seen as a matrix rows() x columns() of the shape; it is not empty.
  void (*generate)(const Generator& generator, const Shape& shape, const Draws& draws, std::span<float> to) = nullptr;
};
/// Called by a kind's file. Throws std::logic_error for a name given twice.
bool register_generator(GeneratorKind kind);
/// In the order of names.
std::vector<const GeneratorKind*> generators();

/// Parses "KIND[:key=value,...]". UsageError listing kinds or keys when unknown, or when a value is out of range.
Generator parse_generator(std::string_view text);

/// Fills f32 `to`. Different step or rank: an independent tensor.
void generate(const Generator& generator, const Shape& shape, std::uint64_t seed, std::int64_t step, std::int64_t rank, std::span<float> to);
Tensor generate(const Generator& generator, const Shape& shape, std::uint64_t seed, std::int64_t step = 0, std::int64_t rank = 0);

/// For kinds: independent normal numbers, in threads.
void fill_normal(const Random& random, std::span<float> to, double deviation = 1.0);

}  // namespace thinwire
