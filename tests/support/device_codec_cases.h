// One set of checks for the CUDA implementations of codecs, run on a GPU and on the emulated device. The host codec is the oracle; which codecs
// there are says the registry, and what must be equal say their traits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/placement.h"
#include "core/random.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/wrappers/residuals_entries.h"
#include "kernels/cuda/kernel_abi.h"
#include "support/codec_expressions.h"

namespace thinwire::testing {

/// What a check needs of a device. Addresses come from `allocate` plus an offset in bytes, so that checks choose
/// the alignment; everything is freed by the destructor.
class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;  ///< after all queued work
  /// Where codecs under test compute: work is queued on `stream`.
  virtual Placement where() const = 0;
  template <typename Function>
  Function* entry(const char* name) {
    return device_function<Function>(name);
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
  void* stream = nullptr;
};

constexpr std::uint64_t device_seed = 20240503;

/// What a codec on a device made of a tensor.
struct DeviceResult {
  std::vector<std::byte> payload;
  std::vector<float> decoded, added;
  std::array<std::uint32_t, 2> status{};  ///< of encode and decode
};

struct DeviceCodecCase : CodecCase {
  Shape shape{0};
  std::size_t value_offset = 0, payload_offset = 0;  ///< bytes: 0 = aligned, else a slice at an odd place
  std::string text() const {
    return CodecCase::text() + " " + shape.to_string() + " values +" + std::to_string(value_offset) + " payload +" + std::to_string(payload_offset) + ", seed " +
           std::to_string(device_seed);
  }
};

/// Shapes 1, primes, multiples of 4 and 16, rows past one tile, and slices at odd addresses; two settings at a time on a small one. Codecs of products,
/// which are compared up to rounding and may have to be fitted, on fewer.
inline std::vector<DeviceCodecCase> device_codec_cases() {
  std::vector<DeviceCodecCase> cases;
  for (const CodecCase& c : cuda_codec_cases()) {
    for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{2, 3, 32}, Shape{0, 8}}) {
      cases.push_back({c, shape});
      cases.push_back({c, shape, 4, 1});
    }
    if (make_codec(c.codec, c.form).codec->traits().reordered_sums) continue;
    for (const Shape& shape : {Shape{1, 3}, Shape{131, 64}, Shape{259, 17}}) {
      cases.push_back({c, shape});
      cases.push_back({c, shape, 4, 1});
    }
    cases.push_back({c, Shape{5, 1031}, 4, 1});
    cases.push_back({c, Shape{130, 260}, 16, 2});
    cases.push_back({c, Shape{131, 64}, 0, 4});
    cases.push_back({c, Shape{33, 512}, 16, 16});
    cases.push_back({c, Shape{700, 3}, 4, 2});  // several tiles of rows
  }
  for (const CodecCase& c : cuda_codec_cases(true)) cases.push_back({c, Shape{7, 12}, 4, 1});
  // Past 65536 elements: samples of selections, several blocks, long streams of positions.
  for (const CodecCase& c : cuda_codec_cases())
    if (c.codec.find(':') == std::string::npos && c.form == Form::fair) {
      if (!make_codec(c.codec).codec->traits().needs_fit) cases.push_back({c, Shape{257, 512}});
      cases.push_back({c, Shape{70001, 1}, 4, 1});
    }
  return cases;
}

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

