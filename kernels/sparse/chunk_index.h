// Positions of the kept elements of one chunk on the wire: `kept` ascending numbers below `area`, at most 4096.
//   bits12  two in three bytes, the first in the low bits; the last of an odd number in two bytes        (5, 4095): 05 f0 ff
//   int64   8 bytes each, as DeMo's code sends them
//   rice    the differences d to the position before (-1 at first), less one, by Rice's code (Rice 1979) with b = floor(log2(max(1, ln 2 * area / kept))) low bits:
//           a first part with the low bits of all, one stream, lowest bits first; a second with d >> b zeros and a one for each. Both end with their last byte.
//           The size of the second depends on the positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace thinwire {

enum class ChunkIndexForm { bits12, rice, int64 };

/// Bytes of the part whose size is fixed; all but Rice's have no other.
std::size_t chunk_index_bytes(ChunkIndexForm form, std::int64_t area, std::int64_t kept);
void write_chunk_index(ChunkIndexForm form, std::int64_t area, std::span<const std::uint16_t> positions, std::byte* out);

/// The second part: its largest size, and its size as written.
std::size_t most_rice_bytes(std::int64_t area, std::int64_t kept);
std::size_t write_rice_ends(std::int64_t area, std::span<const std::uint16_t> positions, std::byte* out);
/// Its size, from its beginning in `bytes`; 0 where these end before it does or have bits behind it. kept > 0.
std::size_t rice_bytes_of(std::span<const std::byte> bytes, std::int64_t kept);

/// False for positions that are not ascending below `area`. `ends`: where the second part begins, of checked size.
bool read_chunk_index(ChunkIndexForm form, std::int64_t area, std::int64_t kept, const std::byte* in, const std::byte* ends, std::uint16_t* positions);

}  // namespace thinwire
