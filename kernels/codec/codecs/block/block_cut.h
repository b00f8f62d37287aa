// Where a codec with a scale per block has what, as plain numbers: on the host (block_codec.h) and on a device (block_kernels.cuh) alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire {

/// Rows that share a scale may be longer; on a device their largest magnitudes are then found before.
inline constexpr std::int64_t longest_device_block = 8192;

struct BlockLayout {
  int bits = 8;
  std::int64_t block = 32;       ///< 0: a whole row; else a multiple of 16
  std::size_t head_bytes = 0, scale_bytes = 1;
  bool reads_twice = false;      ///< the head needs the largest magnitude of the tensor before anything else
  bool flat = false;             ///< the tensor is one row
  std::size_t table_bytes = 0;   ///< left to the codec, as a head is that needs no magnitude
};

/// A tensor of that layout: head, scales of all blocks row by row, table, codes row by row; a row's codes end with their last byte.
struct BlockCut {
  constexpr BlockCut(std::int64_t of_rows, std::int64_t of_columns, const BlockLayout& layout)
      : rows(!layout.flat ? of_rows : of_rows * of_columns > 0 ? 1 : 0),
        columns(!layout.flat ? of_columns : of_rows * of_columns),
        block(layout.block > 0 ? layout.block : columns > 0 ? columns : 1),
        blocks_of_row((columns + block - 1) / block),
        bytes_of_row((columns * layout.bits + 7) / 8),
        scales_at(static_cast<std::int64_t>(layout.head_bytes)),
        scale_bytes(static_cast<std::int64_t>(layout.scale_bytes)),
        codes_at(scales_at + blocks() * scale_bytes + static_cast<std::int64_t>(layout.table_bytes)),
        bits(layout.bits) {}

  std::int64_t rows, columns;
  std::int64_t block;                        ///< elements that share a scale; the last of a row may be fewer
  std::int64_t blocks_of_row, bytes_of_row;
  std::int64_t scales_at, scale_bytes, codes_at;
  std::int64_t bits;

  constexpr std::int64_t blocks() const { return rows * blocks_of_row; }
  constexpr std::size_t payload_bytes() const { return static_cast<std::size_t>(codes_at + rows * bytes_of_row); }
  /// Of block `number`, counted through all rows.
  constexpr std::int64_t scale_at(std::int64_t number) const { return scales_at + number * scale_bytes; }
  /// Of what begins at element `from` of a row, eight codes of which are whole bytes.
  constexpr std::int64_t code_at(std::int64_t row, std::int64_t from) const { return codes_at + row * bytes_of_row + from / 8 * bits; }
};

}  // namespace thinwire
