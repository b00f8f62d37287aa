// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a counter-based
// generator. A number depends on (seed, stream, index) alone, never on who drew what before: so every
// factoring of a model over ranks starts from the same weights, dropout masks and samples.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace thinwire {

/// One Philox4x32-10 block: 128 random bits for (key, counter).
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// 64-bit FNV-1a: names of tensors become stream numbers.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (char c : name) h = (h ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ull;
  return h;
}

/// Mixes a value into a stream number (SplitMix64 finaliser).
constexpr std::uint64_t mix_stream(std::uint64_t stream, std::uint64_t value) {
  std::uint64_t z = stream + 0x9e3779b97f4a7c15ull * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Random access to a stream: the i-th number is a pure function of (seed, stream, i).
class Random {
 public:
  constexpr Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  Random(std::uint64_t seed, std::string_view name) : Random(seed, hash_name(name)) {}

  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                      {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  }
  constexpr std::uint32_t bits32(std::uint64_t index) const { return block(index / 4)[index % 4]; }
  constexpr std::uint64_t bits64(std::uint64_t index) const {
    const auto b = block(index / 2);
    return index % 2 ? (std::uint64_t{b[3]} << 32 | b[2]) : (std::uint64_t{b[1]} << 32 | b[0]);
  }
  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform(std::uint64_t index) const { return static_cast<float>(bits32(index) >> 8) * 0x1p-24f; }
  /// Uniform integer in [0, bound), bias below 2^-32 * bound.
  constexpr std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    __extension__ using Wide = unsigned __int128;  // GCC and Clang; not ISO C++
    return static_cast<std::uint64_t>((static_cast<Wide>(bits64(index)) * bound) >> 64);
  }
  /// Standard normal by Box-Muller in double; one pair of 32-bit words per number.
  double normal(std::uint64_t index) const {
    const std::uint64_t w = bits64(index);
    const double u = (static_cast<double>(static_cast<std::uint32_t>(w)) + 0.5) * 0x1p-32;
    const double v = static_cast<double>(static_cast<std::uint32_t>(w >> 32)) * 0x1p-32;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace thinwire
