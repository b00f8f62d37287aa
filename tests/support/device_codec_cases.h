// One set of checks for the device twins of codecs, run on a GPU (tests/gpu) and on emulated kernels
// (tests/kernels/codec). A Device offers memory and the entry points; the host codec is the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/codec/device_kernels.h"
#include "kernels/codec/registry.h"

namespace thinwire::testing {

/// What a check needs of a device. Addresses come from `allocate` plus an offset in bytes, so that checks choose
/// the alignment; everything is freed by the destructor.
class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;  ///< after all queued work
  thinwire_cuda_cast_encode_fn* cast_encode = nullptr;
  thinwire_cuda_cast_decode_fn* cast_decode = nullptr;
  thinwire_cuda_quantize_encode_fn* quantize_encode = nullptr;
  thinwire_cuda_quantize_decode_fn* quantize_decode = nullptr;
  void* stream = nullptr;
};

/// What a device codec made of a tensor.
struct DeviceResult {
  std::vector<std::byte> payload;
  std::vector<float> decoded, added;
  std::uint32_t encode_status = 0, decode_status = 0;
};

struct DeviceCodecCase {
  std::string codec;  ///< expression of the host twin
  Shape shape;
  std::size_t value_offset = 0, payload_offset = 0;  ///< bytes: 0 = aligned, else a slice at an odd place
  std::string text() const {
    return codec + " " + shape.to_string() + " values +" + std::to_string(value_offset) + " payload +" + std::to_string(payload_offset);
  }
};

/// Shapes 1, primes, multiples of 4 and 16, rows past one tile, and slices at odd addresses.
inline std::vector<DeviceCodecCase> device_codec_cases() {
  std::vector<DeviceCodecCase> cases;
  for (const char* codec : {"cast:to=f16", "cast:to=bf16", "quantize:bits=2", "quantize:bits=4", "quantize:bits=8"})
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 3}, Shape{7, 5}, Shape{3, 16}, Shape{2, 3, 32}, Shape{131, 64}, Shape{259, 17},
                               Shape{5, 1031}, Shape{130, 260}, Shape{4, 6}, Shape{33, 512}, Shape{0, 8}}) {
      cases.push_back({codec, shape});
      cases.push_back({codec, shape, 4, 1});
      cases.push_back({codec, shape, 16, 2});
      cases.push_back({codec, shape, 0, 4});
    }
  return cases;
}

constexpr std::uint64_t device_seed = 20240503;

/// Magnitudes from subnormal halves to tens, a zero column, and exact ties.
inline std::vector<float> device_values(const Shape& shape) {
  const Random random(device_seed, "device values");
  std::vector<float> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % shape.columns();
    const float scale = std::ldexp(1.0f, static_cast<int>(column % 23) - 18);
    x[i] = column % 7 == 3 ? 0.0f : column % 5 == 1 ? 0.125f * static_cast<float>(random.below(i, 17)) - 1 : scale * static_cast<float>(random.normal(i));
  }
  return x;
}

