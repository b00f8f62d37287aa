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

}  // namespace thinwire::simd
