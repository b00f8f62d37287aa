// labels: unit
// Libraries of the device's vendor: which are opened, and what cuBLASLt's choice of an algorithm is kept by.
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/blas_lt_key.cuh"
#include "kernels/cuda/vendor_library.h"

namespace thinwire::cuda {
namespace {

TEST(VendorLibrary, OpensTheFirstVersionThatIsThere) {
  double (*cosine)(double) = nullptr;
  VendorLibrary library({"libthinwire_has_none.so.13", "libm.so.6"});
  library.find(cosine, "cos");
  EXPECT_TRUE(library.complete());
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0), 1);
  void (*missing)() = nullptr;
  library.find(missing, "thinwire_has_no_such_function");
  EXPECT_FALSE(library.complete());
}

TEST(VendorLibrary, WithoutAnyVersionNothingIsFound) {
  double (*cosine)(double) = nullptr;
  VendorLibrary library({"libthinwire_has_none.so.13", "libthinwire_has_none.so.12"});
  library.find(cosine, "cos");
  EXPECT_FALSE(library.complete());
  EXPECT_EQ(cosine, nullptr);
}

BlasProblem product() {
  BlasProblem p;
  p.type_ab = DType::bf16;
  p.m = 64, p.n = 32, p.k = 16, p.lda = 64, p.ldb = 16, p.ldc = 64;
  p.a = reinterpret_cast<const void*>(0x1000), p.b = reinterpret_cast<const void*>(0x2000), p.c = reinterpret_cast<void*>(0x3000);
  return p;
}
const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(BlasKey, ProductsThatDifferInWhatTheChoiceDependsOnDoNotShareIt) {
  std::set<BlasKey> keys{blas_key(product(), 100, 0), blas_key(product(), 200, 0), blas_key(product(), 100, 1)};
  std::size_t kinds = 3;
  const auto differs = [&](const char* in, const auto& change) {
    BlasProblem p = product();
    change(p);
    EXPECT_TRUE(keys.insert(blas_key(p, 100, 0)).second) << in;
    ++kinds;
  };
  differs("type", [](BlasProblem& p) { p.type_ab = DType::f32; });
  differs("transpose", [](BlasProblem& p) { p.transpose_b = true; });
  differs("rows", [](BlasProblem& p) { p.m = 63; });
  differs("leading dimension", [](BlasProblem& p) { p.lda = 65; });
  differs("alignment of A", [](BlasProblem& p) { p.a = at(0x1010); });
  differs("alignment of a batch's products", [](BlasProblem& p) { p.batch = 2, p.stride_a = 1027, p.stride_b = p.stride_c = 4096; });
  differs("sum", [](BlasProblem& p) { p.beta = 1; });
  differs("a bias", [](BlasProblem& p) { p.bias = at(0x4000); });
  differs("alignment of the bias: 16 bytes", [](BlasProblem& p) { p.bias = at(0x4010); });
  differs("alignment of the bias: 4 bytes", [](BlasProblem& p) { p.bias = at(0x4004); });
  EXPECT_EQ(keys.size(), kinds);
}

TEST(BlasKey, ProductsThatAgreeInItShareTheChoice) {
  BlasProblem p = product(), q = product();
  p.bias = at(0x4004), q.bias = at(0x500c);
  q.a = at(0x9000), q.alpha = 3;
  EXPECT_EQ(blas_key(p, 100, 0), blas_key(q, 100, 0));
}

}  // namespace
}  // namespace thinwire::cuda
