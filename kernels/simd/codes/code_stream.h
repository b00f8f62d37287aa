// SIMD primitives of a stream of codes of 1 to 7 bits, the first in the highest bits of a byte: eight codes of B bits fill B bytes (kernels/codec/payload/bit_stream.h).
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// Joins groups of eight codes, a byte each, into `bits` bytes each at `to`, as long as there is room before `end` for stores that are longer than what they keep.
/// Returns how many groups, an even number; the callers write the few that are left.
std::size_t join_codes(const std::uint8_t* codes, std::size_t groups, int bits, std::uint8_t* to, const std::uint8_t* end);

/// The inverse: groups of `bits` bytes become eight codes each, as long as there is enough before `end` for loads that are longer than what they use.
std::size_t split_codes(const std::uint8_t* from, const std::uint8_t* end, std::size_t groups, int bits, std::uint8_t* codes);

}  // namespace thinwire::simd
