#include "kernels/sparse/chunk_selection.h"

#include <algorithm>
#include <bit>

#include "kernels/simd/magnitude.h"

namespace thinwire {

bool ChunkSelection::select(const Values& of, std::size_t k) {
  const std::size_t n = of.rows * of.columns;
  positions_ = position_room_.as<std::uint16_t>(n + simd::collect_slack);
  values_ = value_room_.as<float>(n + simd::collect_slack);
  kept_ = k;
  std::uint32_t maximum = 0, lower = guess_;
  const auto collect = [&] { return simd::collect_tile(of.x, of.stride, of.rows, of.columns, of.width, lower, positions_, values_, maximum); };
  std::size_t found = collect();
  while (found < k && lower > 1) {  // a quarter of the magnitude, then whatever is not 0
    lower = lower == guess_ && lower > (2u << 23) ? lower - (2u << 23) : 1;
    found = collect();
  }
  if (maximum >= simd::non_finite_bits) return false;
  if (found < k) {
    fill_with_zeros(of);
    return true;
  }
  if (k == 0) return true;
  const std::uint32_t cut = simd::cut_of_rank(values_, found, k, lower, maximum);
  found = simd::keep_at_least(positions_, values_, found, cut);
  if (found > k) drop_last_equals(cut, found);
  guess_ = std::max(1u, simd::magnitude_bits(0.95f * std::bit_cast<float>(cut)));
  return true;
}

void ChunkSelection::drop_last_equals(std::uint32_t cut, std::size_t found) {
  std::size_t above = 0;
  for (std::size_t i = 0; i < found; ++i) above += simd::magnitude_bits(values_[i]) > cut ? 1 : 0;
  std::size_t equals = kept_ - above, write = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const bool equal = simd::magnitude_bits(values_[i]) == cut;
    if (equal && equals == 0) continue;
    equals -= equal ? 1 : 0;
    positions_[write] = positions_[i], values_[write++] = values_[i];
  }
}

// Fewer than k are not 0: the first zeros are kept, too.
void ChunkSelection::fill_with_zeros(const Values& of) {
  std::size_t zeros = kept_, write = 0;
  const auto for_all = [&](const auto& body) {
    for (std::size_t r = 0; r < of.rows; ++r)
      for (std::size_t c = 0; c < of.columns; ++c) body(of.x[r * of.stride + c], r * of.width + c);
  };
  for_all([&](float value, std::size_t) { zeros -= value != 0 ? 1 : 0; });
  for_all([&](float value, std::size_t position) {
    if (value == 0 && zeros == 0) return;
    zeros -= value == 0 ? 1 : 0;
    positions_[write] = static_cast<std::uint16_t>(position), values_[write++] = value;
  });
}

}  // namespace thinwire
