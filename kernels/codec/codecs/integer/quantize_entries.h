// Entry points of kernels/codec/codecs/integer/quantize.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

/// Forms of quantize, ORed: one stream of codes instead of chunks (any bits from 1 to 8; chunks need 2, 4 or 8), scales from the mean square,
/// and the released code's arithmetic in f16.
inline constexpr int quantize_neighbour = 1, quantize_l2 = 2, quantize_half_arithmetic = 4;
/// Parts into which rows are cut for sums of squares: about 2048 blocks of 128 columns.
constexpr std::int64_t quantize_row_tiles(std::int64_t rows, std::int64_t columns) {
  const std::int64_t column_tiles = (columns + 127) / 128, most = (rows + 127) / 128;
  const std::int64_t wanted = column_tiles == 0 ? 0 : (2047 + column_tiles) / column_tiles;
  return most < wanted ? most : wanted;
}
/// Bytes of device workspace that thinwire_cuda_quantize_encode needs.
constexpr std::size_t quantize_workspace_bytes(std::int64_t rows, std::int64_t columns, int form) {
  return static_cast<std::size_t>(columns) * (4 + ((form & quantize_l2) != 0 ? 8 * static_cast<std::size_t>(quantize_row_tiles(rows, columns)) : 4));
}

}  // namespace thinwire

extern "C" {
/// x f32[rows, columns] -> payload (f16 scales [columns], then codes) in `form`. norm=l2 sums in float64 in an order of its own: a scale differs
/// from the host's only where both sums round to different f16 numbers (once in 1e10 columns).
/// `workspace`: quantize_workspace_bytes(rows, columns, form).
using thinwire_cuda_quantize_encode_fn = int(const float* x, std::int64_t rows, std::int64_t columns, int bits, int form, void* payload,
                                             void* workspace, std::uint32_t* status, int ordinal, void* stream);
using thinwire_cuda_quantize_decode_fn = int(const void* payload, std::int64_t rows, std::int64_t columns, int bits, int form, float* out,
                                             int add, std::uint32_t* status, int ordinal, void* stream);
}
