#include "kernels/nn/gemm/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/convert.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gemm/bf16_product.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "kernels/nn/gemm/packed_weight.h"
#include "kernels/nn/gemm/product_library.h"

namespace thinwire::nn {
namespace {

std::atomic<bool> profiling{false};
std::atomic<std::int64_t> profile_calls{0};
std::atomic<double> profile_nanoseconds{0}, profile_flops{0};
std::atomic<bool> profiling_shapes{false};
std::mutex shapes_mutex;
std::vector<GemmShape> profile_shapes;

/// Counts one product while profiling is on.
class ProfiledCall {
 public:
  explicit ProfiledCall(const GemmShape& s)
      : active_(profiling.load(std::memory_order_relaxed)), flops_(2.0 * static_cast<double>(s.m) * s.n * s.k) {
    if (!active_) return;
    if (profiling_shapes.load(std::memory_order_relaxed)) {
      const std::lock_guard lock(shapes_mutex);
      profile_shapes.push_back(s);
    }
    start_ = now_ns();
  }
  ~ProfiledCall() {
    if (!active_) return;
    const double threads = omp_in_parallel() ? omp_get_num_threads() : 1;
    profile_nanoseconds.fetch_add(static_cast<double>(now_ns() - start_) / threads,
                                  std::memory_order_relaxed);
    profile_flops.fetch_add(flops_, std::memory_order_relaxed);
    profile_calls.fetch_add(1, std::memory_order_relaxed);
  }
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

 private:
  bool active_;
  double flops_;
  std::int64_t start_ = 0;
};

CBLAS_TRANSPOSE to_blas(Transpose t) {
  return t == Transpose::yes ? CblasTrans : CblasNoTrans;
}

/// Whether this machine's choice gives the product to oneDNN. A thread of a parallel region keeps to OpenBLAS: its products are small and many.
bool is_onednns(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k) {
  const int index = product_class(trans_a, trans_b, m, n, k);
  return index >= 0 && product_library().onednn[static_cast<std::size_t>(index)] && !omp_in_parallel();
}

/// A strided [rows, columns] f32 matrix as dense bf16.
void round_matrix(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                  std::vector<BFloat16>& to) {
  to.resize(static_cast<std::size_t>(rows * columns));
  if (stride == columns) {
    convert(std::span(from, to.size()), std::span(to));
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    convert(std::span(from + r * stride, static_cast<std::size_t>(columns)),
            std::span(to).subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns)));
}

/// As dense bf16: what it is already, or rounded into `space`.
const BFloat16* rounded(const Bf16Operand& from, std::int64_t rows, std::int64_t columns, std::vector<BFloat16>& space) {
  if (from.rounded != nullptr) return from.rounded;
  round_matrix(from.values, rows, columns, from.stride, space);
  return space.data();
}

void require_bf16() {
  if (const std::string reason = why_no_bf16_gemm(); !reason.empty())
    throw UsageError("Compute type bf16 cannot be used on this processor: " + reason + ". Use compute type f32.");
}

/// Where nothing is to be summed C is beta C.
void scale_result(std::int64_t m, std::int64_t n, float beta, float* c, std::int64_t ldc) {
  if (beta == 1.0f) return;
  for (std::int64_t r = 0; r < m; ++r) {
    if (beta == 0.0f)
      fill_zero_bytes(c + r * ldc, static_cast<std::size_t>(n) * sizeof(float));
    else
      device::queue<float>(device::entries().scale_in_place, device_f32, n, beta, c + r * ldc);
  }
}

/// A product on the placement's device. With bf16 both operands are rounded into the workspace first, which costs 6 bytes of traffic per
/// element on top of the product's own: a weight's copy could be kept instead (adamw_step's entry point writes one), for 2 bytes of memory
/// per element.
void multiply_on_device(ComputeType compute, Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                        const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc,
                        const float* bias = nullptr) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_result(m, n, beta, c, ldc);
  const bool ta = trans_a == Transpose::yes, tb = trans_b == Transpose::yes;
  const auto multiply = [&](int type, const void* left, std::int64_t ld_left, const void* right, std::int64_t ld_right, void* space) {
    device::queue<float>(device::entries().gemm, type, device_f32, ta ? 1 : 0, tb ? 1 : 0, m, n, k, alpha, left, ld_left, right, ld_right, beta, c, ldc,
                         bias, space);
  };
  if (compute == ComputeType::f32) return multiply(device_f32, a, lda, b, ldb, device::workspace(product_workspace_bytes));
  // Rows of whole 16 bytes: what the matrix units take fastest.
  const auto whole = [](std::int64_t columns) { return (columns + 7) / 8 * 8; };
  const std::int64_t rows_a = ta ? k : m, columns_a = ta ? m : k, rows_b = tb ? n : k, columns_b = tb ? k : n;
  const std::size_t bytes_a = static_cast<std::size_t>(rows_a * whole(columns_a)) * 2, bytes_b = static_cast<std::size_t>(rows_b * whole(columns_b)) * 2;
  std::byte* space = device::workspace(product_workspace_bytes + bytes_a + bytes_b);
  std::byte *rounded_a = space + product_workspace_bytes, *rounded_b = rounded_a + bytes_a;
  const auto round = [&](std::int64_t rows, std::int64_t columns, const float* from, std::int64_t stride, std::byte* to) {
    device::queue<float>(device::entries().copy_rows, device_f32, device_bf16, rows, columns, from, stride, to, whole(columns));
  };
  round(rows_a, columns_a, a, lda, rounded_a);
  round(rows_b, columns_b, b, ldb, rounded_b);
  multiply(device_bf16, rounded_a, whole(columns_a), rounded_b, whole(columns_b), space);
}

}  // namespace

