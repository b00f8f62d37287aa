// labels: unit
// The device twins of codecs, compiled for the host and run block by block: their indexing, packing and
// arithmetic against the host codecs, on machines without a GPU. The same checks on a GPU: tests/gpu.
#include "support/cuda_emulation.h"

#include "kernels/codec/cast.cu"
#include "kernels/codec/quantize.cu"
#include "support/device_codec_cases.h"

namespace thinwire::testing {
namespace {

class Emulation final : public DeviceUnderTest {
 public:
  Emulation() {
    cast_encode = thinwire_cuda_cast_encode;
    cast_decode = thinwire_cuda_cast_decode;
    quantize_encode = thinwire_cuda_quantize_encode;
    quantize_decode = thinwire_cuda_quantize_decode;
  }
  void* allocate(std::size_t bytes) override {
    memory_.emplace_back(bytes);
    return memory_.back().data();
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) override { write(to, from, bytes); }

 private:
  std::vector<Buffer> memory_;
};

TEST(EmulatedDeviceCodecs, EqualTheHostTwinBitForBitOverAwkwardShapesAndAlignments) {
  for (const DeviceCodecCase& test : device_codec_cases()) {
    Emulation device;
    ASSERT_NO_FATAL_FAILURE(expect_equals_host_twin(device, test));
  }
}

TEST(EmulatedDeviceCodecs, ReportNonFiniteOversizedAndDamagedValuesInTheStatusWord) {
  for (const char* codec : {"cast:to=f16", "cast:to=bf16", "quantize:bits=2", "quantize:bits=8"}) {
    Emulation device;
    expect_reports_bad_values(device, codec);
  }
}

TEST(EmulatedDeviceCodecs, RefuseBitsThatChunkPackingCannotHold) {
  Emulation device;
  float x[4] = {};
  std::uint8_t payload[64];
  alignas(16) float workspace[8];
  std::uint32_t status = 0;
  EXPECT_NE(device.quantize_encode(x, 1, 4, 3, payload, workspace, &status, 0, nullptr), 0);
  EXPECT_NE(device.quantize_decode(payload, 1, 4, 3, x, 0, &status, 0, nullptr), 0);
}

}  // namespace
}  // namespace thinwire::testing
