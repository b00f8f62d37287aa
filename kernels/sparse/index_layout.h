// Sizes of the compact form of kernels/sparse/index_coding.h: the one place that host and device take them from.
#pragma once

#include <cstdint>

namespace thinwire {

/// Buckets of 2^low_bits positions, each ended by a 0 in the bit stream.
constexpr std::int64_t index_buckets(std::int64_t elements, int low_bits) { return (elements + (std::int64_t{1} << low_bits) - 1) >> low_bits; }

constexpr std::int64_t compact_index_bytes(std::int64_t elements, std::int64_t kept, int low_bits) {
  return kept * low_bits / 8 + (kept + index_buckets(elements, low_bits) + 7) / 8;
}

/// 8 or 16, whichever is smaller; 0: no bytes at all, every element is kept.
constexpr int compact_low_bits(std::int64_t elements, std::int64_t kept) {
  if (kept == elements) return 0;
  return compact_index_bytes(elements, kept, 8) <= compact_index_bytes(elements, kept, 16) ? 8 : 16;
}

}  // namespace thinwire
