// CUDA implementation of kernels/codec/codecs/integer/quantize.cpp: the same bytes, on a stream.
#include "kernels/codec/codecs/integer/quantize_neighbour_kernels.cuh"
#include "kernels/codec/codecs/integer/quantize_scale_kernels.cuh"
#include "kernels/cuda/launch.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_quantize_encode, thinwire_cuda_quantize_encode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_quantize_decode, thinwire_cuda_quantize_decode_fn);

namespace {

// How the code kernels cover [rows, width] in groups of `group` bytes.
struct Tiling {
  dim3 block;
  std::int64_t column_tiles, blocks;
  Tiling(std::int64_t rows, std::int64_t width, int group) {
    const std::int64_t groups = ceil_divide(width, group);
    const int lanes = quantize_lanes(groups);
    block = dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(quantize_threads / lanes));
    column_tiles = ceil_divide(groups, lanes);
    blocks = column_tiles * ceil_divide(rows, static_cast<std::int64_t>(block.y) * quantize_unroll);
  }
};

template <int kWidth>
cudaError_t column_maxima(const float* x, std::int64_t rows, std::int64_t columns, std::uint32_t* maxima, void* stream) {
  const std::int64_t tiles = ceil_divide(columns, maximum_lanes * kWidth);
  return launch(quantize_column_maxima<kWidth>, tiles * ceil_divide(rows, maximum_rows_per_tile), dim3(maximum_lanes, maximum_rows),
                stream, x, rows, columns, tiles, maxima);
}

template <int kWidth>
cudaError_t column_squares(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t tiles, double* partial, void* stream) {
  if (tiles == 0) return cudaSuccess;
  const std::int64_t column_tiles = ceil_divide(columns, maximum_lanes * kWidth);
  return launch(quantize_column_squares<kWidth>, column_tiles * tiles, dim3(maximum_lanes, maximum_rows), stream, x, rows, columns, column_tiles,
                ceil_divide(rows, tiles), partial);
}

/// norm=max or l2: scales into the payload, divisors [columns] in f32 into the workspace.
cudaError_t make_scales(const float* x, std::int64_t rows, std::int64_t columns, bool l2, std::uint8_t* payload, void* workspace, float*& divisor,
                        std::uint32_t* status, void* stream) {
  const bool wide_rows = columns % 4 == 0 && aligned(x, 16);
  if (l2) {
    const std::int64_t tiles = quantize_row_tiles(rows, columns);
    auto* partial = static_cast<double*>(workspace);
    divisor = reinterpret_cast<float*>(partial + tiles * columns);
    if (const auto e = wide_rows ? column_squares<4>(x, rows, columns, tiles, partial, stream) : column_squares<1>(x, rows, columns, tiles, partial, stream);
        e != cudaSuccess)
      return e;
    return launch(quantize_l2_scales, ceil_divide(columns, maximum_lanes), dim3(maximum_lanes, maximum_rows), stream, partial, tiles, rows, columns, payload,
                  divisor, status);
  }
  auto* maxima = static_cast<std::uint32_t*>(workspace);
  divisor = reinterpret_cast<float*>(maxima + columns);
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(std::uint32_t);
  if (const auto e = cudaMemsetAsync(maxima, 0, bytes, static_cast<cudaStream_t>(stream)); e != cudaSuccess) return e;
  if (const auto e = wide_rows ? column_maxima<4>(x, rows, columns, maxima, stream) : column_maxima<1>(x, rows, columns, maxima, stream);
      e != cudaSuccess)
    return e;
  return launch(quantize_scales, ceil_divide(columns, quantize_threads), quantize_threads, stream, maxima, columns, payload, divisor, status);
}

template <int kBits>
cudaError_t encode_chunks(const float* x, std::int64_t rows, std::int64_t columns, const float* divisor, bool half_arithmetic, std::uint8_t* payload,
                          void* stream) {
  const std::int64_t width = ceil_divide(columns, 8 / kBits);
  std::uint8_t* codes = payload + 2 * columns;
  if (quantize_vectors(x, payload, columns, width)) {
    const Tiling t(rows, width, 4);
    return launch(quantize_encode_codes<kBits, 4>, t.blocks, t.block, stream, x, rows, columns, width, t.column_tiles, divisor, half_arithmetic, codes);
  }
  const Tiling t(rows, width, 1);
  return launch(quantize_encode_codes<kBits, 1>, t.blocks, t.block, stream, x, rows, columns, width, t.column_tiles, divisor, half_arithmetic, codes);
}

cudaError_t encode_stream(const float* x, std::int64_t elements, std::int64_t columns, int bits, const float* divisor, bool half_arithmetic,
                          std::uint8_t* codes, void* stream) {
  const auto kernel = columns % group_codes == 0 && aligned(x, 16) && aligned(divisor, 16) ? quantize_encode_groups<true> : quantize_encode_groups<false>;
  return launch(kernel, ceil_divide(elements, quantize_threads * group_codes), quantize_threads, stream, x, elements, columns, bits, half_arithmetic, divisor,
                codes, aligned(codes, 16));
}

