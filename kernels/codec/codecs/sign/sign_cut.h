// Where signs and their scales lie, as plain numbers: on the host (sign.h) and on a device (sign.cu) alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

enum class SignScale : std::uint8_t { l1, l2, none };

/// A tensor as lines: the elements that share a scale, the last line may be shorter. Stripes of a line are summed by themselves.
struct SignCut {
  static constexpr std::int64_t stripe = 4096;
  static constexpr std::int64_t sums = 256;  ///< of stripes' sums (line_sum in sign.cpp)

  constexpr SignCut(std::int64_t of_elements, std::int64_t of_length, bool has_scales)
      : elements(of_elements),
        length(of_length),
        count(elements == 0 ? 0 : (elements + length - 1) / length),
        stripes(elements == 0 ? 0 : (length + stripe - 1) / stripe),
        scales(has_scales ? count : 0) {}
  std::int64_t elements, length, count, stripes, scales;

  constexpr std::int64_t length_of(std::int64_t line) const { return length < elements - line * length ? length : elements - line * length; }
  constexpr std::int64_t bits_at(std::int64_t line) const { return 4 * scales + line * ((length + 7) / 8); }
  constexpr std::size_t payload_bytes() const { return count == 0 ? 0 : static_cast<std::size_t>(bits_at(count - 1) + (length_of(count - 1) + 7) / 8); }
};

}  // namespace thinwire
