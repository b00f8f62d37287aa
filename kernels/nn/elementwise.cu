// CUDA implementation of kernels/nn/elementwise.cpp, but for what rows.cu has.
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/map.cuh"
#include "kernels/nn/column_sums_kernels.cuh"
#include "kernels/nn/rows_kernels.cuh"
#include "kernels/nn/device/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_fill_rows, thinwire_cuda_fill_rows_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_add_column_sums, thinwire_cuda_add_column_sums_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_add_into, thinwire_cuda_add_into_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_scale_in_place, thinwire_cuda_scale_in_place_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_embed, thinwire_cuda_embed_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_embed_backward, thinwire_cuda_embed_backward_fn);

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
    return add_rows_gradient(rows, columns, seq, 0, static_cast<const T*>(dy), position_gradient, stream);
  });
}