template <>
void gemm<float>(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                 float* c, std::int64_t ldc) {
  if (device::on_device()) return multiply_on_device(ComputeType::f32, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  const ProfiledCall profiled({trans_a, trans_b, m, n, k, beta != 0});
  if (alpha == 1.0f && (beta == 0.0f || beta == 1.0f) && is_onednns(trans_a, trans_b, m, n, k))
    return detail::gemm_f32_onednn(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
  cblas_sgemm(CblasRowMajor, to_blas(trans_a), to_blas(trans_b), static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c,
              static_cast<int>(ldc));
}

template <>
void gemm<double>(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
                  double beta, double* c, std::int64_t ldc) {
  if (device::on_device()) device::refuse_f64("thinwire_cuda_gemm");
  const ProfiledCall profiled({trans_a, trans_b, m, n, k, beta != 0});
  cblas_dgemm(CblasRowMajor, to_blas(trans_a), to_blas(trans_b), static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c,
              static_cast<int>(ldc));
}

void gemm(ComputeType compute, Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n,
          std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  // oneDNN's path is for dense C and alpha = 1: the linear layers. Everything else stays in f32.
  if (compute == ComputeType::f32 || alpha != 1.0f || ldc != n || (beta != 0.0f && beta != 1.0f)) {
    gemm<float>(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  require_bf16();
  if (device::on_device()) return multiply_on_device(compute, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  gemm_bf16(trans_a, trans_b, m, n, k, {a, lda}, {b, ldb}, {c, beta});
}

void gemm_bf16(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const Bf16Operand& a, const Bf16Operand& b,
               const Bf16Result& c) {
  TW_ASSERT(!device::on_device());
  require_bf16();
  thread_local std::vector<BFloat16> space_a, space_b;
  const bool ta = trans_a == Transpose::yes, tb = trans_b == Transpose::yes;
  const BFloat16 *left = rounded(a, ta ? k : m, ta ? m : k, space_a), *right = rounded(b, tb ? n : k, tb ? k : n, space_b);
  const ProfiledCall profiled({trans_a, trans_b, m, n, k, c.beta != 0});
  detail::gemm_bf16(trans_a, trans_b, m, n, k, left, right, c);
}

void gemm_packed(Transpose trans_w, std::int64_t m, std::int64_t n, std::int64_t k, const Bf16Operand& a, const float* w, std::int64_t ldw,
                 const Bf16Result& c) {
  TW_ASSERT(PackedWeightsScope::current() != nullptr, "a packed product outside of a scope");
  require_bf16();
  thread_local std::vector<BFloat16> space_a, rounded_w;
  const BFloat16* left = rounded(a, m, k, space_a);
  const auto round_weight = [&]() -> const BFloat16* {
    const bool tw = trans_w == Transpose::yes;
    round_matrix(w, tw ? n : k, tw ? k : n, ldw, rounded_w);
    return rounded_w.data();
  };
  const ProfiledCall profiled({Transpose::no, trans_w, m, n, k, c.beta != 0});
  detail::gemm_bf16_packed(trans_w, m, n, k, left, round_weight, w, *PackedWeightsScope::current(), c);
}

template <typename T>
void gemm_with_bias(ComputeType compute, Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    const T* a, std::int64_t lda, const T* b, std::int64_t ldb, const T* bias, T* c) {
  if constexpr (sizeof(T) == 4) {
    if (device::on_device() && k > 0) return multiply_on_device(compute, trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, 0, c, n, bias);
    fill_rows<T>(m, n, bias, c);
    gemm(compute, trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, 1, c, n);
  } else {
    fill_rows<T>(m, n, bias, c);
    gemm<T>(trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, 1, c, n);
  }
}
template void gemm_with_bias<float>(ComputeType, Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, const float*,
                                    std::int64_t, const float*, std::int64_t, const float*, float*);
template void gemm_with_bias<double>(ComputeType, Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, const double*,
                                     std::int64_t, const double*, std::int64_t, const double*, double*);

void start_gemm_profile(bool with_shapes) {
  profile_shapes.clear();
  profiling_shapes = with_shapes;
  profile_calls = 0;
  profile_nanoseconds = 0;
  profile_flops = 0;
  profiling = true;
}

GemmProfile stop_gemm_profile() {
  profiling = false;
  return {profile_nanoseconds.load() * 1e-9, profile_flops.load(), profile_calls.load(), std::exchange(profile_shapes, {})};
}

}  // namespace thinwire::nn