template <int kBits, bool kAdd>
cudaError_t decode(const std::uint8_t* payload, std::int64_t rows, std::int64_t columns, bool half_arithmetic, float* out, std::uint32_t* status, void* stream) {
  const std::int64_t width = ceil_divide(columns, 8 / kBits);
  if (quantize_vectors(out, payload, columns, width)) {
    const Tiling t(rows, width, 4);
    return launch(quantize_decode_codes<kBits, 4, kAdd>, t.blocks, t.block, stream, payload, rows, columns, width, t.column_tiles, half_arithmetic, out, status);
  }
  const Tiling t(rows, width, 1);
  return launch(quantize_decode_codes<kBits, 1, kAdd>, t.blocks, t.block, stream, payload, rows, columns, width, t.column_tiles, half_arithmetic, out, status);
}

template <int kBits>
cudaError_t decode_chunks(const std::uint8_t* payload, std::int64_t rows, std::int64_t columns, bool half_arithmetic, float* out, bool add,
                          std::uint32_t* status, void* stream) {
  return add ? decode<kBits, true>(payload, rows, columns, half_arithmetic, out, status, stream)
             : decode<kBits, false>(payload, rows, columns, half_arithmetic, out, status, stream);
}

cudaError_t decode_stream(const std::uint8_t* payload, std::int64_t elements, std::int64_t columns, int bits, bool half_arithmetic, float* out, bool add,
                          std::uint32_t* status, void* stream) {
  const auto kernel = columns % group_codes == 0 && aligned(out, 16) && aligned(payload, 16) ? quantize_decode_groups<true> : quantize_decode_groups<false>;
  return launch(kernel, ceil_divide(elements, quantize_threads * group_codes), quantize_threads, stream, payload, elements, columns, bits, half_arithmetic, add,
                aligned(payload + 2 * columns, 16), out, status);
}

bool valid(std::int64_t rows, std::int64_t columns, int bits, int form) {
  const bool chunks = bits == 2 || bits == 4 || bits == 8;
  return rows >= 0 && columns >= 0 && bits >= 1 && bits <= 8 && (chunks || (form & quantize_neighbour) != 0) && form >= 0 &&
         form <= (quantize_neighbour | quantize_l2 | quantize_half_arithmetic);
}
/// Codes of 8 bits lie alike in both packings.
bool in_chunks(int bits, int form) { return bits == 8 || (form & quantize_neighbour) == 0; }

}  // namespace

int thinwire_cuda_quantize_encode(const float* x, std::int64_t rows, std::int64_t columns, int bits, int form, void* payload, void* workspace,
                                  std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(rows, columns, bits, form)) return cudaErrorInvalidValue;
  if (columns == 0) return cudaSuccess;
  auto* bytes = static_cast<std::uint8_t*>(payload);
  const bool half_arithmetic = (form & quantize_half_arithmetic) != 0;
  return on_device(ordinal, [&] {
    float* divisor = nullptr;
    if (const auto e = make_scales(x, rows, columns, (form & quantize_l2) != 0, bytes, workspace, divisor, status, stream); e != cudaSuccess) return e;
    if (!in_chunks(bits, form)) return encode_stream(x, rows * columns, columns, bits, divisor, half_arithmetic, bytes + 2 * columns, stream);
    switch (bits) {
      case 2: return encode_chunks<2>(x, rows, columns, divisor, half_arithmetic, bytes, stream);
      case 4: return encode_chunks<4>(x, rows, columns, divisor, half_arithmetic, bytes, stream);
      default: return encode_chunks<8>(x, rows, columns, divisor, half_arithmetic, bytes, stream);
    }
  });
}

int thinwire_cuda_quantize_decode(const void* payload, std::int64_t rows, std::int64_t columns, int bits, int form, float* out, int add_to,
                                  std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(rows, columns, bits, form)) return cudaErrorInvalidValue;
  if (columns == 0) return cudaSuccess;
  const auto* bytes = static_cast<const std::uint8_t*>(payload);
  const bool half_arithmetic = (form & quantize_half_arithmetic) != 0, add = add_to != 0;
  return on_device(ordinal, [&] {
    if (!in_chunks(bits, form)) return decode_stream(bytes, rows * columns, columns, bits, half_arithmetic, out, add, status, stream);
    switch (bits) {
      case 2: return decode_chunks<2>(bytes, rows, columns, half_arithmetic, out, add, status, stream);
      case 4: return decode_chunks<4>(bytes, rows, columns, half_arithmetic, out, add, status, stream);
      default: return decode_chunks<8>(bytes, rows, columns, half_arithmetic, out, add, status, stream);
    }
  });
}