/// Inputs on which host and device can be compared: where sums run in another order, well-conditioned ones.
inline std::vector<float> values_for(const CodecTraits& traits, const Shape& shape) {
  if (!traits.reordered_sums) return device_values(shape);
  const Random random(device_seed, "device normal values");
  std::vector<float> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

/// The codec of a case where the thread computes; fitted on the same sample everywhere. Null where it refuses tensors of this shape.
inline std::unique_ptr<Codec> codec_here(const CodecCase& c, const Shape& shape) {
  std::unique_ptr<Codec> codec = std::move(make_codec(c.codec, c.form).codec);
  try {
    if (codec->traits().needs_fit && shape.elements() > 0) {
      const std::vector<float> sample = values_for(codec->traits(), {64, shape.columns()});
      Tensor rows(Shape{64, shape.columns()});
      copy_and_wait(rows.view().data(), sample.data(), rows.bytes());
      const ConstTensorView view = std::as_const(rows).view();
      codec->as<Fit>()->fit({&view, 1});
    }
    (void)codec->max_payload_bytes(shape);
  } catch (const UsageError&) {
    return nullptr;
  }
  return codec;
}

/// Encodes, and decodes what `damage` leaves of the payload.
inline DeviceResult run_on_device(DeviceUnderTest& device, const DeviceCodecCase& test, const std::vector<float>& x, const std::vector<float>& start,
                                  const std::function<void(std::vector<std::byte>&)>& damage = {}) {
  const PlacementScope scope(device.where());
  const std::unique_ptr<Codec> codec = codec_here(test, test.shape);
  const Device here = device.where().device;
  const MessageKey key{.tensor = hash_name("device")};
  const std::size_t payload_bytes = codec->max_payload_bytes(test.shape), value_bytes = x.size() * sizeof(float);
  // A guard behind each result: writing past the end must show.
  const std::vector<std::byte> guard(16, std::byte{0xcd});
  const ConstTensorView values(device.upload(x, test.value_offset), DType::f32, test.shape, here);
  const TensorView out(device.poisoned(value_bytes, test.value_offset), DType::f32, test.shape, here);
  std::byte* payload = device.poisoned(payload_bytes, test.payload_offset);

  DeviceResult result;
  EXPECT_EQ(codec->encode(values, key, {payload, payload_bytes}), payload_bytes);
  result.payload = device.download(payload, payload_bytes);
  if (damage) {
    damage(result.payload);
    device.write(payload, result.payload.data(), payload_bytes);
  }
  const std::vector<float> poison(x.size(), -12345.0f);
  device.write(out.data(), poison.data(), value_bytes);
  codec->decode({payload, payload_bytes}, key, out);
  result.decoded = device.download(static_cast<const float*>(out.data()), x.size());
  device.write(out.data(), start.data(), value_bytes);
  codec->decode_add({payload, payload_bytes}, key, out);
  result.added = device.download(static_cast<const float*>(out.data()), x.size());
  if (const auto* half = codec->as<DeviceHalf>()) device.read(result.status.data(), half->status_words(), sizeof result.status);
  EXPECT_EQ(device.download(payload + payload_bytes, 16), guard) << "a kernel wrote past the payload";
  EXPECT_EQ(device.download(static_cast<const std::byte*>(out.data()) + value_bytes, 16), guard) << "a kernel wrote past the decoded tensor";
  return result;
}

/// Equal bits, or where sums run in another order |actual - expected| at most 3e-3 of the largest (a value may round to another f16 number).
inline void expect_like_host(const std::vector<float>& actual, const std::vector<float>& expected, bool exact, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 1e-20f;
  for (const float v : expected) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool good = exact ? std::bit_cast<std::uint32_t>(actual[i]) == std::bit_cast<std::uint32_t>(expected[i]) : std::abs(actual[i] - expected[i]) <= 3e-3f * largest;
    ASSERT_TRUE(good) << what << ", element " << i << ": " << actual[i] << " instead of " << expected[i];
  }
}

/// Payload and decoded values of x equal those of the host codec: bit for bit, unless its traits say that sums may run in another order.
inline void expect_equals_host(DeviceUnderTest& device, const DeviceCodecCase& test, const std::vector<float>& x) {
  SCOPED_TRACE(test.text());
  const std::unique_ptr<Codec> host = codec_here(test, test.shape);
  const bool exact = !host->traits().reordered_sums;
  std::vector<float> start(x.size());
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i % 11) - 5;
  const DeviceResult result = run_on_device(device, test, x, start);
  EXPECT_EQ(result.status, (std::array<std::uint32_t, 2>{}));

  const MessageKey key{.tensor = hash_name("device")};
  std::vector<std::byte> payload(host->max_payload_bytes(test.shape));
  payload.resize(host->encode({x.data(), test.shape}, key, payload));
  ASSERT_EQ(result.payload.size(), payload.size());
  for (std::size_t i = 0; exact && i < payload.size(); ++i) ASSERT_EQ(result.payload[i], payload[i]) << "payload byte " << i;
  std::vector<float> decoded(x.size()), added = start;
  host->decode(payload, key, {decoded.data(), test.shape});
  host->decode_add(payload, key, {added.data(), test.shape});
  expect_like_host(result.decoded, decoded, exact, "decode");
  expect_like_host(result.added, added, exact, "decode_add");
}
inline void expect_equals_host(DeviceUnderTest& device, const DeviceCodecCase& test) {
  const std::unique_ptr<Codec> host = codec_here(test, test.shape);
  if (host != nullptr && host->traits().gather) expect_equals_host(device, test, values_for(host->traits(), test.shape));
}

