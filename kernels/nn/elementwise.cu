// Device twin of kernels/nn/elementwise.cpp.
#include "core/random.h"
#include "kernels/codec/device_kernels.h"
#include "kernels/cuda/map.cuh"
#include "kernels/nn/column_sums_kernels.cuh"
#include "kernels/nn/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY thinwire_cuda_fill_rows_fn thinwire_cuda_fill_rows;
THINWIRE_CUDA_ENTRY thinwire_cuda_add_column_sums_fn thinwire_cuda_add_column_sums;
THINWIRE_CUDA_ENTRY thinwire_cuda_add_into_fn thinwire_cuda_add_into;
THINWIRE_CUDA_ENTRY thinwire_cuda_scale_in_place_fn thinwire_cuda_scale_in_place;
THINWIRE_CUDA_ENTRY thinwire_cuda_embed_fn thinwire_cuda_embed;
THINWIRE_CUDA_ENTRY thinwire_cuda_embed_backward_fn thinwire_cuda_embed_backward;
THINWIRE_CUDA_ENTRY thinwire_cuda_dropout_fn thinwire_cuda_dropout;

namespace {

template <typename T>
struct FillRows {
  static constexpr int width = pack_size<T>;
  const T* bias;
  T* y;
  std::int64_t columns;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth];
    load_pack<kWidth>(bias + i % columns, v);
    store_pack<kWidth>(y + i, v);
  }
};

template <typename T>
struct AddInto {
  static constexpr int width = pack_size<T>;
  const T* x;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float a[kWidth], b[kWidth];
    load_pack<kWidth>(x + i, a);
    load_pack<kWidth>(y + i, b);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) b[j] += a[j];
    store_pack<kWidth>(y + i, b);
  }
};

template <typename T>
struct Scale {
  static constexpr int width = pack_size<T>;
  float factor;
  T* x;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth];
    load_pack<kWidth>(x + i, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) v[j] *= factor;
    store_pack<kWidth>(x + i, v);
  }
};

template <typename T>
struct ColumnSum {
  const T* x;
  std::int64_t columns;
  __device__ void operator()(std::int64_t r, std::int64_t c, float (&sums)[1]) const { sums[0] += value_of(x[r * columns + c]); }
};

template <typename T>
struct Embed {
  static constexpr int width = pack_size<T>;
  std::int64_t columns, seq, vocab, first, count;
  const std::int32_t* tokens;
  const T *table, *positions;
  T* y;
  std::uint32_t* status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const std::int64_t r = i / columns, c = i % columns, token = tokens[r], row = token - first;
    if (token < 0 || token >= vocab) atomicOr(status, device_status_damaged);
    float v[kWidth] = {};
    if (token >= 0 && token < vocab && row >= 0 && row < count) load_pack<kWidth>(table + row * columns + c, v);
    if (positions != nullptr) {
      float p[kWidth];
      load_pack<kWidth>(positions + r % seq * columns + c, p);
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) v[j] += p[j];
    }
    store_pack<kWidth>(y + i, v);
  }
};

constexpr int embed_threads = 256;

// A block per row of dy. The first row with a token adds up all rows with it, in order, so that no two blocks write to one row of the gradient and
// the order of additions is fixed.
template <typename T>
__global__ void __launch_bounds__(embed_threads) embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t first, std::int64_t count,
                                                                const std::int32_t* __restrict__ tokens, const T* __restrict__ dy, float* gradient) {
  __shared__ std::uint32_t scratch[embed_threads / 32], equal[embed_threads / 32];
  const std::int64_t r = blockIdx.x;
  const std::int32_t token = tokens[r];
  const std::int64_t row = token - first;
  if (row < 0 || row >= count) return;
  std::uint32_t earlier = 0;
  for (std::int64_t q = threadIdx.x; q < r; q += embed_threads) earlier |= tokens[q] == token ? 1u : 0u;
  if (block_reduce<Maximum, embed_threads>(earlier, scratch) != 0) return;
  for (std::int64_t base = r; base < rows; base += embed_threads) {
    const std::int64_t q = base + threadIdx.x;
    const std::uint32_t found = __ballot_sync(all_lanes, q < rows && tokens[q] == token);
    __syncthreads();  // the words of the last turn have been read
    if (threadIdx.x % 32 == 0) equal[threadIdx.x / 32] = found;
    __syncthreads();
    for (int w = 0; w < embed_threads / 32; ++w)
      for (std::uint32_t rest = equal[w]; rest != 0; rest &= rest - 1) {
        const T* from = dy + (base + 32 * w + __ffs(rest) - 1) * columns;
        for (std::int64_t c = threadIdx.x; c < columns; c += embed_threads) gradient[row * columns + c] += value_of(from[c]);
      }
  }
}

