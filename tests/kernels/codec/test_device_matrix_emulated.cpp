// labels: unit
// PowerSGD and the auto-encoder on an emulated device against the host codecs. The same checks on a GPU: tests/gpu.
#include "support/cuda_emulation.h"

#include "kernels/codec/autoencoder.cu"
#include "kernels/codec/none.cu"
#include "kernels/codec/powersgd.cu"
#include "kernels/codec/wire_values.cu"
#include "support/blas_emulation.h"
#include "support/device_damage_cases.h"
#include "support/device_powersgd_cases.h"
#include "support/emulated_device.h"

namespace thinwire::testing {
namespace {

const std::map<std::string, void*> entries = {
    EMULATED(thinwire_cuda_orthonormalise),       EMULATED(thinwire_cuda_powersgd_start),
    EMULATED(thinwire_cuda_powersgd_project),     EMULATED(thinwire_cuda_powersgd_back_project),
    EMULATED(thinwire_cuda_powersgd_expand),      EMULATED(thinwire_cuda_autoencoder_encode),
    EMULATED(thinwire_cuda_autoencoder_decode),   EMULATED(thinwire_cuda_autoencoder_decode_backward),
    EMULATED(thinwire_cuda_autoencoder_encode_backward), EMULATED(thinwire_cuda_none_decode),
    EMULATED(thinwire_cuda_wire_pack),            EMULATED(thinwire_cuda_wire_unpack),
};
struct Emulation final : EmulatedDevice {
  Emulation() : EmulatedDevice(entries) {}
};

TEST(EmulatedMatrixCodecs, OrthonormaliseLikeTheHostHoweverIllConditioned) {
  Emulation device;
  expect_orthonormal_like_host(device);
}
TEST(EmulatedMatrixCodecs, PowerSgdDecodesToTheHostsResultAsMessageAndInRounds) {
  Emulation device;
  expect_powersgd_like_host(device);
}
TEST(EmulatedMatrixCodecs, PowerSgdFollowsTheHostThroughPassesRoundsStacksAndCheckpoints) {
  for (const PowerSgdCase& c : powersgd_cases()) {
    Emulation device;
    ASSERT_NO_FATAL_FAILURE(expect_powersgd_follows_host(device, c));
  }
}
TEST(EmulatedMatrixCodecs, PowerSgdRevivesDeadColumnsOfEachMatrixOfAStack) {
  Emulation device;
  expect_powersgd_revives_dead_columns(device);
}
TEST(EmulatedMatrixCodecs, PowerSgdOfARankBeyondOnePanel) {
  Emulation device;
  expect_powersgd_of_high_rank(device);
}
TEST(EmulatedMatrixCodecs, SurviveDamagedPayloads) {
  Emulation device;
  expect_matrix_codecs_survive_damage(device);
}
TEST(EmulatedMatrixCodecs, AutoencoderAndItsGradientsEqualTheHosts) {
  Emulation device;
  expect_autoencoder_like_host(device);
}
TEST(EmulatedMatrixCodecs, DeviceCodecHoldsTheirState) {
  Emulation device;
  expect_device_codec_like_host(device);
}
TEST(EmulatedMatrixCodecs, ReportNonFiniteOversizedAndDamagedValuesInTheStatusWord) {
  Emulation device;
  expect_matrix_codecs_report_bad_values(device);
}
TEST(EmulatedMatrixCodecs, RefuseMoreColumnsThanTheirIndicesHold) {
  float a[1] = {};
  EXPECT_EQ(thinwire_cuda_orthonormalise(a, 100000, orthonormalise_most_columns + 1, 1, 0, a, 0, nullptr), cudaErrorNotSupported);
}

}  // namespace
}  // namespace thinwire::testing
