// The door to cuBLASLt, which is opened on the first product.
#include "kernels/cuda/blas_lt.cuh"

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <string>

#include "kernels/cuda/blas_lt_key.cuh"
#include "kernels/cuda/vendor_library.h"

namespace thinwire::cuda {
namespace {

/// The functions of libcublasLt that are used; `error` is 0 or what entry points return where it does not open.
struct BlasLtLibrary {
  int error = THINWIRE_CUDA_NO_BLAS;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) desc_init = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

  BlasLtLibrary() {
    // What is used is the same in both: entry points, attributes' numbers, and descriptors that are made in memory of the size they are told.
    VendorLibrary library({"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR), "libcublasLt.so.13", "libcublasLt.so.12"});
    library.find(create, "cublasLtCreate");
    library.find(matmul, "cublasLtMatmul");
    library.find(desc_init, "cublasLtMatmulDescInit_internal");
    library.find(desc_set, "cublasLtMatmulDescSetAttribute");
    library.find(layout_init, "cublasLtMatrixLayoutInit_internal");
    library.find(layout_set, "cublasLtMatrixLayoutSetAttribute");
    library.find(preference_init, "cublasLtMatmulPreferenceInit_internal");
    library.find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    library.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    if (library.complete()) error = 0;
  }
};
const BlasLtLibrary& blas_lt() {
  static const BlasLtLibrary library;
  return library;
}

}  // namespace

int blas_product(const BlasProblem& p, void* workspace, std::size_t workspace_bytes, int ordinal, void* stream) {
  const BlasLtLibrary& lt = blas_lt();
  if (lt.error != 0) return lt.error;
  const auto failed = [](cublasStatus_t status) { return THINWIRE_CUDA_BLAS_ERROR + static_cast<int>(status); };
  const auto type = [](DType t) { return t == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; };

  cublasLtMatmulDescOpaque_t description{};
  cublasLtMatrixLayoutOpaque_t layout_a{}, layout_b{}, layout_c{};
  cublasStatus_t s = lt.desc_init(&description, sizeof description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    if (s == CUBLAS_STATUS_SUCCESS) s = lt.desc_set(&description, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& of, DType t, bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                          std::int64_t stride) {
    if (s == CUBLAS_STATUS_SUCCESS)
      s = lt.layout_init(&of, sizeof of, type(t), static_cast<std::uint64_t>(transposed ? columns : rows), static_cast<std::uint64_t>(transposed ? rows : columns), ld);
    if (p.batch == 1) return;
    const auto count = static_cast<std::int32_t>(p.batch);
    if (s == CUBLAS_STATUS_SUCCESS) s = lt.layout_set(&of, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (s == CUBLAS_STATUS_SUCCESS) s = lt.layout_set(&of, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  };
  layout(layout_a, p.type_ab, p.transpose_a, p.m, p.k, p.lda, p.stride_a);
  layout(layout_b, p.type_ab, p.transpose_b, p.k, p.n, p.ldb, p.stride_b);
  layout(layout_c, p.type_c, false, p.m, p.n, p.ldc, p.stride_c);
  if (s != CUBLAS_STATUS_SUCCESS) return failed(s);

  // Choosing an algorithm takes the host tens of microseconds; one choice serves all products of a kind.
  const BlasAlignments aligned = blas_alignments(p);
  const BlasKey key = blas_key(p, workspace_bytes, ordinal);
  static std::mutex lock;
  static std::map<int, cublasLtHandle_t> handles;
  static std::map<BlasKey, cublasLtMatmulAlgo_t> chosen;
  cublasLtHandle_t handle{};
  cublasLtMatmulAlgo_t algorithm{};
  {
    const std::lock_guard hold(lock);
    cublasLtHandle_t& mine = handles[ordinal];
    if (mine == nullptr)
      if (s = lt.create(&mine); s != CUBLAS_STATUS_SUCCESS) return failed(s);
    handle = mine;
    auto found = chosen.find(key);
    if (found == chosen.end()) {
      cublasLtMatmulPreferenceOpaque_t preference{};
      s = lt.preference_init(&preference, sizeof preference);
      const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
        if (s == CUBLAS_STATUS_SUCCESS) s = lt.preference_set(&preference, attribute, &value, sizeof value);
      };
      prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.a);
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.b);
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.c);
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.c);
      cublasLtMatmulHeuristicResult_t result{};
      int count = 0;
      if (s == CUBLAS_STATUS_SUCCESS)
        s = lt.heuristic(handle, &description, &layout_a, &layout_b, &layout_c, &layout_c, &preference, 1, &result, &count);
      if (s == CUBLAS_STATUS_SUCCESS && count == 0) s = CUBLAS_STATUS_NOT_SUPPORTED;
      if (s != CUBLAS_STATUS_SUCCESS) return failed(s);
      found = chosen.emplace(key, result.algo).first;
    }
    algorithm = found->second;
  }
  s = lt.matmul(handle, &description, &p.alpha, p.a, &layout_a, p.b, &layout_b, &p.beta, p.c, &layout_c, p.c, &layout_c, &algorithm, workspace,
                workspace_bytes, static_cast<cudaStream_t>(stream));
  return s == CUBLAS_STATUS_SUCCESS ? 0 : failed(s);
}

}  // namespace thinwire::cuda
