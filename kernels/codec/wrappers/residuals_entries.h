// Entry points of kernels/codec/wrappers/residuals.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
/// What error feedback and lazy error propagation do (kernels/codec/wrappers/residuals.h): x += beta * residual ...
using thinwire_cuda_residual_add_fn = int(float* x, const float* residual, float beta, std::int64_t count, int ordinal, void* stream);
/// ... and residual = x - seen.
using thinwire_cuda_residual_store_fn = int(const float* x, const float* seen, float* residual, std::int64_t count, int ordinal, void* stream);
}
