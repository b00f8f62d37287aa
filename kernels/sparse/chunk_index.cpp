#include "kernels/sparse/chunk_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace thinwire {
namespace {

/// floor(log2(max(1, ln 2 * area / kept))), in integers.
int rice_low_bits(std::int64_t area, std::int64_t kept) {
  constexpr std::int64_t million = 1000000, ln2 = 693147;
  return kept == 0 ? 0 : std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, area * ln2 / (kept * million)))) - 1;
}

/// Bits from the lowest of each byte on. Writes whole bytes; flush() fills the last one with zeros.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : at_(to) {}
  void put(std::uint64_t value, int bits) {  // bits <= 56
    held_ |= value << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) *at_++ = static_cast<std::byte>(held_);
  }
  std::byte* flush() {
    if (count_ > 0) *at_++ = static_cast<std::byte>(held_);
    count_ = 0, held_ = 0;
    return at_;
  }

 private:
  std::byte* at_;
  std::uint64_t held_ = 0;
  int count_ = 0;
};

}  // namespace

std::size_t chunk_index_bytes(ChunkIndexForm form, std::int64_t area, std::int64_t kept) {
  switch (form) {
    case ChunkIndexForm::bits12:
      return static_cast<std::size_t>((3 * kept + 1) / 2);
    case ChunkIndexForm::int64:
      return static_cast<std::size_t>(8 * kept);
    case ChunkIndexForm::rice:
      break;
  }
  return static_cast<std::size_t>((kept * rice_low_bits(area, kept) + 7) / 8);
}

void write_chunk_index(ChunkIndexForm form, std::int64_t area, std::span<const std::uint16_t> positions, std::byte* out) {
  const std::size_t kept = positions.size();
  if (form == ChunkIndexForm::int64) {
    for (std::size_t i = 0; i < kept; ++i) {
      const std::int64_t position = positions[i];
      std::memcpy(out + 8 * i, &position, 8);
    }
    return;
  }
  if (form == ChunkIndexForm::bits12) {
    for (std::size_t i = 0; i < kept; i += 2, out += 3) {
      const std::uint32_t two = positions[i] | (i + 1 < kept ? std::uint32_t{positions[i + 1]} << 12 : 0u);
      std::memcpy(out, &two, i + 1 < kept ? 3 : 2);
    }
    return;
  }
  const int low_bits = rice_low_bits(area, static_cast<std::int64_t>(kept));
  const std::uint32_t mask = (1u << low_bits) - 1;
  BitWriter bits(out);
  std::uint32_t next = 0;
  for (const std::uint16_t position : positions) {
    bits.put((position - next) & mask, low_bits);
    next = position + 1u;
  }
  bits.flush();
}

std::size_t most_rice_bytes(std::int64_t area, std::int64_t kept) {
  return static_cast<std::size_t>((kept + ((area - kept) >> rice_low_bits(area, kept)) + 7) / 8);
}

std::size_t write_rice_ends(std::int64_t area, std::span<const std::uint16_t> positions, std::byte* out) {
  const int low_bits = rice_low_bits(area, static_cast<std::int64_t>(positions.size()));
  BitWriter bits(out);
  std::uint32_t next = 0;
  for (const std::uint16_t position : positions) {
    std::uint32_t zeros = (position - next) >> low_bits;
    for (; zeros >= 32; zeros -= 32) bits.put(0, 32);
    bits.put(std::uint64_t{1} << zeros, static_cast<int>(zeros) + 1);
    next = position + 1u;
  }
  return static_cast<std::size_t>(bits.flush() - out);
}

std::size_t rice_bytes_of(std::span<const std::byte> bytes, std::int64_t kept) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    const int ones = std::popcount(byte);
    if (ones > kept) return 0;
    kept -= ones;
    if (kept == 0) return ones == 0 ? 0 : i + 1;
  }
  return 0;
}

bool read_chunk_index(ChunkIndexForm form, std::int64_t area, std::int64_t kept, const std::byte* in, const std::byte* ends, std::uint16_t* positions) {
  bool inside = true;
  if (form == ChunkIndexForm::int64) {
    for (std::int64_t i = 0; i < kept; ++i) {
      std::uint64_t position = 0;
      std::memcpy(&position, in + 8 * i, 8);
      inside = inside && position < static_cast<std::uint64_t>(area);
      positions[i] = static_cast<std::uint16_t>(position);
    }
  } else if (form == ChunkIndexForm::bits12) {
    for (std::int64_t i = 0; i < kept; i += 2, in += 3) {
      std::uint32_t two = 0;
      std::memcpy(&two, in, i + 1 < kept ? 3 : 2);
      positions[i] = static_cast<std::uint16_t>(two & 0xfff);
      if (i + 1 < kept) positions[i + 1] = static_cast<std::uint16_t>(two >> 12);
    }
  } else {
    const int low_bits = rice_low_bits(area, kept);
    const auto mask = (std::uint64_t{1} << low_bits) - 1;
    std::uint64_t low = 0, high = 0;
    int low_held = 0, high_held = 0;
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < kept; ++i) {
      for (; low_held < low_bits; low_held += 8) low |= std::uint64_t{static_cast<std::uint8_t>(*in++)} << low_held;
      std::int64_t zeros = 0;
      while (high == 0) {  // rice_bytes_of() has seen that all ones are there
        zeros += high_held;
        high = static_cast<std::uint8_t>(*ends++), high_held = 8;
      }
      const int run = std::countr_zero(high);
      zeros += run, high >>= run + 1, high_held -= run + 1;
      next += zeros << low_bits | static_cast<std::int64_t>(low & mask);
      low >>= low_bits, low_held -= low_bits;
      inside = inside && next < area;
      positions[i] = static_cast<std::uint16_t>(next++);
    }
  }
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (std::int64_t i = 1; i < kept; ++i) bad |= positions[i] <= positions[i - 1] ? 1 : 0;
  return inside && bad == 0 && (kept == 0 || positions[kept - 1] < area);
}

}  // namespace thinwire
