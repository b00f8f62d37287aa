// labels: gpu
// timeout: 600
// devices: cuda, emulated, lazy
// slow: lazy
// optimised: yes
// Memory, streams, events and kernels through the module that programs open: on a CUDA device where there is one, and on the emulated one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "core/device/device_module.h"
#include "core/device/tensor.h"
#include "kernels/codec/codecs/integer/quantize_entries.h"
#include "kernels/workspace.h"
#include "support/device_block_cases.h"
#include "support/device_damage_cases.h"
#include "support/device_nn_cases.h"
#include "support/device_powersgd_cases.h"
#include "support/nn_placement_cases.h"

namespace thinwire::testing {
namespace {

class Gpu final : public DeviceUnderTest {
 public:
  Gpu() : backend_(device_backend(DeviceKind::cuda)), stream_(backend_.create_stream(0)) {
    stream = stream_.handle;
  }
  ~Gpu() override { backend_.destroy_stream(stream_); }
  Placement where() const override { return {{DeviceKind::cuda, 0}, stream_}; }
  void* allocate(std::size_t bytes) override {
    memory_.emplace_back(bytes, Device{DeviceKind::cuda, 0});
    return memory_.back().data();
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    backend_.copy(to, from, bytes, stream_);
    backend_.synchronize(stream_);
  }
  void read(void* to, const void* from, std::size_t bytes) override { write(to, from, bytes); }

