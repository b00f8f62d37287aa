// CUDA implementation of kernels/codec/codecs/low_rank/powersgd.cpp: one step of subspace iteration on a stream. What is state there (the start Q) is the
// caller's here. Products sum in another order than on the host, so factors agree to rounding, not to the bit.
#include "core/random.h"
#include "kernels/codec/codecs/low_rank/powersgd_entries.h"
#include "kernels/codec/payload/wire_values_kernels.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/matrix/orthonormalise_kernels.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_orthonormalise, thinwire_cuda_orthonormalise_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_powersgd_start, thinwire_cuda_powersgd_start_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_powersgd_project, thinwire_cuda_powersgd_project_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_powersgd_back_project, thinwire_cuda_powersgd_back_project_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_powersgd_expand, thinwire_cuda_powersgd_expand_fn);

namespace {

constexpr int start_threads = 256;

// A block per column of each q [m, r] of a stack: where `fresh`, or where the column is zero, it becomes N(0, 1) numbers, the host's of the same seed.
__global__ void __launch_bounds__(start_threads) draw_dead_columns(float* q, std::int64_t m, std::int64_t r, std::int64_t stack, bool fresh, std::uint64_t seed, std::uint64_t stream) {
  __shared__ std::uint32_t scratch[start_threads / 32];
  const std::int64_t j = blockIdx.x % r, above = blockIdx.x / r * m;  // rows of the matrices above
  q += above * r;
  std::uint32_t alive = 0;
  if (!fresh)
    for (std::int64_t i = threadIdx.x; i < m; i += start_threads) alive |= q[i * r + j] != 0.0f ? 1u : 0u;
  if (block_reduce<Maximum, start_threads>(alive, scratch) != 0) return;
  const Random random(seed, stream);
  for (std::int64_t i = threadIdx.x; i < m; i += start_threads) {
    const std::uint64_t w = random.bits64(static_cast<std::uint64_t>(j * stack * m + above + i));  // Random::normal, which is not constexpr
    const double u = (static_cast<double>(static_cast<std::uint32_t>(w)) + 0.5) * 0x1p-32;
    const double v = static_cast<double>(static_cast<std::uint32_t>(w >> 32)) * 0x1p-32;
    q[i * r + j] = static_cast<float>(sqrt(-2.0 * log(u)) * cospi(2.0 * v));
  }
}

// A workspace of powersgd_workspace_bytes: products, then orthonormalisation, which do not overlap in time, then factors.
struct Workspace {
  ProductWorkspace products;
  void* orthonormal;
  float* factors;
  Workspace(void* memory, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack)
      : products{memory, product_workspace_bytes},
        orthonormal(static_cast<std::uint8_t*>(memory) + product_workspace_bytes),
        factors(reinterpret_cast<float*>(static_cast<std::uint8_t*>(orthonormal) +
                                         static_cast<std::size_t>(stack) * orthonormalise_workspace_bytes(n > m ? n : m, r))) {}
};

}  // namespace

int thinwire_cuda_orthonormalise(float* a, std::int64_t rows, std::int64_t columns, std::int64_t stack, int released, void* workspace, int ordinal,
                                 void* stream) {
  return on_device(ordinal, [&] { return orthonormalise(a, rows, columns, stack, released != 0, workspace, stream); });
}

int thinwire_cuda_powersgd_start(float* q, std::int64_t m, std::int64_t r, std::int64_t stack, int fresh, std::uint64_t seed, std::uint64_t random_stream,
                                 int ordinal, void* stream) {
  if (m == 0) return cudaSuccess;
  return on_device(ordinal, [&] { return launch(draw_dead_columns, r * stack, start_threads, stream, q, m, r, stack, fresh != 0, seed, random_stream); });
}

int thinwire_cuda_powersgd_project(const float* x, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack, float* q, int orthonormalise_start,
                                   int released, int half_wire, float* p, void* send, void* workspace, std::uint32_t* status, int ordinal, void* stream) {
  const Workspace w(workspace, n, m, r, stack);
  return on_device(ordinal, [&] {
    if (orthonormalise_start)
      if (const auto e = orthonormalise(q, m, r, stack, released != 0, w.orthonormal, stream); e != cudaSuccess) return static_cast<int>(e);
    if (const int e = product(false, false, n, r, m, x, q, p, false, w.products, ordinal, stream, stack); e != 0) return e;
    // A NaN or infinity of x reaches P: found before the orthonormalisation spreads it.
    if (send == nullptr) return static_cast<int>(map(CheckFinite{p, status}, stack * n * r, aligned(p, 16), stream));
    return static_cast<int>(pack_values(p, stack * n * r, send, half_wire != 0, status, stream));
  });
}

int thinwire_cuda_powersgd_back_project(const float* x, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack, const void* received_p,
                                        int released, int half_wire, float* p, float* q, void* send_p, void* send_q, void* workspace, std::uint32_t* status,
                                        int ordinal, void* stream) {
  const Workspace w(workspace, n, m, r, stack);
  return on_device(ordinal, [&] {
    const bool half = half_wire != 0;
    if (received_p != nullptr)
      if (const auto e = unpack_values(received_p, stack * n * r, p, half, status, stream); e != cudaSuccess) return static_cast<int>(e);
    if (const auto e = orthonormalise(p, n, r, stack, released != 0, w.orthonormal, stream); e != cudaSuccess) return static_cast<int>(e);
    if (const int e = product(true, false, m, r, n, x, p, q, false, w.products, ordinal, stream, stack); e != 0) return e;
    if (send_p != nullptr)
      if (const auto e = pack_values(p, stack * n * r, send_p, half, status, stream); e != cudaSuccess) return static_cast<int>(e);
    return static_cast<int>(pack_values(q, stack * m * r, send_q, half, status, stream));
  });
}

int thinwire_cuda_powersgd_expand(const float* p, const void* wire_p, const void* wire_q, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack,
                                  int half_wire, float* out, int add_to, void* workspace, std::uint32_t* status, int ordinal, void* stream) {
  const Workspace w(workspace, n, m, r, stack);
  return on_device(ordinal, [&] {
    const float* left = p;
    float* right = w.factors + (p == nullptr ? stack * n * r : 0);
    if (p == nullptr) {
      if (const auto e = unpack_values(wire_p, stack * n * r, w.factors, half_wire != 0, status, stream); e != cudaSuccess) return static_cast<int>(e);
      left = w.factors;
    }
    if (const auto e = unpack_values(wire_q, stack * m * r, right, half_wire != 0, status, stream); e != cudaSuccess) return static_cast<int>(e);
    return product(false, true, n, m, r, left, right, out, add_to != 0, w.products, ordinal, stream, stack);
  });
}