// position_gradient [seq, columns] += rows r, r + seq, r + 2 seq, ... in order.
template <typename T>
struct PositionGradient {
  static constexpr int width = pack_size<T>;
  std::int64_t rows, columns, seq;
  const T* dy;
  float* gradient;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float sum[kWidth] = {};
    for (std::int64_t at = i; at < rows * columns; at += seq * columns) {
      float v[kWidth];
      load_pack<kWidth>(dy + at, v);
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) sum[j] += v[j];
    }
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) gradient[i + j] += sum[j];
  }
};

// Four elements of one generator block per step; `index` is the first element's global index divided by four.
template <typename T>
struct Dropout {
  static constexpr int width = 4;
  std::uint64_t seed, stream;
  std::int64_t count, first_index;
  std::uint32_t dropped_below;
  float factor;
  const T* x;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t block) const {
    const auto bits = Random(seed, stream).block(static_cast<std::uint64_t>(first_index / 4 + block));
    THINWIRE_UNROLL
    for (int lane = 0; lane < 4; ++lane) {
      const std::int64_t i = (first_index / 4 + block) * 4 + lane - first_index;
      if (i < 0 || i >= count) continue;
      store_value(y + i, bits[static_cast<std::size_t>(lane)] < dropped_below ? 0.0f : value_of(x[i]) * factor);
    }
  }
};

}  // namespace

int thinwire_cuda_fill_rows(int type, std::int64_t rows, std::int64_t columns, const void* bias, void* y, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return map(FillRows<T>{static_cast<const T*>(bias), static_cast<T*>(y), columns}, rows * columns, packs_rows<T>(columns, {bias, y}), stream);
  });
}

int thinwire_cuda_add_column_sums(int type, std::int64_t rows, std::int64_t columns, const void* x, float* sums, void* workspace, int ordinal,
                                  void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return column_sums<1>(ColumnSum<T>{static_cast<const T*>(x), columns}, rows, columns, sums, sums, workspace, stream);
  });
}

int thinwire_cuda_add_into(int type, std::int64_t count, const void* x, void* y, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return map(AddInto<T>{static_cast<const T*>(x), static_cast<T*>(y)}, count, aligned(x, 16) && aligned(y, 16), stream);
  });
}

int thinwire_cuda_scale_in_place(int type, std::int64_t count, float factor, void* x, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return map(Scale<T>{factor, static_cast<T*>(x)}, count, aligned(x, 16), stream);
  });
}

int thinwire_cuda_embed(int type, std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t vocab, std::int64_t first, std::int64_t count,
                        const std::int32_t* tokens, const void* table, const void* positions, void* y, std::uint32_t* status, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const Embed<T> embed{columns, seq, vocab, first, count, tokens, static_cast<const T*>(table), static_cast<const T*>(positions), static_cast<T*>(y), status};
    return map(embed, rows * columns, packs_rows<T>(columns, {table, positions, y}), stream);
  });
}

int thinwire_cuda_embed_backward(int type, std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t first, std::int64_t count,
                                 const std::int32_t* tokens, const void* dy, float* token_gradient, float* position_gradient, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    if (const auto e = launch(embed_backward<T>, rows, embed_threads, stream, rows, columns, first, count, tokens, static_cast<const T*>(dy), token_gradient);
        e != cudaSuccess || position_gradient == nullptr)
      return e;
    return map(PositionGradient<T>{rows, columns, seq, static_cast<const T*>(dy), position_gradient}, (seq < rows ? seq : rows) * columns,
               packs_rows<T>(columns, {dy}), stream);
  });
}

int thinwire_cuda_dropout(int type, std::int64_t count, double rate, std::uint64_t seed, std::uint64_t random_stream, std::int64_t first_index,
                          const void* x, void* y, int ordinal, void* stream) {
  if (!(rate > 0.0 && rate < 1.0)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const Dropout<T> dropout{seed, random_stream, count, first_index, static_cast<std::uint32_t>(rate * 0x1p32), static_cast<float>(1.0 / (1.0 - rate)),
                             static_cast<const T*>(x), static_cast<T*>(y)};
    return map(dropout, (first_index + count + 3) / 4 - first_index / 4, false, stream);  // one step per generator block
  });
}
