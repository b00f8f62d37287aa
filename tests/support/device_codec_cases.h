// One set of checks for the CUDA implementations of codecs, run on a GPU (tests/gpu) and on emulated kernels
// (tests/kernels/codec). A Device offers memory and the entry points; the host codec is the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/random.h"
#include "kernels/codec/cuda/device_codec.h"
#include "kernels/codec/cuda/device_kernels.h"
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
  /// The entry point of this name.
  virtual void* find(const std::string& name) = 0;
  template <typename Function>
  Function* entry(const std::string& name) {
    return reinterpret_cast<Function*>(find(name));
  }
  /// Memory that holds 0xcd everywhere: what a kernel leaves out must show.
  std::byte* poisoned(std::size_t bytes, std::size_t offset = 0) {
    const std::vector<std::byte> poison(bytes + offset + 16, std::byte{0xcd});
    auto* p = static_cast<std::byte*>(allocate(poison.size()));
    write(p, poison.data(), poison.size());
    return p + offset;
  }
  template <typename T>
  T* upload(const std::vector<T>& values, std::size_t offset = 0) {
    std::byte* p = poisoned(values.size() * sizeof(T), offset);
    write(p, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(p);
  }
  template <typename T>
  std::vector<T> download(const T* p, std::size_t count) {
    std::vector<T> values(count);
    read(values.data(), p, count * sizeof(T));
    return values;
  }
  /// One workspace for all codecs, in which each finds noise: what they keep between calls must not lie there.
  void* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) scratch_ = poisoned(scratch_bytes_ = bytes);
    const std::vector<std::byte> noise(std::min<std::size_t>(bytes, 1 << 18), std::byte{0xcd});
    write(scratch_, noise.data(), noise.size());
    write(scratch_ + bytes - noise.size(), noise.data(), noise.size());
    return scratch_;
  }
  void* stream = nullptr;

 private:
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

/// The seam of a device under test; memory is poisoned.
inline DeviceSeam seam_of(DeviceUnderTest& device) {
  return {[&](const std::string& name) { return device.find(name); }, [&](std::size_t bytes) { return static_cast<void*>(device.poisoned(bytes)); },
          [&](void* to, const void* from, std::size_t bytes) { device.write(to, from, bytes); }, {}, 0, device.stream,
          [&](void* to, const void* from, std::size_t bytes) { device.read(to, from, bytes); }, [&](std::size_t bytes) { return device.scratch(bytes); }};
}

/// What a device codec made of a tensor.
struct DeviceResult {
  std::vector<std::byte> payload;
  std::vector<float> decoded, added;
  std::uint32_t encode_status = 0, decode_status = 0;
};

