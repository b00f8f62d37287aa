// A row of numbers for each token id that every rank knows without a message: row t is drawn from the generator of (seed, t), N(0, deviation^2), rounded to
// bf16, so that what logarithms of two machines' libraries differ by is rounded away. Rows are drawn when their token first comes, and kept: 2 bytes a number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace thinwire {

class TokenTable {
 public:
  TokenTable(std::int64_t columns, double deviation, std::uint64_t seed) : columns_(columns), deviation_(deviation), seed_(seed) {}

  /// to[r] = the row of tokens[r], valid until the next call. UsageError for a number that is no token id: below 0, or 2^24 and above.
  void rows_of(std::span<const std::int32_t> tokens, std::span<const BFloat16*> to);

 private:
  void draw(std::int32_t token, BFloat16* row) const;

  std::int64_t columns_;
  double deviation_;
  std::uint64_t seed_;
  std::vector<std::int32_t> places_;  ///< by token: the number of its row; -1: not drawn yet
  std::vector<std::int32_t> new_;     ///< tokens of the current message that come for the first time
  std::vector<BFloat16> rows_;
};

}  // namespace thinwire
