// Orthonormal columns of tall, narrow matrices on a device; the maths and the thresholds are those of
// kernels/matrix/orthonormalise.cpp. Cholesky-QR in float64: the Gram matrix by blocks of rows, its factor in one block of threads, and a
// forward substitution per row. Which of the ways a matrix needs is found on the device: kernels of ways not needed return at once, so
// that the host never waits. Gram-Schmidt, for matrices too ill-conditioned for that, is one kernel of one block. A stack of matrices of
// one shape goes through the same launches, since those of a low rank are too small to fill a device one by one. Bound: the matrix read
// twice and written once (12 bytes per element) while columns are few; from about 32 on the 2 columns float64 operations per element.
#pragma once

#include <cmath>

#include "kernels/matrix/device_sizes.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace thinwire::cuda {

constexpr int gram_tile = 16;
constexpr std::int64_t gram_rows = 1024;  // of the matrix per block
constexpr int gram_stage = 32;            // rows in shared memory at a time
constexpr int gram_schmidt_threads = 512;
constexpr double dependent_column = 1e-6;  // as on the host

enum : std::uint32_t { orthonormal_good = 0, orthonormal_fair = 1, orthonormal_bad = 2, orthonormal_again = 3 };

/// Matrices [rows, columns] under one another, and the workspace of each (orthonormalise_workspace_bytes).
struct MatrixStack {
  float* a;
  std::int64_t rows;
  int columns;
  std::uint8_t* workspace;
  std::int64_t workspace_bytes;  // per matrix
  __host__ __device__ std::int64_t chunks() const { return (rows + gram_rows - 1) / gram_rows; }
  __device__ float* matrix(std::int64_t i) const { return a + i * rows * columns; }
  __device__ std::uint32_t* state(std::int64_t i) const { return reinterpret_cast<std::uint32_t*>(workspace + i * workspace_bytes); }
  __device__ double* factor(std::int64_t i) const { return reinterpret_cast<double*>(workspace + i * workspace_bytes + 16); }
  __device__ double* squares(std::int64_t i) const { return factor(i) + static_cast<std::int64_t>(columns) * columns; }
  __device__ double* partial(std::int64_t i) const { return squares(i) + columns; }
  __device__ double* work(std::int64_t i) const { return partial(i) + chunks() * columns * columns; }
};

/// partial [chunk of rows][columns][columns] = Gram matrix of these rows, upper triangle. Second round: only where the first was fair.
static __global__ void __launch_bounds__(gram_tile* gram_tile) gram_of_rows(MatrixStack stack, int round) {
  __shared__ float left[gram_stage][gram_tile + 1], right[gram_stage][gram_tile + 1];
  const int columns = stack.columns;
  const int tiles = (columns + gram_tile - 1) / gram_tile;
  const auto per_chunk = static_cast<unsigned>(tiles * tiles), chunks = static_cast<unsigned>(stack.chunks());
  const int tile = static_cast<int>(blockIdx.x % per_chunk);
  const std::int64_t chunk = blockIdx.x / per_chunk % chunks, item = blockIdx.x / per_chunk / chunks;
  const int ti = tile / tiles, tj = tile % tiles;
  if (ti > tj || (round == 1 && *stack.state(item) != orthonormal_fair)) return;
  const float* a = stack.matrix(item);
  double* partial = stack.partial(item);
  const std::int64_t first = chunk * gram_rows, last = first + gram_rows < stack.rows ? first + gram_rows : stack.rows;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  double sum = 0;
  for (std::int64_t stage = first; stage < last; stage += gram_stage) {
    THINWIRE_UNROLL
    for (int r = 0; r < gram_stage; r += gram_tile) {
      const std::int64_t row = stage + r + y;
      const int ci = ti * gram_tile + x, cj = tj * gram_tile + x;
      left[r + y][x] = row < last && ci < columns ? a[row * columns + ci] : 0.0f;
      right[r + y][x] = row < last && cj < columns ? a[row * columns + cj] : 0.0f;
    }
    __syncthreads();
    THINWIRE_UNROLL
    for (int r = 0; r < gram_stage; ++r) sum += static_cast<double>(left[r][y]) * static_cast<double>(right[r][x]);
    __syncthreads();
  }
  const int i = ti * gram_tile + y, j = tj * gram_tile + x;
  if (i < columns && j < columns) partial[(chunk * columns + i) * columns + j] = sum;
}