 private:
  DeviceBackend& backend_;
  Stream stream_;
  std::vector<Buffer> memory_;
};

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = why_unavailable(DeviceKind::cuda);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(CudaDevice, MemoryGoesToTheDeviceAndBackUnchanged) {
  DeviceBackend& gpu = device_backend(DeviceKind::cuda);
  Stream stream = gpu.create_stream(0);
  std::vector<int> sent(100'003), received(sent.size());
  std::iota(sent.begin(), sent.end(), 7);
  Buffer first(sent.size() * sizeof(int), {DeviceKind::cuda, 0}), second(sent.size() * sizeof(int), {DeviceKind::cuda, 0});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 64, 0u);
  gpu.copy(first.data(), sent.data(), sent.size() * sizeof(int), stream);
  gpu.copy(second.data(), first.data(), sent.size() * sizeof(int), stream);
  gpu.copy(received.data(), second.data(), sent.size() * sizeof(int), stream);
  gpu.synchronize(stream);
  EXPECT_EQ(received, sent);
  gpu.destroy_stream(stream);
  EXPECT_EQ(stream.handle, nullptr);
}

TEST_F(CudaDevice, EventsOrderStreamsAndMeasureTime) {
  DeviceBackend& gpu = device_backend(DeviceKind::cuda);
  Stream a = gpu.create_stream(0), b = gpu.create_stream(0);
  Event begin = gpu.create_event(0), end = gpu.create_event(0);
  constexpr std::size_t bytes = 64 << 20;
  Buffer one(bytes, {DeviceKind::cuda, 0}), two(bytes, {DeviceKind::cuda, 0});
  std::vector<std::byte> pattern(bytes, std::byte{0x5a}), back(bytes);
  gpu.record(begin, a);
  gpu.copy(one.data(), pattern.data(), bytes, a);
  gpu.copy(two.data(), one.data(), bytes, a);
  gpu.record(end, a);
  gpu.wait(b, end);  // b reads what a wrote, and only this event says so
  gpu.copy(back.data(), two.data(), bytes, b);
  gpu.synchronize(b);
  EXPECT_EQ(back, pattern);
  EXPECT_TRUE(gpu.finished(end));
  EXPECT_GT(gpu.elapsed_ms(begin, end), 0);
  gpu.destroy_event(begin), gpu.destroy_event(end);
  gpu.destroy_stream(a), gpu.destroy_stream(b);
}

TEST_F(CudaDevice, AnImpossibleAllocationThrowsAndTheDeviceStaysUsable) {
  EXPECT_THROW(Buffer(std::size_t{1} << 50, {DeviceKind::cuda, 0}), RuntimeFailure);
  EXPECT_NO_THROW(Buffer(1024, {DeviceKind::cuda, 0}));
}

TEST_F(CudaDevice, AWorkspaceGrowsInTheOrderOfItsStream) {
  DeviceBackend& gpu = device_backend(DeviceKind::cuda);
  Stream stream = gpu.create_stream(0);
  Event before = gpu.create_event(0);
  {
    const PlacementScope scope(Placement{{DeviceKind::cuda, 0}, stream});
    const std::vector<int> pattern(5000, 0x1234567), other(300'000, -1);
    std::vector<int> first(pattern.size());
    std::byte* small = device_workspace(pattern.size() * sizeof(int));
    EXPECT_EQ(device_workspace(100), small) << "it never shrinks";
    copy_elements(reinterpret_cast<int*>(small), pattern.data(), pattern.size());
    copy_elements(first.data(), reinterpret_cast<const int*>(small), first.size());
    gpu.record(before, stream);
    std::byte* large = device_workspace(other.size() * sizeof(int));
    const char* lazy = std::getenv("THINWIRE_EMULATED_LAZY");
    if (lazy != nullptr && *lazy == '1') {
      EXPECT_FALSE(gpu.finished(before)) << "growing has waited for queued work";
    }
    copy_elements(reinterpret_cast<int*>(large), other.data(), other.size());
    gpu.synchronize(stream);
    EXPECT_EQ(first, pattern) << "queued work lost the memory it was given";
  }
  gpu.destroy_event(before);
  gpu.destroy_stream(stream);
}

// The handle of a stream that was destroyed may come back with the next one, while work of the old one still waits.
TEST_F(CudaDevice, AWorkspaceEndsWithItsStreamWhoeverGetsTheHandle) {
  DeviceBackend& gpu = device_backend(DeviceKind::cuda);
  Stream old = gpu.create_stream(0);
  void* const handle = old.handle;
  Event written = gpu.create_event(0), read = gpu.create_event(0);
  const std::vector<int> pattern(5000, 0x1234567), other(pattern.size(), -1);
  std::vector<int> first(pattern.size());
  {
    const PlacementScope scope(Placement{{DeviceKind::cuda, 0}, old});
    auto* memory = reinterpret_cast<int*>(device_workspace(pattern.size() * sizeof(int)));
    copy_elements(memory, pattern.data(), pattern.size());
    gpu.record(written, old);
    copy_elements(first.data(), memory, first.size());
    gpu.record(read, old);
  }
  gpu.destroy_stream(old);
  while (!gpu.finished(written)) {
  }
  Stream fresh = gpu.create_stream(0);
  if (device_name({DeviceKind::cuda, 0}).starts_with("emulated")) {
    EXPECT_EQ(fresh.handle, handle) << "what this is about";
  }
  {
    const PlacementScope scope(Placement{{DeviceKind::cuda, 0}, fresh});
    copy_elements(reinterpret_cast<int*>(device_workspace(other.size() * sizeof(int))), other.data(), other.size());
    gpu.synchronize(fresh);
  }
  while (!gpu.finished(read)) {
  }
  EXPECT_EQ(first, pattern) << "another stream wrote into memory that queued work had been given";
  gpu.destroy_event(written), gpu.destroy_event(read);
  gpu.destroy_stream(fresh);
}

TEST_F(CudaDevice, EveryCodecEqualsTheHostsOverAwkwardShapesAndAlignments) {
  for (const DeviceCodecCase& test : device_codec_cases()) {
    Gpu device;
    expect_equals_host(device, test);
    if (HasFailure()) return;
  }
}

TEST_F(CudaDevice, BlocksOfAllLengthsAndTwoSettingsAtEvenAddressesEqualTheHosts) {
  std::vector<DeviceCodecCase> cases = long_block_cases();
  for (const CodecCase& c : block_codec_cases()) cases.push_back({c, Shape{4, 264}, 16, 16});
  for (const DeviceCodecCase& test : cases) {
    Gpu device;
    expect_equals_host(device, test);
    if (HasFailure()) return;
  }
}

TEST_F(CudaDevice, BlocksOfNumbersFromTheEndsOfF32EqualTheHosts) {
  for (const CodecCase& c : block_codec_cases()) {
    Gpu device;
    expect_awkward_like_host(device, c);
    if (HasFailure()) return;
  }
}

TEST_F(CudaDevice, EveryCodecReportsNonFiniteAndOversizedValuesInTheStatusWords) {
  for (const CodecCase& c : cuda_codec_cases()) {
    Gpu device;
    expect_reports_bad_values(device, c);
  }
}

TEST_F(CudaDevice, EveryBackwardRuleIsTheHosts) {
  int rules = 0;
  for (const CodecCase& c : cuda_codec_cases()) {
    if (make_codec(c.codec, c.form).codec->as<Backward>() == nullptr) continue;
    ++rules;
    for (const Shape& shape : {Shape{1, 1}, Shape{31, 37}}) {
      Gpu device;
      expect_backward_like_host(device, c, shape);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(rules, 0);
}

TEST_F(CudaDevice, EveryCodecSurvivesDamagedPayloads) {
  Gpu device;
  expect_all_survive_damage(device);
}

TEST_F(CudaDevice, AStepThatMakesTheLowestCodeInfiniteIsRefused) {
  Gpu device;
  expect_lowest_code_refused(device);
}

// The bound from the sample may be too high: then everything is collected again. One value in a large tensor that the sample cannot
// represent (all but a few elements zero) and the opposite (all equal) are such inputs.
TEST_F(CudaDevice, TopKIsExactWhereTheSampleMisleads) {
  const std::int64_t n = 5 * 16384;
  for (const auto& [value, rare, count] : {std::tuple{0.0f, 3.0f, 100}, {1.0f, 1.0f, 50}, {2.0f, 0.5f, n - 40}}) {
    std::vector<float> x(static_cast<std::size_t>(n), value);
    for (std::int64_t i = 0; i < n; i += 997) x[static_cast<std::size_t>(i)] = rare;
    const std::string codec = "topk:count=" + std::to_string(count) + ",values=f32";
    const CodecStack host = make_codec(codec);
    std::vector<std::byte> payload(host.codec->max_payload_bytes(Shape{n}));
    host.codec->encode({x.data(), Shape{n}}, {}, payload);
    Gpu device;
    const PlacementScope scope(device.where());
    const CodecStack own = make_codec(codec);
    std::byte* out = device.poisoned(payload.size());
    own.codec->encode({device.upload(x), DType::f32, Shape{n}, device.where().device}, {}, {out, payload.size()});
    EXPECT_EQ(device.download(out, payload.size()), payload) << codec << " of " << value << " and " << rare;
  }
}

TEST_F(CudaDevice, ShapesThatKernelsCannotHoldAreRefusedBeforeAnythingRuns) {
  constexpr int not_supported = 801;  // cudaErrorNotSupported
  Gpu device;
  float x[4] = {};
  std::uint32_t status = 0;
  EXPECT_NE(device.entry<thinwire_cuda_quantize_encode_fn>("thinwire_cuda_quantize_encode")(x, 1, 4, 3, 0, x, x, &status, 0, nullptr), 0) << "3 bits";
  EXPECT_NE(device.entry<thinwire_cuda_quantize_decode_fn>("thinwire_cuda_quantize_decode")(x, 1, 4, 3, 0, x, 0, &status, 0, nullptr), 0) << "3 bits";
  EXPECT_EQ(device.entry<thinwire_cuda_orthonormalise_fn>("thinwire_cuda_orthonormalise")(x, 100000, orthonormalise_most_columns + 1, 1, 0, x, 0, nullptr),
            not_supported)
      << "columns";
  EXPECT_EQ(device.entry<thinwire_cuda_attention_forward_fn>("thinwire_cuda_attention_forward")(device_bf16, 1, 1, 1, 129, x, x, x, 0, nullptr),
            not_supported) << "a head of 129";
}

TEST_F(CudaDevice, ResidualsEqualTheHostBitForBit) {
  Gpu device;
  expect_residuals_like_host(device);
}

TEST_F(CudaDevice, MatrixCodecsEqualTheHosts) {
  Gpu device;
  expect_orthonormal_like_host(device);
  expect_powersgd_like_host(device);
  for (const PowerSgdCase& c : powersgd_cases()) expect_powersgd_follows_host(device, c);
  expect_powersgd_revives_dead_columns(device);
  expect_powersgd_of_high_rank(device);
  expect_autoencoder_like_host(device);
  expect_matrix_codecs_report_bad_values(device);
}

TEST_F(CudaDevice, NnKernelsEqualTheHosts) {
  for (const auto check : {expect_gelu_like_host, expect_layernorm_like_host, expect_cross_entropy_like_host, expect_optimizer_like_host,
                           expect_attention_like_host, expect_elementwise_like_host, expect_gemm_like_host}) {
    Gpu device;
    check(device);
  }
}

TEST_F(CudaDevice, NnFunctionsUnderADevicePlacementEqualTheHost) {
  DeviceBackend& gpu = device_backend(DeviceKind::cuda);
  Stream own = gpu.create_stream(0);
  for (const Stream& stream : {own, Stream{{DeviceKind::cuda, 0}, nullptr}}) {
    const Placement where{stream.device, stream};
    for (const auto check : {expect_placed_like_host, expect_placed_damage, expect_placed_usage, expect_tokens_placed}) check(where);
  }
  gpu.synchronize(own);
  gpu.destroy_stream(own);
}

TEST_F(CudaDevice, NnFunctionsDoNotWaitForTheDevice) {
  if (std::getenv("THINWIRE_EMULATED_LAZY") == nullptr) GTEST_SKIP() << "only the emulated device's lazy mode shows it: a device may be done before it is asked";
  DeviceBackend& device = device_backend(DeviceKind::cuda);
  Stream stream = device.create_stream(0);
  expect_nothing_waits({stream.device, stream});
  device.synchronize(stream);
  device.destroy_stream(stream);
}

}  // namespace
}  // namespace thinwire::testing
