// Sums in f64 of f32 values, all of them or by bin, in one order on every target: results are equal bits everywhere.
// One thread each; callers split the work, at bounds that do not depend on how many threads there are. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// Not finite where a value is NaN or infinite, and only there.
struct Moments {
  double sum = 0, squares = 0;
};
Moments moments(const float* x, std::size_t n);

/// One bin: the sum of its values and how many they are.
struct Bin {
  double sum = 0, count = 0;
};
/// bins[codes[i]] gets x[i]. codes[i] < count of bins, which is at most 256. What lies 64 KiB behind x is fetched towards the caches.
void add_to_bins(const float* x, const std::uint8_t* codes, std::size_t n, Bin* bins, std::size_t count);

/// The same where codes of 2 or 4 bits share bytes, the first in the highest bits, for many values: those of a byte are added in one step to what bytes of the same value had
/// before, and bins are made of these 256 sums at the end. Two tables take turns, so that an addition seldom waits for the one before.
class PackedBinSums {
 public:
  explicit PackedBinSums(int bits);
  /// n fills whole bytes, but in the last call.
  void add(const float* x, std::size_t n, const std::uint8_t* packed);
  void add_to(Bin* bins) const;

 private:
  std::size_t code_of(std::size_t byte, std::size_t k) const { return byte >> (8 - static_cast<std::size_t>(bits_) * (k + 1)) & ((std::size_t{1} << bits_) - 1); }

  int bits_;
  std::size_t each_;                  ///< codes of a byte
  alignas(64) double sums_[2][1024];  ///< of value v and place k: v * each_ + k; with two codes to a byte the second half is not used
  std::uint32_t counts_[2][256] = {};
  Bin rest_[16] = {};                 ///< of a last byte that is not full
};

}  // namespace thinwire::simd