/// A block per matrix: R (upper, R^T R = the Gram matrix) into `factor`, and what it is good for into `state`.
static __global__ void __launch_bounds__(256) factorise_gram(MatrixStack stack, int round) {
  __shared__ double pivot;
  std::uint32_t* state = stack.state(blockIdx.x);
  if (round == 1 && *state != orthonormal_fair) return;
  const int columns = stack.columns;
  const std::int64_t chunks = stack.chunks();
  const double* partial = stack.partial(blockIdx.x);
  double *factor = stack.factor(blockIdx.x), *squares = stack.squares(blockIdx.x);
  __syncthreads();  // all know the state before it changes
  const int size = columns * columns;
  for (int e = static_cast<int>(threadIdx.x); e < size; e += 256) {
    if (e / columns > e % columns) continue;
    double sum = 0;
    for (std::int64_t c = 0; c < chunks; ++c) sum += partial[c * size + e];
    factor[e] = sum;
    if (e / columns == e % columns) squares[e / columns] = sum;
  }
  __syncthreads();
  double least = 1;
  for (int j = 0; j < columns; ++j) {
    if (threadIdx.x == 0) pivot = factor[j * columns + j];
    __syncthreads();
    if (!(pivot > 0) || !(squares[j] > 0)) {  // NaN as well
      if (threadIdx.x == 0) *state = orthonormal_bad;
      return;
    }
    const double rest = pivot / squares[j], root = sqrt(pivot);
    least = rest < least ? rest : least;
    for (int c = j + static_cast<int>(threadIdx.x); c < columns; c += 256) factor[j * columns + c] = c == j ? root : factor[j * columns + c] / root;
    __syncthreads();
    const int width = columns - j - 1;
    for (int e = static_cast<int>(threadIdx.x); e < width * width; e += 256) {
      const int i = j + 1 + e / width, c = j + 1 + e % width;
      if (i <= c) factor[i * columns + c] -= factor[j * columns + i] * factor[j * columns + c];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  if (round == 0) *state = least > 1e-8 ? orthonormal_good : least > 1e-10 ? orthonormal_fair : orthonormal_bad;
  else *state = least > 1e-8 ? orthonormal_again : orthonormal_bad;
}

/// A warp per row: a <- a inverse(R). Lane l holds columns l, l + 32, ... of the 32 kColumns that there are at most. With kPanels there may be
/// more, which go panel by panel; what earlier panels gave is kept in `work` [rows, columns], as f32 would lose what the conditioning
/// multiplies.
template <int kColumns, bool kPanels>
__global__ void __launch_bounds__(256) solve_rows(MatrixStack stack, int round) {
  constexpr int width = 32 * kColumns;
  const std::int64_t blocks = (stack.rows + 7) / 8, item = blockIdx.x / blocks;
  const std::uint32_t state = *stack.state(item);
  if (round == 0 ? state == orthonormal_bad : state != orthonormal_again) return;
  const std::int64_t row = blockIdx.x % blocks * 8 + threadIdx.x / 32;
  if (row >= stack.rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32), columns = stack.columns;
  const double* factor = stack.factor(item);
  float* a = stack.matrix(item) + row * columns;
  double* work = kPanels ? stack.work(item) + row * columns : nullptr;
  for (int panel = 0; panel == 0 || (kPanels && panel < columns); panel += width) {
    double value[kColumns];
    THINWIRE_UNROLL
    for (int k = 0; k < kColumns; ++k) {
      const int c = panel + lane + 32 * k;
      value[k] = c < columns ? static_cast<double>(a[c]) : 0.0;
    }
    for (int j = 0; kPanels && j < panel; ++j) {
      const double solved = work[j];
      THINWIRE_UNROLL
      for (int k = 0; k < kColumns; ++k)
        if (const int c = panel + lane + 32 * k; c < columns) value[k] -= solved * factor[j * columns + c];
    }
    THINWIRE_UNROLL
    for (int k = 0; k < kColumns; ++k)
      for (int owner = 0; owner < 32 && panel + 32 * k + owner < columns; ++owner) {
        const int j = panel + 32 * k + owner;
        const double solved = __shfl_sync(all_lanes, value[k], owner) / factor[j * columns + j];
        THINWIRE_UNROLL
        for (int q = k; q < kColumns; ++q) {
          const int c = panel + lane + 32 * q;
          if (c == j) value[q] = solved;
          else if (c > j && c < columns) value[q] -= solved * factor[j * columns + c];
        }
      }
    THINWIRE_UNROLL
    for (int k = 0; k < kColumns; ++k)
      if (const int c = panel + lane + 32 * k; c < columns) {
        a[c] = static_cast<float>(value[k]);
        if (kPanels) work[c] = value[k];
      }
    if (kPanels) __syncwarp();
  }
}

/// A block per matrix: Gram-Schmidt with re-orthogonalisation in float64, where nothing else serves. work [columns, rows].
static __global__ void __launch_bounds__(gram_schmidt_threads) gram_schmidt(MatrixStack stack, bool at_once) {
  __shared__ double scratch[gram_schmidt_threads / 32];
  if (!at_once && *stack.state(blockIdx.x) != orthonormal_bad) return;
  const std::int64_t rows = stack.rows;
  const int columns = stack.columns;
  float* a = stack.matrix(blockIdx.x);
  double* work = stack.work(blockIdx.x);
  for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads)
    for (int j = 0; j < columns; ++j) work[j * rows + i] = static_cast<double>(a[i * columns + j]);
  const auto dot = [&](int l, int q) {  // every thread sees its own rows only, so no barrier is needed before
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads) sum += work[l * rows + i] * work[q * rows + i];
    return block_reduce<Sum, gram_schmidt_threads>(sum, scratch);
  };
  for (int j = 0; j < columns; ++j) {
    const double length = sqrt(dot(j, j));
    for (int pass = 0; pass < 2; ++pass)  // twice is enough (Kahan, Parlett)
      for (int l = 0; l < j; ++l) {
        const double d = dot(l, j);
        for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads) work[j * rows + i] -= d * work[l * rows + i];
      }
    const double rest = sqrt(dot(j, j));
    const double scale = rest > dependent_column * length ? 1.0 / rest : 0.0;
    for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads) {
      const double value = work[j * rows + i] * scale;
      work[j * rows + i] = value;
      a[i * columns + j] = static_cast<float>(value);
    }
  }
}

