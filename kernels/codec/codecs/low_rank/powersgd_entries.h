// Entry points of kernels/codec/codecs/low_rank/powersgd.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel_abi.h"
#include "kernels/matrix/device_sizes.h"

namespace thinwire {

/// Of every powersgd entry point for a stack of matrices x [n, m] and rank r.
constexpr std::size_t powersgd_workspace_bytes(std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack) {
  return product_workspace_bytes + static_cast<std::size_t>(stack) * (orthonormalise_workspace_bytes(n > m ? n : m, r) + static_cast<std::size_t>((n + m) * r * 4)) +
         16;
}

}  // namespace thinwire

extern "C" {
// PowerSGD on a stack of matrices of one shape under one another: each has its own factors, which lie under one another as well.

/// Columns of each of `stack` matrices a [rows, columns] become orthonormal in place, dependent ones zero (kernels/matrix/orthonormalise.h);
/// columns <= orthonormalise_most_columns. `released`: modified Gram-Schmidt in f32. Workspace: one per matrix.
using thinwire_cuda_orthonormalise_fn = int(float* a, std::int64_t rows, std::int64_t columns, std::int64_t stack, int released, void* workspace, int ordinal,
                                            void* stream);
/// Columns of the starts q [m, r] that are zero (with `fresh`: all) become N(0, 1) numbers of (seed, random_stream), as the host draws them.
using thinwire_cuda_powersgd_start_fn = int(float* q, std::int64_t m, std::int64_t r, std::int64_t stack, int fresh, std::uint64_t seed,
                                            std::uint64_t random_stream, int ordinal, void* stream);
/// p f32[n, r] = x q, after q [m, r] was made orthonormal in place where asked; p also goes to the wire `send` (f16 or f32) unless that is null.
using thinwire_cuda_powersgd_project_fn = int(const float* x, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack, float* q,
                                              int orthonormalise_start, int released, int half_wire, float* p, void* send, void* workspace,
                                              std::uint32_t* status, int ordinal, void* stream);
/// p (from the wire `received_p`, or as it is where that is null) becomes orthonormal; q f32[m, r] = x^T p, which is the next start; both go to
/// the wire, p unless `send_p` is null.
using thinwire_cuda_powersgd_back_project_fn = int(const float* x, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack, const void* received_p,
                                                   int released, int half_wire, float* p, float* q, void* send_p, void* send_q, void* workspace,
                                                   std::uint32_t* status, int ordinal, void* stream);
/// out [n, m] = P Q^T, or +=: P is `p`, or `wire_p` where p is null.
using thinwire_cuda_powersgd_expand_fn = int(const float* p, const void* wire_p, const void* wire_q, std::int64_t n, std::int64_t m, std::int64_t r,
                                             std::int64_t stack, int half_wire, float* out, int add, void* workspace, std::uint32_t* status, int ordinal,
                                             void* stream);
}
