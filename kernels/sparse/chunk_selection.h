// The k largest |x| of a chunk, exactly; among equal magnitudes the lower position wins. A bound near the k-th magnitude, guessed from the chunk before, leaves few
// candidates, among which a bisection finds the cut. The result does not depend on the guess.
#pragma once

#include <cstdint>
#include <span>

#include "core/device/device.h"

namespace thinwire {

/// One per thread. Memory grows only.
class ChunkSelection {
 public:
  /// Of rows x columns values, rows `stride` elements apart; position = row * width + column, at most 65535; k <= rows * columns. False where one is NaN or infinite.
  struct Values {
    const float* x = nullptr;
    std::size_t stride = 0, rows = 0, columns = 0, width = 0;
  };
  bool select(const Values& of, std::size_t k);
  /// Ascending, and the values there; until the next call.
  std::span<const std::uint16_t> positions() const { return {positions_, kept_}; }
  std::span<const float> values() const { return {values_, kept_}; }

 private:
  void drop_last_equals(std::uint32_t cut, std::size_t found);
  void fill_with_zeros(const Values& of);

  Buffer position_room_, value_room_;
  std::uint16_t* positions_ = nullptr;
  float* values_ = nullptr;
  std::size_t kept_ = 0;
  std::uint32_t guess_ = 1;  // magnitude bits; 1: of the smallest number that is not 0
};

}  // namespace thinwire