/// A block per matrix: the released codes' modified Gram-Schmidt in f32 (kernels/matrix/orthonormalise.h).
static __global__ void __launch_bounds__(gram_schmidt_threads, 2) released_gram_schmidt(float* a, std::int64_t rows, int columns, float epsilon) {
  __shared__ double scratch[gram_schmidt_threads / 32];
  a += blockIdx.x * rows * columns;
  const auto dot = [&](int l, int q) {
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads)
      sum += static_cast<double>(a[i * columns + l]) * static_cast<double>(a[i * columns + q]);
    return block_reduce<Sum, gram_schmidt_threads>(sum, scratch);
  };
  for (int j = 0; j < columns; ++j) {
    const float length = add(static_cast<float>(sqrt(dot(j, j))), epsilon);
    for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads) a[i * columns + j] = divide(a[i * columns + j], length);
    for (int l = j + 1; l < columns; ++l) {
      const float d = static_cast<float>(dot(j, l));
      for (std::int64_t i = threadIdx.x; i < rows; i += gram_schmidt_threads)
        a[i * columns + l] = add(a[i * columns + l], multiply(-d, a[i * columns + j]));
    }
  }
}

/// Queues it all, for `count` matrices. `workspace`: orthonormalise_workspace_bytes(rows, columns) for each.
inline cudaError_t orthonormalise(float* a, std::int64_t rows, std::int64_t columns, std::int64_t count, bool released, void* workspace, void* stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  if (columns > orthonormalise_most_columns) return cudaErrorNotSupported;
  const MatrixStack stack{a, rows, static_cast<int>(columns), static_cast<std::uint8_t*>(workspace),
                          static_cast<std::int64_t>(orthonormalise_workspace_bytes(rows, columns))};
  if (released) return launch(released_gram_schmidt, count, gram_schmidt_threads, stream, a, rows, static_cast<int>(columns), 1e-8f);
  // More columns than rows: never orthonormal, so Gram-Schmidt at once.
  const bool wide = columns > rows;
  const std::int64_t tiles = ceil_divide(columns, gram_tile);
  for (int round = 0; round < 2 && !wide; ++round) {
    if (const auto e = launch(gram_of_rows, count * stack.chunks() * tiles * tiles, dim3(gram_tile, gram_tile), stream, stack, round); e != cudaSuccess) return e;
    if (const auto e = launch(factorise_gram, count, 256, stream, stack, round); e != cudaSuccess) return e;
    const auto kernel = columns <= 32    ? solve_rows<1, false>
                        : columns <= 64  ? solve_rows<2, false>
                        : columns <= 128 ? solve_rows<4, false>
                                         : solve_rows<4, true>;
    if (const auto e = launch(kernel, count * ceil_divide(rows, 8), 256, stream, stack, round); e != cudaSuccess) return e;
  }
  return launch(gram_schmidt, count, gram_schmidt_threads, stream, stack, wide);
}

}  // namespace thinwire::cuda
