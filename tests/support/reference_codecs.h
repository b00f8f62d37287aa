// Scalar float64 references of the codecs: written from the formulas, without looking at speed, and without
// any code of kernels/ or core/half.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace thinwire::reference {

/// Nearest number with `precision` significand bits and smallest positive value 2^least, ties to even;
/// infinity from `limit` on.
inline double round_to_format(double x, int precision, int least, double limit) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - precision, least);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::abs(rounded) >= limit ? std::copysign(INFINITY, x) : rounded;
}
inline double to_f16(double x) {
  return round_to_format(x, 11, -24, 65536.0);
}
inline double to_bf16(double x) {
  return round_to_format(x, 8, -133, std::ldexp(1.0, 128));
}

/// Positions of the k largest |x|, ascending; lower positions win ties.
inline std::vector<std::size_t> top_positions(const std::vector<float>& x, std::size_t k) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  k = std::min(k, x.size());
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     return std::abs(x[a]) > std::abs(x[b]) || (std::abs(x[a]) == std::abs(x[b]) && a < b);
                   });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}
inline std::vector<double> top_k(const std::vector<float>& x, std::size_t k) {
  std::vector<double> out(x.size(), 0.0);
  for (const std::size_t i : top_positions(x, k)) out[i] = to_f16(x[i]);
  return out;
}

/// docs/papers/activation_compression.md, "The codecs".
struct Quantized {
  std::vector<double> scale;              // [columns]
  std::vector<std::vector<int>> codes;    // [rows][columns]
  std::vector<std::vector<bool>> is_tie;  // quotient within 1e-6 of a half: f32 and f64 may round apart
  std::vector<double> decoded;            // flat
};
inline Quantized quantize(const std::vector<float>& x, std::size_t rows, std::size_t columns, int bits,
                          bool l2 = false) {
  const double half = std::ldexp(1.0, bits - 1);
  Quantized q;
  q.scale.assign(columns, 0.0);
  q.codes.assign(rows, std::vector<int>(columns));
  q.is_tie.assign(rows, std::vector<bool>(columns));
  q.decoded.assign(rows * columns, 0.0);
  for (std::size_t c = 0; c < columns; ++c) {
    double largest = 0, square = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const double v = x[r * columns + c];
      largest = std::max(largest, std::abs(v));
      square += v * v;
    }
    q.scale[c] = to_f16(l2 ? 2 * std::sqrt(square / static_cast<double>(rows)) : largest);
    const double divisor = to_f16(q.scale[c] + 1e-6);
    for (std::size_t r = 0; r < rows; ++r) {
      const double quotient = x[r * columns + c] / divisor * half;
      const double y = std::clamp(std::nearbyint(quotient), -half, half - 1);
      q.codes[r][c] = static_cast<int>(y + half);
      q.is_tie[r][c] =
          std::abs(quotient - std::floor(quotient) - 0.5) < 1e-6 * std::max(1.0, std::abs(quotient));
      q.decoded[r * columns + c] = y / half * q.scale[c];
    }
  }
  return q;
}
/// Chunks of h in one byte, first chunk highest; missing columns count as zero.
inline std::vector<int> pack_chunks(const std::vector<std::vector<int>>& codes, int bits) {
  const std::size_t chunks = static_cast<std::size_t>(8 / bits);
  std::vector<int> bytes;
  for (const auto& row : codes) {
    const std::size_t width = (row.size() + chunks - 1) / chunks;
    for (std::size_t i = 0; i < width; ++i) {
      int byte = 0;
      for (std::size_t j = 0; j < chunks; ++j)
        byte = byte * (1 << bits) + (j * width + i < row.size() ? row[j * width + i] : 1 << (bits - 1));
      bytes.push_back(byte);
    }
  }
  return bytes;
}
/// One stream of bits over the message, most significant bit first.
inline std::vector<int> pack_neighbours(const std::vector<std::vector<int>>& codes, int bits) {
  std::vector<bool> stream;
  for (const auto& row : codes)
    for (const int code : row)
      for (int b = bits - 1; b >= 0; --b) stream.push_back((code >> b & 1) != 0);
  while (stream.size() % 8 != 0) stream.push_back(false);
  std::vector<int> bytes;
  for (std::size_t i = 0; i < stream.size(); i += 8) {
    int byte = 0;
    for (std::size_t b = 0; b < 8; ++b) byte = byte * 2 + (stream[i + b] ? 1 : 0);
    bytes.push_back(byte);
  }
  return bytes;
}

}  // namespace thinwire::reference
