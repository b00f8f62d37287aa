// CUDA implementation of the functions of kernels/nn/elementwise.cpp that walk over rows: added rows, copied rows, dropout.
#include "core/random.h"
#include "kernels/nn/rows_kernels.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_add_rows, thinwire_cuda_add_rows_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_add_rows_gradient, thinwire_cuda_add_rows_gradient_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_copy_rows, thinwire_cuda_copy_rows_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_dropout, thinwire_cuda_dropout_fn);

namespace {

template <typename T>
struct AddRows {
  static constexpr int width = pack_size<T>;
  std::int64_t columns, period, first;
  const T* x;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float a[kWidth], b[kWidth];
    load_pack<kWidth>(x + (first + i / columns) % period * columns + i % columns, a);
    load_pack<kWidth>(y + i, b);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) b[j] += a[j];
    store_pack<kWidth>(y + i, b);
  }
};

template <typename From, typename To>
struct CopyRows {
  static constexpr int width = pack_size<From> > pack_size<To> ? pack_size<From> : pack_size<To>;
  std::int64_t columns, from_stride, to_stride;
  const From* from;
  To* to;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const std::int64_t r = i / columns, c = i % columns;
    float v[kWidth];
    load_pack<kWidth>(from + r * from_stride + c, v);
    store_pack<kWidth>(to + r * to_stride + c, v);
  }
};

template <typename From, typename To>
cudaError_t copy_rows(std::int64_t rows, std::int64_t columns, const void* from, std::int64_t from_stride, void* to, std::int64_t to_stride, void* stream) {
  const CopyRows<From, To> copy{columns, from_stride, to_stride, static_cast<const From*>(from), static_cast<To*>(to)};
  constexpr int width = CopyRows<From, To>::width;
  const bool vectors = columns % width == 0 && from_stride % width == 0 && to_stride % width == 0 && aligned(from, 16) && aligned(to, 16);
  return map(copy, rows * columns, vectors, stream);
}

// A step takes the elements of one row that one block of the generator decides about, at most four.
template <typename T>
struct Dropout {
  static constexpr int width = 4;
  std::uint64_t seed, stream;
  std::int64_t columns, stride, first_index, steps_of_row;
  std::uint32_t dropped_below;
  float factor;
  const T* x;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t step) const {
    const std::int64_t r = step / steps_of_row, begin = first_index + r * stride, block = begin / 4 + step % steps_of_row;
    const auto bits = Random(seed, stream).block(static_cast<std::uint64_t>(block));
    THINWIRE_UNROLL
    for (int lane = 0; lane < 4; ++lane) {
      const std::int64_t c = block * 4 + lane - begin, i = r * columns + c;
      if (c < 0 || c >= columns) continue;
      store_value(y + i, bits[static_cast<std::size_t>(lane)] < dropped_below ? 0.0f : value_of(x[i]) * factor);
    }
  }
};

}  // namespace

int thinwire_cuda_add_rows(int type, std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const void* x, void* y, int ordinal,
                           void* stream) {
  if (period < 1 || first < 0) return cudaErrorInvalidValue;
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return map(AddRows<T>{columns, period, first, static_cast<const T*>(x), static_cast<T*>(y)}, rows * columns, packs_rows<T>(columns, {x, y}), stream);
  });
}

int thinwire_cuda_add_rows_gradient(int type, std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const void* dy,
                                    float* gradient, int ordinal, void* stream) {
  if (period < 1 || first < 0) return cudaErrorInvalidValue;
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return add_rows_gradient(rows, columns, period, first, static_cast<const T*>(dy), gradient, stream);
  });
}

int thinwire_cuda_copy_rows(int type_from, int type_to, std::int64_t rows, std::int64_t columns, const void* from, std::int64_t from_stride, void* to,
                            std::int64_t to_stride, int ordinal, void* stream) {
  return for_type(type_from, ordinal, [&](auto a) {
    using From = decltype(a);
    if (type_to == device_f32) return copy_rows<From, float>(rows, columns, from, from_stride, to, to_stride, stream);
    if (type_to == device_bf16) return copy_rows<From, BFloat16>(rows, columns, from, from_stride, to, to_stride, stream);
    return cudaErrorInvalidValue;
  });
}

int thinwire_cuda_dropout(int type, std::int64_t rows, std::int64_t columns, std::int64_t stride, double rate, std::uint64_t seed,
                          std::uint64_t random_stream, std::int64_t first_index, const void* x, void* y, int ordinal, void* cuda_stream) {
  if (!(rate > 0.0 && rate < 1.0) || first_index < 0 || stride < 0) return cudaErrorInvalidValue;
  if (rows == 0 || columns == 0) return cudaSuccess;
  const std::int64_t steps_of_row = (columns + 6) / 4;  // a row may begin and end inside a block of four
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const Dropout<T> dropout{seed, random_stream, columns, stride, first_index, steps_of_row, static_cast<std::uint32_t>(rate * 0x1p32),
                             static_cast<float>(1.0 / (1.0 - rate)), static_cast<const T*>(x), static_cast<T*>(y)};
    return map(dropout, rows * steps_of_row, false, cuda_stream);  // one step per generator block
  });
}
