// A code book of bin means: n values become one code of B bits each and the mean of every bin (INTELLECT-1, SparseLoCo, MuLoCo; docs/papers/low_communication.md, "Code books").
//   m = mean of x, or 0;  sigma = sqrt(sum (x - m)^2 / max(1, n - 1));  step = width * sigma / 2^B
//   q = clamp(round_half_even((x - m) / step - shift), -2^(B-1), 2^(B-1) - 1) + 2^(B-1)
//   shift = 1/2: bins lie alike on both sides of m (ours); 0: the bin that holds m is one of the upper half (released)
//   decoded = book[q] = mean of the x of bin q, 0 of an empty bin; where step = 0 all are one bin
// Sums are f64 in an order of their own: results do not depend on threads or instruction sets.
// Payload: book [2^B] f32; codes in one stream of bits, the first in the highest bits of a byte; the last byte is filled with zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/simd/bin_sums.h"

namespace thinwire {

struct CodeBookRule {
  int bits = 2;  ///< 2, 4 or 8
  double width = 6;
  bool centred = true, half_shift = true;

  std::size_t bins() const { return std::size_t{1} << bits; }
  std::size_t book_bytes() const { return bins() * sizeof(float); }
  std::size_t code_bytes(std::size_t values) const { return (values * static_cast<std::size_t>(bits) + 7) / 8; }
};

/// Keeps scratch memory: one of these per thread that calls it. Inside a parallel region a call stays on its thread, else large ones take all.
class CodeBookWriter {
 public:
  /// False where x holds NaN or infinity.
  bool write(const CodeBookRule& rule, std::span<const float> x, std::byte* book, std::byte* codes);

 private:
  std::vector<simd::Moments> moments_;  // of each segment
  std::vector<simd::Bin> bins_;         // likewise
};

/// False where the book holds NaN or infinity. `stream`: out is larger than the caches.
bool read_code_book(const CodeBookRule& rule, const std::byte* book, const std::byte* codes, std::span<float> out, bool add, bool stream);

}  // namespace thinwire
