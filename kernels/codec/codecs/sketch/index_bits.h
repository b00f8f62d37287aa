// Which elements a message holds, on the wire and as words.
//   words   bit i % 64 of word i / 64 is element i; whole rows of 1024, zero behind the last element
//   1 bit   bit i % 8 of byte i / 8: the words' own bytes; adds up over ranks by OR
//   4 bits  the lower half of byte i / 2 for even i, the upper for odd; adds up by SUM, over at most 15 ranks
// Bits behind the last element are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace thinwire {

/// Ranks whose fields of 4 bits add up without a carry into the next one.
inline constexpr int most_counted_ranks = 15;

constexpr std::size_t index_bytes(std::int64_t elements, int bits) { return static_cast<std::size_t>((elements * bits + 7) / 8); }
void write_index(std::span<const std::uint64_t> words, std::int64_t elements, int bits, std::byte* out);
/// Elements of a field that is not 0. False where there are bits behind the last element; `words` has none.
bool read_index(const std::byte* in, std::int64_t elements, int bits, std::span<std::uint64_t> words);

}  // namespace thinwire
