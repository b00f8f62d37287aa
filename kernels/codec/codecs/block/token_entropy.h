// How evenly a token's magnitudes are spread over its channels: what tah chooses tokens by.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace thinwire {

/// ln x of a positive normal number, without calls or branches: loops over it become vector code. x = 2^e m with m from sqrt(1/2) to sqrt(2);
/// ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...), s = (m - 1) / (m + 1), |s| < 0.172, of which 11 terms leave an error below 1e-18.
inline double natural_log(double x) {
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcdu, fraction = (std::uint64_t{1} << 52) - 1, bias = std::uint64_t{1024} << 52;
  const std::uint64_t from_root = std::bit_cast<std::uint64_t>(x) - root_half + bias;
  const double exponent = std::bit_cast<double>(std::uint64_t{0x4330000000000000u} | from_root >> 52) - (0x1p52 + 1024);  // the integer behind 2^52
  const double m = std::bit_cast<double>((from_root & fraction) + root_half), s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 21;
  sum = sum * z + 1.0 / 19, sum = sum * z + 1.0 / 17, sum = sum * z + 1.0 / 15, sum = sum * z + 1.0 / 13, sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9, sum = sum * z + 1.0 / 7, sum = sum * z + 1.0 / 5, sum = sum * z + 1.0 / 3, sum = sum * z + 1;
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

/// H = -sum p ln(p + 1e-30), p = |x| / (mass + 1e-30), `mass` the sum of magnitudes.
inline double entropy_of(const float* token, std::int64_t columns, double mass) {
  constexpr double least_mass = 1e-30;
  const double inverse = 1 / (mass + least_mass);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) {
    const double p = std::abs(double{token[c]}) * inverse;
    sum += p * natural_log(p + least_mass);
  }
  return -sum;
}

}  // namespace thinwire