inline DeviceResult run_on_device(DeviceUnderTest& device, const DeviceCodecCase& test, const std::vector<float>& x,
                                  const std::vector<float>& start, const std::function<void(std::vector<std::byte>&)>& damage = {}) {
  const CodecExpression expression = parse_codec(test.codec);
  const bool is_cast = expression.codec.name == "cast";
  const int bfloat16 = is_cast && expression.codec.parameters.choice("to") == "bf16";
  const int bits = is_cast ? 0 : static_cast<int>(expression.codec.parameters.integer("bits"));
  const std::int64_t rows = test.shape.rows(), columns = test.shape.columns(), n = test.shape.elements();
  const std::size_t payload_bytes = make_codec(expression).codec->max_payload_bytes(test.shape), value_bytes = x.size() * sizeof(float);

  const auto at = [&](std::size_t bytes, std::size_t offset) { return static_cast<std::byte*>(device.allocate(bytes + offset + 16)) + offset; };
  auto* values = reinterpret_cast<float*>(at(value_bytes, test.value_offset));
  auto* out = reinterpret_cast<float*>(at(value_bytes, test.value_offset));
  std::byte* payload = at(payload_bytes, test.payload_offset);
  auto* status = reinterpret_cast<std::uint32_t*>(at(8, 0));
  void* workspace = at(quantize_workspace_bytes(columns), 0);
  const std::uint32_t zeros[2] = {};
  // A guard behind each result: writing past the end must show.
  const std::vector<std::byte> guard(16, std::byte{0xa5});
  device.write(values, x.data(), value_bytes);
  device.write(status, zeros, 8);
  device.write(payload + payload_bytes, guard.data(), 16);
  device.write(reinterpret_cast<std::byte*>(out) + value_bytes, guard.data(), 16);

  DeviceResult result;
  result.payload.resize(payload_bytes);
  result.decoded.resize(x.size());
  result.added.resize(x.size());
  EXPECT_EQ(is_cast ? device.cast_encode(values, n, bfloat16, payload, status, 0, device.stream)
                    : device.quantize_encode(values, rows, columns, bits, payload, workspace, status, 0, device.stream), 0);
  device.read(result.payload.data(), payload, payload_bytes);
  if (damage) {
    damage(result.payload);
    device.write(payload, result.payload.data(), payload_bytes);
  }
  const auto decode = [&](int add, std::vector<float>& to) {
    device.write(out, start.data(), value_bytes);
    EXPECT_EQ(is_cast ? device.cast_decode(payload, n, bfloat16, out, add, status + 1, 0, device.stream)
                      : device.quantize_decode(payload, rows, columns, bits, out, add, status + 1, 0, device.stream), 0);
    device.read(to.data(), out, value_bytes);
  };
  decode(0, result.decoded);
  decode(1, result.added);
  std::uint32_t found[2];
  device.read(found, status, 8);
  result.encode_status = found[0], result.decode_status = found[1];
  std::vector<std::byte> behind(16);
  device.read(behind.data(), payload + payload_bytes, 16);
  EXPECT_EQ(behind, guard) << "a kernel wrote past the payload";
  device.read(behind.data(), reinterpret_cast<std::byte*>(out) + value_bytes, 16);
  EXPECT_EQ(behind, guard) << "a kernel wrote past the decoded tensor";
  return result;
}

/// Payload and decoded values equal those of the host codec bit for bit.
inline void expect_equals_host_twin(DeviceUnderTest& device, const DeviceCodecCase& test) {
  SCOPED_TRACE(test.text() + ", seed " + std::to_string(device_seed));
  const std::vector<float> x = device_values(test.shape);
  std::vector<float> start(x.size());
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % 11) - 5;
  const DeviceResult result = run_on_device(device, test, x, start);
  EXPECT_EQ(result.encode_status, 0u);
  EXPECT_EQ(result.decode_status, 0u);

  const CodecStack host = make_codec(test.codec);
  const MessageKey key{.tensor = hash_name("device")};
  std::vector<std::byte> payload(host.codec->max_payload_bytes(test.shape));
  payload.resize(host.codec->encode({x.data(), test.shape}, key, payload));
  ASSERT_EQ(result.payload.size(), payload.size());
  for (std::size_t i = 0; i < payload.size(); ++i) ASSERT_EQ(result.payload[i], payload[i]) << "payload byte " << i;
  std::vector<float> decoded(x.size()), added = start;
  host.codec->decode(payload, key, {decoded.data(), test.shape});
  host.codec->decode_add(payload, key, {added.data(), test.shape});
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(result.decoded[i], decoded[i]) << "element " << i;
    ASSERT_EQ(result.added[i], added[i]) << "element " << i << " of decode_add";
  }
}

/// What the host refuses by an exception a kernel reports in the status word.
inline void expect_reports_bad_values(DeviceUnderTest& device, const std::string& codec) {
  const DeviceCodecCase test{codec, Shape{5, 36}};
  const std::vector<float> start(180);
  const auto status_with = [&](std::size_t position, float value) {
    std::vector<float> x(180, 0.5f);
    x[position] = value;
    return run_on_device(device, test, x, start).encode_status;
  };
  for (std::size_t position : {0u, 37u, 179u}) {
    EXPECT_EQ(status_with(position, std::numeric_limits<float>::quiet_NaN()), device_status_non_finite) << codec;
    EXPECT_EQ(status_with(position, -std::numeric_limits<float>::infinity()), device_status_non_finite) << codec;
    const bool wide = codec == "cast:to=bf16";
    EXPECT_EQ(status_with(position, -1e6f), wide ? 0u : device_status_beyond_range) << codec;
  }
  const DeviceResult damaged = run_on_device(device, test, std::vector<float>(180, 0.5f), start, [](std::vector<std::byte>& payload) {
    payload[6] = std::byte{0x80}, payload[7] = std::byte{0x7f};  // little endian: f16 NaN, bf16 infinity
  });
  EXPECT_EQ(damaged.decode_status, device_status_damaged) << codec;
}

}  // namespace thinwire::testing
