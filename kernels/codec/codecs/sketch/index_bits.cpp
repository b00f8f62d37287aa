#include "kernels/codec/codecs/sketch/index_bits.h"

#include <algorithm>
#include <cstring>

#include "kernels/threads.h"

namespace thinwire {
namespace {

// Bit k of a byte to bit 4 k, and back: halves, quarters and eighths move apart.
std::uint32_t spread(std::uint32_t byte) {
  std::uint32_t x = (byte | byte << 12) & 0x000f000fu;
  x = (x | x << 6) & 0x03030303u;
  return (x | x << 3) & 0x11111111u;
}
std::uint32_t gather(std::uint32_t fields) {
  std::uint32_t x = (fields | fields >> 1 | fields >> 2 | fields >> 3) & 0x11111111u;
  x = (x | x >> 3) & 0x03030303u;
  x = (x | x >> 6) & 0x000f000fu;
  return (x | x >> 12) & 0xffu;
}

}  // namespace

void write_index(std::span<const std::uint64_t> words, std::int64_t elements, int bits, std::byte* out) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(words.data());
  const std::size_t size = index_bytes(elements, bits);
  if (size == 0) return;
  if (bits == 1) {
    std::memcpy(out, bytes, size);
    return;
  }
  parallel_for(static_cast<std::int64_t>(size / 4), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t fields = spread(bytes[i]);
      std::memcpy(out + 4 * i, &fields, sizeof fields);
    }
  });
  if (size % 4 == 0) return;
  const std::uint32_t last = spread(bytes[size / 4]);
  std::memcpy(out + size / 4 * 4, &last, size % 4);
}

bool read_index(const std::byte* in, std::int64_t elements, int bits, std::span<std::uint64_t> words) {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(words.data());
  const std::size_t size = index_bytes(elements, bits), used = index_bytes(elements, 1);
  std::memset(bytes + used, 0, words.size_bytes() - used);
  if (size == 0) return true;
  if (bits == 1) {
    std::memcpy(bytes, in, size);
  } else {
    parallel_for(static_cast<std::int64_t>(size / 4), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::uint32_t fields = 0;
        std::memcpy(&fields, in + 4 * i, sizeof fields);
        bytes[i] = static_cast<std::uint8_t>(gather(fields));
      }
    });
    if (size % 4 != 0) {
      std::uint32_t last = 0;
      std::memcpy(&last, in + size / 4 * 4, size % 4);
      bytes[size / 4] = static_cast<std::uint8_t>(gather(last));
    }
  }
  if (elements % 8 == 0) return true;
  const auto inside = static_cast<std::uint8_t>((1u << elements % 8) - 1);
  const bool good = (bytes[used - 1] & ~inside) == 0;
  bytes[used - 1] &= inside;
  return good;
}

}  // namespace thinwire
