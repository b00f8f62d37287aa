// Codes of 1 to 8 bits in one stream of bits, the first code in the highest bits (AQ-SGD's neighbour packing,
// docs/papers/activation_compression.md, "AQ-SGD"). Eight codes of B bits fill exactly B bytes: a group.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/simd/codes/code_stream.h"

namespace thinwire {

/// Eight codes, one per byte of `codes`, as the lowest 8 * bits bits of the result, first code highest:
/// neighbours are joined three times, pairs of 1, 2 and 4 codes.
inline std::uint64_t join_codes(const std::uint8_t* codes, int bits) {
  std::uint64_t v = 0;
  std::memcpy(&v, codes, 8);
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
  v = (v & 0x00ff00ff00ff00ffull) | (v & 0xff00ff00ff00ff00ull) >> (8 - bits);
  v = (v & 0x0000ffff0000ffffull) | (v & 0xffff0000ffff0000ull) >> (16 - 2 * bits);
  return (v & 0x00000000ffffffffull) | (v & 0xffffffff00000000ull) >> (32 - 4 * bits);
}

/// The inverse of join_codes.
inline void split_codes(std::uint64_t v, int bits, std::uint8_t* codes) {
  const auto low = [](int n) { return (std::uint64_t{1} << n) - 1; };
  v = (v & low(4 * bits)) | (v & ~low(4 * bits)) << (32 - 4 * bits);
  const std::uint64_t two = low(2 * bits) * 0x0000000100000001ull;
  v = (v & two) | (v & ~two) << (16 - 2 * bits);
  const std::uint64_t one = low(bits) * 0x0001000100010001ull;
  v = (v & one) | (v & ~one) << (8 - bits);
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
  std::memcpy(codes, &v, 8);
}

/// Writes `count` codes to [to, end) and returns where the stream goes on. A last group of fewer than 8 codes
/// is filled with zeros, and only its ceil(count * bits / 8) bytes are written.
inline std::uint8_t* write_codes(const std::uint8_t* codes, std::size_t count, int bits, std::uint8_t* to,
                                 const std::uint8_t* end) {
  const auto big_endian = [&](const std::uint8_t* group) {
    const std::uint64_t v = join_codes(group, bits) << (64 - 8 * bits);
    return std::endian::native == std::endian::little ? __builtin_bswap64(v) : v;
  };
  std::size_t i = bits < 8 ? 8 * simd::join_codes(codes, count / 8, bits, to, end) : 0;
  to += i / 8 * static_cast<std::size_t>(bits);
  for (; i + 8 <= count; i += 8, to += bits) {
    const std::uint64_t v = big_endian(codes + i);
    if (end - to >= 8)
      std::memcpy(to, &v, 8);  // what is too much is overwritten by the next group
    else
      std::memcpy(to, &v, static_cast<std::size_t>(bits));
  }
  if (i == count) return to;
  std::uint8_t group[8] = {};
  std::memcpy(group, codes + i, count - i);
  const std::uint64_t v = big_endian(group);
  const std::size_t bytes = ((count - i) * static_cast<std::size_t>(bits) + 7) / 8;
  std::memcpy(to, &v, bytes);
  return to + bytes;
}

/// Reads `groups` groups of 8 codes from [from, end), zeros behind the end, and returns where the stream goes
/// on.
inline const std::uint8_t* read_codes(const std::uint8_t* from, const std::uint8_t* end, std::size_t groups,
                                      int bits, std::uint8_t* codes) {
  std::size_t g = bits < 8 ? simd::split_codes(from, end, groups, bits, codes) : 0;
  from += g * static_cast<std::size_t>(bits);
  for (; g < groups; ++g) {
    std::uint64_t v = 0;
    if (end - from >= 8)
      std::memcpy(&v, from, 8);
    else if (end > from)
      std::memcpy(&v, from, static_cast<std::size_t>(end - from));
    if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
    split_codes(v >> (64 - 8 * bits), bits, codes + 8 * g);
    from += end - from < bits ? end - from : bits;
  }
  return from;
}

}  // namespace thinwire
