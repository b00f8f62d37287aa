// What a group of integers is, for host and device; formulas and payload: group.cpp.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "kernels/codec/codecs/block/block_cut.h"

namespace thinwire {

class Parameters;

inline constexpr std::uint64_t group_draws_seed = 0x67726f7570ull;  // "group"

enum class GroupRange : std::uint8_t { symmetric, full, extreme, affine, minmax };

struct GroupOptions {
  int bits = 4;
  std::int64_t group = 128;
  GroupRange range = GroupRange::symmetric;
  bool stochastic = false, low_first = false;
  DType scale = DType::f32;

  constexpr bool has_offset() const { return range == GroupRange::affine || range == GroupRange::minmax; }
  constexpr bool has_signs() const { return range == GroupRange::extreme || has_offset(); }  ///< a scale depends on more than the largest magnitude
  constexpr float levels() const { return static_cast<float>(1 << bits); }
  constexpr float high() const { return static_cast<float>((1 << (bits - 1)) - 1); }
  constexpr float lowest() const { return -high() - 1; }  ///< of a payload, whatever was written
  constexpr float low() const { return range == GroupRange::symmetric ? -high() : lowest(); }
  constexpr BlockLayout layout() const { return {.bits = bits, .block = group, .head_bytes = 0, .scale_bytes = size_of(scale) * (has_offset() ? 2 : 1), .reads_twice = false}; }
};

/// UsageError for what cannot be.
GroupOptions group_options(const Parameters& p);

}  // namespace thinwire
