// labels: unit
// The device twins of codecs, compiled for the host and run block by block: their indexing, packing and
// arithmetic against the host codecs, on machines without a GPU. The same checks on a GPU: tests/gpu.
#include "support/cuda_emulation.h"

#include "kernels/codec/cast.cu"
#include "kernels/codec/none.cu"
#include "kernels/codec/quantize.cu"
#include "kernels/codec/randomk.cu"
#include "kernels/codec/residuals.cu"
#include "kernels/codec/topk.cu"
#include "support/device_damage_cases.h"
#include "support/emulated_device.h"

namespace thinwire::testing {
namespace {

const std::map<std::string, void*> entries = {
    EMULATED(thinwire_cuda_cast_encode),     EMULATED(thinwire_cuda_cast_decode),     EMULATED(thinwire_cuda_quantize_encode),
    EMULATED(thinwire_cuda_quantize_decode), EMULATED(thinwire_cuda_none_decode),     EMULATED(thinwire_cuda_residual_add),
    EMULATED(thinwire_cuda_residual_store),  EMULATED(thinwire_cuda_topk_encode),     EMULATED(thinwire_cuda_sparse_scatter),
    EMULATED(thinwire_cuda_sparse_gather),   EMULATED(thinwire_cuda_randomk_gather),  EMULATED(thinwire_cuda_randomk_scatter),
    EMULATED(thinwire_cuda_randomk_released_encode), EMULATED(thinwire_cuda_randomk_released_decode),
    EMULATED(thinwire_cuda_randomk_released_gather), EMULATED(thinwire_cuda_randomk_released_scatter),
};
struct Emulation final : EmulatedDevice {
  Emulation() : EmulatedDevice(entries) {}
};

TEST(EmulatedDeviceCodecs, EqualTheHostTwinBitForBitOverAwkwardShapesAndAlignments) {
  for (const DeviceCodecCase& test : device_codec_cases()) {
    Emulation device;
    ASSERT_NO_FATAL_FAILURE(expect_equals_host_twin(device, test));
  }
}

TEST(EmulatedDeviceCodecs, ReportNonFiniteOversizedAndDamagedValuesInTheStatusWord) {
  for (const char* codec : {"cast:to=f16", "cast:to=bf16", "quantize:bits=2", "quantize:bits=8", "quantize:bits=8,packing=neighbour", "topk:fraction=1", "randomk:fraction=1", "randomk:fraction=1,values=f32"}) {
    Emulation device;
    expect_reports_bad_values(device, codec);
  }
}

TEST(EmulatedDeviceCodecs, MaskGradientsLikeTheHostTwin) {
  for (const char* codec : {"topk:fraction=0.1", "topk:fraction=0.2,index=int32,values=f32", "topk:fraction=0.5,index=int64", "topk:fraction=1",
                            "randomk:fraction=0.2", "randomk:fraction=0.7"})
    for (const Shape& shape : {Shape{1, 1}, Shape{31, 37}, Shape{130, 517}}) {
      Emulation device;
      expect_masks_like_host_twin(device, codec, shape);
      if (std::string_view(codec).find("index=") == std::string_view::npos) expect_masks_like_host_twin(device, codec, shape, Form::released);
    }
}

TEST(EmulatedDeviceCodecs, SurviveDamagedPayloads) {
  Emulation device;
  expect_all_survive_damage(device);
}

TEST(EmulatedDeviceCodecs, ReportDamagedPositionsWhereTheHostRefusesThem) {
  for (const char* codec : {"topk:fraction=0.1", "topk:fraction=0.0005", "topk:fraction=0.1,index=int32", "topk:fraction=0.1,index=int64"}) {
    Emulation device;
    expect_reports_damaged_positions(device, codec);
  }
  Emulation device;
  expect_reports_damaged_positions(device, "randomk:fraction=0.1", Form::released);
}

TEST(EmulatedDeviceCodecs, ResidualsEqualTheHostBitForBit) {
  Emulation device;
  expect_residuals_like_host(device);
}

// The bound from the sample may be too high: then everything is collected again. One value in a large tensor that the sample cannot
// represent (all but a few elements zero) and the opposite (all equal) are such inputs.
TEST(EmulatedDeviceCodecs, TopKIsExactWhereTheSampleMisleads) {
  const std::int64_t n = 5 * 16384;
  for (const auto& [value, rare, count] : {std::tuple{0.0f, 3.0f, 100}, {1.0f, 1.0f, 50}, {2.0f, 0.5f, n - 40}}) {
    std::vector<float> x(static_cast<std::size_t>(n), value);
    for (std::int64_t i = 0; i < n; i += 997) x[static_cast<std::size_t>(i)] = rare;
    const std::string codec = "topk:count=" + std::to_string(count) + ",values=f32";
    const CodecStack host = make_codec(codec);
    std::vector<std::byte> payload(host.codec->max_payload_bytes(Shape{n}));
    host.codec->encode({x.data(), Shape{n}}, {}, payload);
    Emulation device;
    DeviceCodec on_device(codec, Shape{n}, seam_of(device));
    std::byte* out = device.poisoned(payload.size());
    on_device.encode(device.upload(x), {}, out, device.upload(std::vector<std::uint32_t>(1)));
    EXPECT_EQ(device.download(out, payload.size()), payload) << codec << " of " << value << " and " << rare;
  }
}

TEST(EmulatedDeviceCodecs, RefuseBitsThatChunkPackingCannotHold) {
  Emulation device;
  float x[4] = {};
  std::uint8_t payload[64];
  alignas(16) float workspace[8];
  std::uint32_t status = 0;
  EXPECT_NE(thinwire_cuda_quantize_encode(x, 1, 4, 3, 0, payload, workspace, &status, 0, nullptr), 0);
  EXPECT_NE(thinwire_cuda_quantize_decode(payload, 1, 4, 3, 0, x, 0, &status, 0, nullptr), 0);
}

}  // namespace
}  // namespace thinwire::testing
