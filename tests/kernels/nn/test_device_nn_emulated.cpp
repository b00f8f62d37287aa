// labels: unit
// The device twins of kernels/nn on an emulated device against the host kernels. The same checks on a GPU: tests/gpu.
#include "support/cuda_emulation.h"

#include "kernels/nn/attention.cu"
#include "kernels/nn/elementwise.cu"
#include "kernels/nn/gelu.cu"
#include "kernels/nn/gemm.cu"
#include "kernels/nn/layernorm.cu"
#include "kernels/nn/optimizer.cu"
#include "kernels/nn/rows.cu"
#include "kernels/nn/softmax.cu"
#include "kernels/nn/sums.cu"
#include "support/blas_emulation.h"
#include "support/device_nn_cases.h"
#include "support/emulated_device.h"

namespace thinwire::testing {
namespace {

const std::map<std::string, void*> entries = {
    EMULATED(thinwire_cuda_gemm),
    EMULATED(thinwire_cuda_row_moments),
    EMULATED(thinwire_cuda_normalise),
    EMULATED(thinwire_cuda_gradient_moments),
    EMULATED(thinwire_cuda_normalise_backward),
    EMULATED(thinwire_cuda_gelu_forward),
    EMULATED(thinwire_cuda_gelu_backward),
    EMULATED(thinwire_cuda_cross_entropy),
    EMULATED(thinwire_cuda_softmax_statistics),
    EMULATED(thinwire_cuda_split_cross_entropy),
    EMULATED(thinwire_cuda_adamw_step),
    EMULATED(thinwire_cuda_sum_of_squares),
    EMULATED(thinwire_cuda_attention_forward),
    EMULATED(thinwire_cuda_attention_backward),
    EMULATED(thinwire_cuda_fill_rows),
    EMULATED(thinwire_cuda_add_column_sums),
    EMULATED(thinwire_cuda_add_into),
    EMULATED(thinwire_cuda_scale_in_place),
    EMULATED(thinwire_cuda_embed),
    EMULATED(thinwire_cuda_embed_backward),
    EMULATED(thinwire_cuda_dropout),
};
struct Emulation final : EmulatedDevice {
  Emulation() : EmulatedDevice(entries) {}
};

TEST(EmulatedNn, GeluEqualsTheHostTwin) {
  Emulation device;
  expect_gelu_like_host(device);
}
TEST(EmulatedNn, LayernormEqualsTheHostTwinWholeAndSplit) {
  Emulation device;
  expect_layernorm_like_host(device);
}
TEST(EmulatedNn, CrossEntropyEqualsTheHostTwinWholeAndSplit) {
  Emulation device;
  expect_cross_entropy_like_host(device);
}
TEST(EmulatedNn, AdamWClipsAndStepsLikeTheHostTwin) {
  Emulation device;
  expect_optimizer_like_host(device);
}
TEST(EmulatedNn, AttentionAndItsGradientsEqualTheHostTwin) {
  Emulation device;
  expect_attention_like_host(device);
}
TEST(EmulatedNn, ElementwiseKernelsEqualTheHostTwin) {
  Emulation device;
  expect_elementwise_like_host(device);
}
TEST(EmulatedNn, GemmEqualsTheHostTwinForEveryTransposeStrideAndType) {
  Emulation device;
  expect_gemm_like_host(device);
}
TEST(EmulatedNn, HeadsBeyond128AreRefusedInBf16) {
  float x[1] = {};
  EXPECT_EQ(thinwire_cuda_attention_forward(device_bf16, 1, 1, 1, 129, x, x, x, 0, nullptr), cudaErrorNotSupported);
}

}  // namespace
}  // namespace thinwire::testing
