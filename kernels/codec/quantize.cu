// Device twin of kernels/codec/quantize.cpp (norm=max, chunk packing, bits 2, 4, 8): the same bytes, on a stream.
#include "kernels/codec/quantize_kernels.cuh"
#include "kernels/cuda/launch.cuh"

using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY thinwire_cuda_quantize_encode_fn thinwire_cuda_quantize_encode;
THINWIRE_CUDA_ENTRY thinwire_cuda_quantize_decode_fn thinwire_cuda_quantize_decode;

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

template <int kBits>
cudaError_t encode(const float* x, std::int64_t rows, std::int64_t columns, std::uint8_t* payload, void* workspace, std::uint32_t* status,
                   void* stream) {
  const std::int64_t width = ceil_divide(columns, 8 / kBits);
  auto* maxima = static_cast<std::uint32_t*>(workspace);
  auto* divisor = reinterpret_cast<float*>(maxima + columns);
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(std::uint32_t);
  if (const auto e = cudaMemsetAsync(maxima, 0, bytes, static_cast<cudaStream_t>(stream)); e != cudaSuccess) return e;
  const bool wide_rows = columns % 4 == 0 && aligned(x, 16);
  if (const auto e = wide_rows ? column_maxima<4>(x, rows, columns, maxima, stream) : column_maxima<1>(x, rows, columns, maxima, stream);
      e != cudaSuccess)
    return e;
  if (const auto e = launch(quantize_scales, ceil_divide(columns, quantize_threads), quantize_threads, stream, maxima, columns, payload,
                            divisor, status);
      e != cudaSuccess)
    return e;
  std::uint8_t* codes = payload + 2 * columns;
  if (quantize_vectors(x, payload, columns, width)) {
    const Tiling t(rows, width, 4);
    return launch(quantize_encode_codes<kBits, 4>, t.blocks, t.block, stream, x, rows, columns, width, t.column_tiles, divisor, codes);
  }
  const Tiling t(rows, width, 1);
  return launch(quantize_encode_codes<kBits, 1>, t.blocks, t.block, stream, x, rows, columns, width, t.column_tiles, divisor, codes);
}

template <int kBits, bool kAdd>
cudaError_t decode(const std::uint8_t* payload, std::int64_t rows, std::int64_t columns, float* out, std::uint32_t* status, void* stream) {
  const std::int64_t width = ceil_divide(columns, 8 / kBits);
  if (quantize_vectors(out, payload, columns, width)) {
    const Tiling t(rows, width, 4);
    return launch(quantize_decode_codes<kBits, 4, kAdd>, t.blocks, t.block, stream, payload, rows, columns, width, t.column_tiles, out, status);
  }
  const Tiling t(rows, width, 1);
  return launch(quantize_decode_codes<kBits, 1, kAdd>, t.blocks, t.block, stream, payload, rows, columns, width, t.column_tiles, out, status);
}

template <int kBits>
cudaError_t decode_or_add(const std::uint8_t* payload, std::int64_t rows, std::int64_t columns, float* out, bool add, std::uint32_t* status,
                          void* stream) {
  return add ? decode<kBits, true>(payload, rows, columns, out, status, stream) : decode<kBits, false>(payload, rows, columns, out, status, stream);
}

}  // namespace

int thinwire_cuda_quantize_encode(const float* x, std::int64_t rows, std::int64_t columns, int bits, void* payload, void* workspace,
                                  std::uint32_t* status, int ordinal, void* stream) {
  if (columns == 0) return cudaSuccess;
  auto* bytes = static_cast<std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    switch (bits) {
      case 2: return encode<2>(x, rows, columns, bytes, workspace, status, stream);
      case 4: return encode<4>(x, rows, columns, bytes, workspace, status, stream);
      case 8: return encode<8>(x, rows, columns, bytes, workspace, status, stream);
      default: return cudaErrorInvalidValue;
    }
  });
}

int thinwire_cuda_quantize_decode(const void* payload, std::int64_t rows, std::int64_t columns, int bits, float* out, int add,
                                  std::uint32_t* status, int ordinal, void* stream) {
  if (columns == 0) return cudaSuccess;
  const auto* bytes = static_cast<const std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    switch (bits) {
      case 2: return decode_or_add<2>(bytes, rows, columns, out, add != 0, status, stream);
      case 4: return decode_or_add<4>(bytes, rows, columns, out, add != 0, status, stream);
      case 8: return decode_or_add<8>(bytes, rows, columns, out, add != 0, status, stream);
      default: return cudaErrorInvalidValue;
    }
  });
}