/// A backward rule of its own: what travels and what arrives are the host's.
inline void expect_backward_like_host(DeviceUnderTest& device, const CodecCase& c, const Shape& shape) {
  SCOPED_TRACE(c.text() + " " + shape.to_string() + ", seed " + std::to_string(device_seed));
  const std::vector<float> x = values_for(make_codec(c.codec, c.form).codec->traits(), shape);
  std::vector<float> gradient(x.size());
  const Random random(device_seed, "device gradient");
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(random.normal(i));
  const MessageKey key{.tensor = hash_name("device")};
  struct Seen {
    std::vector<float> travel, arrived, reduced;
  };
  const auto run = [&]() -> Seen {
    const std::unique_ptr<Codec> sender = codec_here(c, shape), receiver = codec_here(c, shape);
    if (sender == nullptr || sender->as<Backward>() == nullptr) return {};
    Backward &out = *sender->as<Backward>(), &back = *receiver->as<Backward>();
    out.remember_messages(true), back.remember_messages(true);
    Tensor values(shape), g(shape), arrived(shape), travel(out.travel_shape(shape));
    copy_and_wait(values.view().data(), x.data(), values.bytes());
    copy_and_wait(g.view().data(), gradient.data(), g.bytes());
    const std::size_t bytes = sender->max_payload_bytes(shape);
    Buffer payload(bytes + 16);
    sender->encode(std::as_const(values).view(), key, {payload.data(), bytes});
    receiver->decode({payload.data(), bytes}, key, arrived.view());
    back.decode_backward(std::as_const(g).view(), key, travel.view());
    out.encode_backward(std::as_const(travel).view(), key, arrived.view());
    Seen seen{std::vector<float>(static_cast<std::size_t>(travel.elements())), std::vector<float>(x.size()), std::vector<float>(x.size())};
    copy_and_wait(seen.travel.data(), travel.view().data(), travel.bytes());
    copy_and_wait(seen.arrived.data(), arrived.view().data(), arrived.bytes());
    MessageKey sum = key;
    sum.step = 1;
    sender->encode(std::as_const(values).view(), sum, {payload.data(), bytes});
    sender->decode({payload.data(), bytes}, sum, arrived.view());
    out.reduction_backward(std::as_const(g).view(), sum, arrived.view());
    copy_and_wait(seen.reduced.data(), arrived.view().data(), arrived.bytes());
    if (const auto* half = sender->as<DeviceHalf>()) {
      std::array<std::uint32_t, 2> status{};
      copy_and_wait(status.data(), half->status_words(), sizeof status);
      EXPECT_EQ(status, (std::array<std::uint32_t, 2>{}));
    }
    return seen;
  };
  const Seen host = run();
  const PlacementScope scope(device.where());
  const Seen here = run();
  const bool exact = !make_codec(c.codec, c.form).codec->traits().reordered_sums;
  expect_like_host(here.travel, host.travel, exact, "what travels");
  expect_like_host(here.arrived, host.arrived, exact, "what arrives");
  expect_like_host(here.reduced, host.reduced, exact, "the gradient of a sum");
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

/// What the host refuses by an exception a kernel reports in the status words: NaN, infinity, and what its wire type cannot hold.
inline void expect_reports_bad_values(DeviceUnderTest& device, const CodecCase& c) {
  const Shape shape{5, 36};
  const DeviceCodecCase test{c, shape};
  SCOPED_TRACE(test.text());
  const std::unique_ptr<Codec> host = codec_here(c, shape);
  if (host == nullptr || !host->traits().gather || host->traits().lossless) return;
  const std::vector<float> start(180);
  const MessageKey key{.tensor = hash_name("device")};
  std::vector<std::byte> payload(host->max_payload_bytes(shape));
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), -1e6f})
    for (const std::size_t position : {0u, 37u, 179u}) {
      std::vector<float> x(180, 0.5f);
      x[position] = value;
      bool refused = false;
      try {
        host->encode({x.data(), shape}, key, payload);
      } catch (const RuntimeFailure&) {
        refused = true;
      }
      const std::uint32_t expected = !refused ? 0u : std::isfinite(value) ? device_status_beyond_range : device_status_non_finite;
      EXPECT_EQ(run_on_device(device, test, x, start).status[0], expected) << value << " at " << position;
    }
}

}  // namespace thinwire::testing
