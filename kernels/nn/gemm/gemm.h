// The one door to matrix products: C = alpha op(A) op(B) + beta C, row-major, op = transpose or not.
// f64 goes to OpenBLAS, and so does f32 unless this machine's choice says oneDNN (product_library.h); f32 operands rounded to bf16 with f32 sums go
// to oneDNN where the processor has AVX512_BF16 or AMX (elsewhere bf16 is slower than f32, so it is refused, not emulated). Inside an OpenMP parallel region a
// product runs on the calling thread alone: that is how attention runs its many small products.
// Under a device placement (core/device/placement.h) the matrices are the device's and cuBLASLt multiplies them; bf16 is always available there, for
// the same calls as here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "kernels/nn/gemm/compute_type.h"

namespace thinwire::nn {

enum class Transpose : bool { no, yes };

/// op(A) is [m, k] with leading dimension lda (elements between rows as stored), op(B) [k, n], C [m, n].
/// C does not overlap A or B. beta = 0 overwrites C, even NaN.
template <typename T>
void gemm(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc);

/// The same with a chosen compute type. UsageError with the reason when bf16 is asked for and not available.
void gemm(ComputeType compute, Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n,
          std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc);

/// C [m, n], contiguous, = op(A) op(B) with bias [n] added to every row: fill_rows and the product above; one kernel on a device.
template <typename T>
void gemm_with_bias(ComputeType compute, Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    const T* a, std::int64_t lda, const T* b, std::int64_t ldb, const T* bias, T* c);

/// Empty when the placement's processor multiplies bf16 itself (AVX512_BF16, AMX, a device), else the reason (for SKIPPED rows and errors).
/// THINWIRE_SLOW_BF16=1 has it empty on any processor with AVX-512, for tests of the path.
std::string why_no_bf16_gemm();

namespace detail {
bool onednn_has_bf16();
}  // namespace detail

/// One product, without its data: what it takes to run it once more by itself.
struct GemmShape {
  Transpose trans_a = Transpose::no, trans_b = Transpose::no;
  std::int64_t m = 0, n = 0, k = 0;
  bool adds = false;  ///< beta was not 0
};

/// Time and work spent in products since reset. `seconds` is wall time of calls from outside parallel regions
/// plus, for calls inside one, thread time divided by the number of threads of the region. Products on devices are not counted: their calls
/// return before they run.
struct GemmProfile {
  double seconds = 0;
  double flops = 0;
  std::int64_t calls = 0;
  std::vector<GemmShape> shapes;  ///< of every call, where asked for
};
/// Starts counting (two clock readings per product).
void start_gemm_profile(bool with_shapes = false);
GemmProfile stop_gemm_profile();

}  // namespace thinwire::nn
