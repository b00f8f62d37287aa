// cuBLASLt's product as its documentation defines it: column-major, op(A) op(B). Sums in f64, rounded once.
#include <cstring>
#include <vector>

#include "core/half.h"
#include "kernels/cuda/blas_lt.cuh"
#include "tests/emulated_device/streams.h"

namespace thinwire::cuda {
namespace {

std::size_t bytes_of(DType type) { return type == DType::bf16 ? 2 : 4; }
const void* moved(const void* matrix, std::int64_t elements, DType type) {
  return matrix == nullptr ? nullptr : static_cast<const std::byte*>(matrix) + elements * static_cast<std::int64_t>(bytes_of(type));
}
float load(DType type, const void* matrix, std::int64_t at) {
  return type == DType::bf16 ? to_float(static_cast<const BFloat16*>(matrix)[at]) : static_cast<const float*>(matrix)[at];
}

// The widest vectors that the machine has; the sanitizer runs before such a choice can be made.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
void add_scaled(double* sums, const float* from, double factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += factor * static_cast<double>(from[i]);
}

void multiply(const BlasProblem& p) {
  const auto m = static_cast<std::size_t>(p.m), k = static_cast<std::size_t>(p.k);
  std::vector<float> a(m * k);  // op(A), column by column
  for (std::int64_t l = 0; l < p.k; ++l)
    for (std::int64_t i = 0; i < p.m; ++i)
      a[static_cast<std::size_t>(l * p.m + i)] = load(p.type_ab, p.a, p.transpose_a ? l + i * p.lda : i + l * p.lda);
  std::vector<double> column(m);
  for (std::int64_t j = 0; j < p.n; ++j) {
    std::fill(column.begin(), column.end(), 0.0);
    double* sums = column.data();
    for (std::int64_t l = 0; l < p.k; ++l) {
      const float b = load(p.type_ab, p.b, p.transpose_b ? j + l * p.ldb : l + j * p.ldb);
      add_scaled(sums, a.data() + static_cast<std::size_t>(l) * m, b, m);
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      const std::int64_t at = i + j * p.ldc;
      double value = p.alpha * sums[i];
      if (p.beta != 0) value += static_cast<double>(p.beta) * load(p.type_c, p.c, at);
      if (p.bias != nullptr) value += load(p.type_c, p.bias, i);
      if (p.type_c == DType::bf16) static_cast<BFloat16*>(p.c)[at] = to_bfloat16(static_cast<float>(value));
      else static_cast<float*>(p.c)[at] = static_cast<float>(value);
    }
  }
}

cudaError_t check_matrix(const void* p, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t batch, std::int64_t stride, DType type,
                         const char* what) {
  if (rows == 0 || columns == 0 || batch == 0) return cudaSuccess;
  if (ld < rows) return cudaErrorInvalidValue;
  return emulated::check_range(p, static_cast<std::size_t>((batch - 1) * stride + (columns - 1) * ld + rows) * bytes_of(type), what);
}

}  // namespace

int blas_product(const BlasProblem& p, void* workspace, std::size_t workspace_bytes, int, void* stream) {
  cudaError_t e = check_matrix(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a, p.type_ab, "multiplies");
  if (e == cudaSuccess) e = check_matrix(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b, p.type_ab, "multiplies");
  if (e == cudaSuccess) e = check_matrix(p.c, p.m, p.n, p.ldc, p.batch, p.stride_c, p.type_c, "writes the product to");
  if (e == cudaSuccess && p.bias != nullptr) e = check_matrix(p.bias, p.m, 1, p.m, 1, 0, p.type_c, "adds");
  if (e == cudaSuccess && workspace != nullptr) e = emulated::check_range(workspace, workspace_bytes, "uses as workspace");
  if (e != cudaSuccess) return e;
  return emulated::queue_work(stream, [=] {
    if (workspace != nullptr) std::memset(workspace, 0xcd, workspace_bytes < 4096 ? workspace_bytes : 4096);  // it may write there
    BlasProblem one = p;
    for (std::int64_t item = 0; item < p.batch; ++item) {
      one.a = moved(p.a, item * p.stride_a, p.type_ab), one.b = moved(p.b, item * p.stride_b, p.type_ab);
      one.c = const_cast<void*>(moved(p.c, item * p.stride_c, p.type_c));
      multiply(one);
    }
  });
}

}  // namespace thinwire::cuda