struct DeviceCodecCase {
  std::string codec;  ///< expression of the host implementation
  Shape shape;
  std::size_t value_offset = 0, payload_offset = 0;  ///< bytes: 0 = aligned, else a slice at an odd place
  Form form = Form::fair;
  std::string text() const {
    return codec + " (" + name_of(form) + ") " + shape.to_string() + " values +" + std::to_string(value_offset) + " payload +" +
           std::to_string(payload_offset);
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
  for (const char* codec : {"none", "topk:fraction=0.1", "topk:fraction=0.3,values=f32", "topk:count=1,index=int32", "topk:fraction=0.5,index=int64",
                            "topk:fraction=1", "topk:fraction=0.001", "randomk:fraction=0.1", "randomk:fraction=0.6,values=f32,unbiased=true",
                            "randomk:fraction=1", "randomk:count=3"})
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{131, 64}, Shape{259, 17}, Shape{0, 8}}) {
      cases.push_back({codec, shape});
      cases.push_back({codec, shape, 4, 1});
    }
  // Forms of quantize that go other ways than those above, and what the authors' codes do.
  for (const char* codec : {"quantize:bits=1", "quantize:bits=3", "quantize:bits=5,norm=l2", "quantize:bits=6", "quantize:bits=7",
                            "quantize:bits=4,packing=neighbour", "quantize:bits=8,packing=neighbour,norm=l2", "quantize:bits=2,norm=l2"})
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{2, 3, 32}, Shape{259, 17}, Shape{33, 512}, Shape{130, 260}, Shape{0, 8}}) {
      cases.push_back({codec, shape});
      cases.push_back({codec, shape, 4, 1});
      cases.push_back({codec, shape, 16, 16, Form::released});
    }
  for (const char* codec : {"quantize:bits=2", "quantize:bits=4", "quantize:bits=8", "topk:fraction=0.1", "topk:fraction=0.2,values=f32",
                            "randomk:fraction=0.1", "randomk:fraction=0.6,values=f32,unbiased=true", "randomk:fraction=1", "randomk:count=3"})
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{131, 64}, Shape{0, 8}}) {
      cases.push_back({codec, shape, 0, 0, Form::released});
      cases.push_back({codec, shape, 4, 1, Form::released});
    }
  cases.push_back({"quantize:bits=2,norm=l2", Shape{700, 3}, 4, 2});  // several tiles of rows
  // Past 65536 elements: the sample of top-k, several blocks of random-k, long streams of positions.
  for (const char* codec : {"topk:fraction=0.01", "topk:fraction=0.01,index=int32", "topk:fraction=0.45,values=f32", "randomk:fraction=0.01",
                            "randomk:fraction=0.7,values=f32"}) {
    cases.push_back({codec, Shape{257, 512}});
    cases.push_back({codec, Shape{70001, 1}, 4, 1});
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
  DeviceCodec codec(test.codec, test.shape, seam_of(device), test.form);
  const MessageKey key{.tensor = hash_name("device")};
  const std::size_t payload_bytes = codec.payload_bytes(), value_bytes = x.size() * sizeof(float);
  // A guard behind each result: writing past the end must show.
  const std::vector<std::byte> guard(16, std::byte{0xcd});
  const float* values = device.upload(x, test.value_offset);
  auto* out = reinterpret_cast<float*>(device.poisoned(value_bytes, test.value_offset));
  std::byte* payload = device.poisoned(payload_bytes, test.payload_offset);
  std::uint32_t* status = device.upload(std::vector<std::uint32_t>(2));

  DeviceResult result;
  codec.encode(values, key, payload, status);
  result.payload = device.download(payload, payload_bytes);
  if (damage) {
    damage(result.payload);
    device.write(payload, result.payload.data(), payload_bytes);
  }
  const std::vector<float> poison(x.size(), -12345.0f);
  const auto decode = [&](int add, std::vector<float>& to) {
    device.write(out, add ? start.data() : poison.data(), value_bytes);
    codec.decode(payload, key, out, add != 0, status + 1);
    to = device.download(out, x.size());
  };
  decode(0, result.decoded);
  decode(1, result.added);
  const auto found = device.download(status, 2);
  result.encode_status = found[0], result.decode_status = found[1];
  EXPECT_EQ(device.download(payload + payload_bytes, 16), guard) << "a kernel wrote past the payload";
  EXPECT_EQ(device.download(reinterpret_cast<std::byte*>(out) + value_bytes, 16), guard) << "a kernel wrote past the decoded tensor";
  return result;
}

/// Payload and decoded values equal those of the host codec bit for bit.
inline void expect_equals_host(DeviceUnderTest& device, const DeviceCodecCase& test) {
  SCOPED_TRACE(test.text() + ", seed " + std::to_string(device_seed));
  const std::vector<float> x = device_values(test.shape);
  std::vector<float> start(x.size());
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % 11) - 5;
  const DeviceResult result = run_on_device(device, test, x, start);
  EXPECT_EQ(result.encode_status, 0u);
  EXPECT_EQ(result.decode_status, 0u);

  const CodecStack host = make_codec(test.codec, test.form);
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

/// The masked backward rule: what travels and what arrives equal the host's.
inline void expect_masks_like_host(DeviceUnderTest& device, const std::string& codec, const Shape& shape, Form form = Form::fair) {
  SCOPED_TRACE(codec + " (" + name_of(form) + ") " + shape.to_string() + ", seed " + std::to_string(device_seed));
  const std::vector<float> x = device_values(shape);
  std::vector<float> gradient(x.size()), back(x.size());
  const Random random(device_seed, "device gradient");
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(random.normal(i));
  const MessageKey key{.tensor = hash_name("device")};
  const CodecStack sender = make_codec(codec, form), receiver = make_codec(codec, form);
  sender.codec->remember_messages(true), receiver.codec->remember_messages(true);
  std::vector<std::byte> payload(sender.codec->max_payload_bytes(shape));
  sender.codec->encode({x.data(), shape}, key, payload);
  receiver.codec->decode(payload, key, {back.data(), shape});
  std::vector<float> travel(static_cast<std::size_t>(sender.codec->travel_shape(shape).elements()));
  receiver.codec->decode_backward({gradient.data(), shape}, key, {travel.data(), Shape{static_cast<std::int64_t>(travel.size())}});
  sender.codec->encode_backward({travel.data(), Shape{static_cast<std::int64_t>(travel.size())}}, key, {back.data(), shape});

  DeviceCodec on_device(codec, shape, seam_of(device), form);
  std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
  const auto* message = device.upload(payload, 3);
  auto* list = reinterpret_cast<float*>(device.poisoned(travel.size() * sizeof(float)));
  auto* arrived = reinterpret_cast<float*>(device.poisoned(back.size() * sizeof(float)));
  on_device.decode_backward(message, key, device.upload(gradient), list, status);
  EXPECT_EQ(device.download(list, travel.size()), travel);
  on_device.encode_backward(message, key, list, arrived, status);
  EXPECT_EQ(device.download(arrived, back.size()), back);
  EXPECT_EQ(device.download(status, 1)[0], 0u);
}

