// SHA-256 (FIPS 180-4): identity of cells, of corpora, of binaries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace thinwire {

/// Incremental hash. update() any number of times, then digest() or hex() once.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  std::array<std::uint8_t, 32> digest();
  /// 64 lower-case hexadecimal digits.
  std::string hex();

 private:
  void absorb_block(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                      0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  std::array<std::uint8_t, 64> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

/// Hash of a whole text as 64 hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace thinwire