/// Damage to a sparse payload: any byte of the positions changed either decodes to another valid set or is reported, and nothing outside
/// the tensor is touched (the guard of run_on_device).
inline void expect_reports_damaged_positions(DeviceUnderTest& device, const std::string& codec, Form form = Form::fair) {
  const DeviceCodecCase test{codec, Shape{97, 41}, 0, 0, form};
  const std::vector<float> x = device_values(test.shape), start(x.size());
  const CodecStack host = make_codec(codec, form);
  const MessageKey key{.tensor = hash_name("device")};
  const std::size_t bytes = host.codec->max_payload_bytes(test.shape);
  const auto kept = static_cast<std::size_t>(host.codec->travel_shape(test.shape).elements());
  const std::size_t first = 2 * kept;
  for (std::size_t at : {first, first + 5, first + kept / 2, first + kept + 3, bytes - 1}) {
    if (at >= bytes) continue;  // a short list
    SCOPED_TRACE(codec + ", byte " + std::to_string(at));
    std::vector<std::byte> changed;
    const DeviceResult result = run_on_device(device, test, x, start, [&](std::vector<std::byte>& payload) {
      payload[at] = payload[at] ^ std::byte{0x5a};
      changed = payload;
    });
    std::vector<float> decoded(x.size());
    bool refused = false;
    try {
      host.codec->decode(changed, key, {decoded.data(), test.shape});
    } catch (const CorruptData&) {
      refused = true;
    }
    EXPECT_EQ(result.decode_status, refused ? device_status_damaged : 0u);
    if (!refused) {
      EXPECT_EQ(result.decoded, decoded);
    }
  }
}

/// x + beta * residual and x - seen, bit for bit with the host's two roundings.
inline void expect_residuals_like_host(DeviceUnderTest& device) {
  const Random random(device_seed, "residuals");
  for (std::int64_t count : {1, 3, 4, 17, 256, 1031})
    for (std::size_t offset : {0u, 4u}) {
      const auto n = static_cast<std::size_t>(count);
      std::vector<float> x(n), e(n), sum(n), difference(n);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(random.normal(2 * i)), e[i] = static_cast<float>(random.normal(2 * i + 1));
        const volatile float product = 0.9f * e[i];  // rounded before it is added
        sum[i] = x[i] + product, difference[i] = x[i] - e[i];
      }
      float* to = device.upload(x, offset);
      const float *a = device.upload(x), *b = device.upload(e, offset);
      auto* kept = reinterpret_cast<float*>(device.poisoned(n * sizeof(float), offset));
      EXPECT_EQ(device.entry<thinwire_cuda_residual_add_fn>("thinwire_cuda_residual_add")(to, b, 0.9f, count, 0, device.stream), 0);
      EXPECT_EQ(device.entry<thinwire_cuda_residual_store_fn>("thinwire_cuda_residual_store")(a, b, kept, count, 0, device.stream), 0);
      EXPECT_EQ(device.download(to, n), sum) << count;
      EXPECT_EQ(device.download(kept, n), difference) << count;
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
    const bool wide = codec == "cast:to=bf16" || codec.find("values=f32") != std::string::npos;
    EXPECT_EQ(status_with(position, -1e6f), wide ? 0u : device_status_beyond_range) << codec;
  }
  const DeviceResult damaged = run_on_device(device, test, std::vector<float>(180, 0.5f), start, [](std::vector<std::byte>& payload) {
    payload[6] = std::byte{0x80}, payload[7] = std::byte{0x7f};  // little endian: f16 NaN, bf16 infinity, f32 infinity
  });
  EXPECT_EQ(damaged.decode_status, device_status_damaged) << codec;
}

}  // namespace thinwire::testing
