// Codecs with a scale per block on a device, beyond what every codec is asked (device_codec_cases.h): blocks and lines of all lengths, two settings at a time where all
// addresses are even, and numbers from the ends of f32. The host codec is the oracle.
#pragma once

#include <set>

#include "support/device_codec_cases.h"

namespace thinwire::testing {

/// Blocks of one warp's part, of several warps, longer than a team holds, no power of two; rows longer than a team takes; tensors of many pieces.
inline std::vector<DeviceCodecCase> long_block_cases() {
  std::vector<DeviceCodecCase> cases;
  const auto add = [&](const std::string& codec, std::initializer_list<Shape> shapes, Form form = Form::fair) {
    for (const Shape& shape : shapes) {
      cases.push_back({{codec, form}, shape});
      cases.push_back({{codec, form}, shape, 4, 1});
    }
  };
  for (const char* group : {"32", "48", "256", "272", "2048", "2064", "8192"})
    for (const char* setting : {"", ",bits=8,range=affine", ",bits=3,range=minmax,round=stochastic,scale=bf16", ",range=extreme,round=stochastic,scale=f16"})
      add(std::string("group:group=") + group + setting, {Shape{3, 2063}, Shape{1, 16402}, Shape{2, 8208}});
  for (const char* block : {"16", "1040", "4096"}) add(std::string("fp8:block=") + block, {Shape{2, 9001}, Shape{3, 4096}});
  add("fp8:scale=row", {Shape{3, 8191}, Shape{3, 8192}, Shape{2, 8196}, Shape{1, 30001}});
  add("fp8:scale=tensor,element=e5m2", {Shape{41, 1003}, Shape{41, 1024}});
  add("mx:element=e3m2", {Shape{3, 4100}, Shape{2, 4096}});
  add("nvfp4", {Shape{41, 1003}, Shape{41, 1024}});
  for (const Form form : {Form::fair, Form::released}) add("blockwise8", {Shape{3, 5001}, Shape{2, 8192}, Shape{1, 4097}}, form);
  for (const char* scale : {"l1", "l2", "none"}) {
    add(std::string("sign:scale=") + scale, {Shape{5, 4099}, Shape{257, 4100}});  // the last: more stripes than a block has threads
    add(std::string("sign:scope=row,scale=") + scale, {Shape{3, 4097}, Shape{2, 12288}});
    for (const char* block : {"8", "264", "8200"}) add(std::string("sign:scope=block,block=") + block + ",scale=" + scale, {Shape{7, 2347}});
  }
  const char* only = std::getenv("THINWIRE_TEST_CODEC");
  std::erase_if(cases, [&](const DeviceCodecCase& c) { return only != nullptr && parse_codec(c.codec).codec.name != only; });
  return cases;
}

/// The codecs of those cases with two settings at a time.
inline std::vector<CodecCase> block_codec_cases() {
  std::set<std::string> names;
  for (const DeviceCodecCase& c : long_block_cases()) names.insert(parse_codec(c.codec).codec.name);
  std::vector<CodecCase> cases = cuda_codec_cases(true);
  std::erase_if(cases, [&](const CodecCase& c) { return !names.contains(parse_codec(c.codec).codec.name); });
  return cases;
}

/// Blocks of zeros of both signs, of the smallest numbers, of small and large ones, of numbers far apart, of equal ones, and of halves of a step.
inline std::vector<float> awkward_values(const Shape& shape) {
  const Random random(device_seed, "awkward values");
  std::vector<float> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float sign = random.below(2 * i, 2) == 0 ? 1.0f : -1.0f;
    const auto normal = static_cast<float>(random.normal(i));
    switch (i / 128 % 10) {
      case 0: x[i] = sign * 0.0f; break;
      case 1: x[i] = sign * static_cast<float>(random.below(i, 4)) * 0x1p-149f; break;
      case 2: x[i] = normal * 0x1p-126f; break;
      case 3: x[i] = normal * 0x1p+40f; break;
      case 4: x[i] = sign * std::ldexp(1.0f, static_cast<int>(random.below(i, 200)) - 140); break;
      case 5: x[i] = -0.375f; break;
      case 6: x[i] = sign * (static_cast<float>(random.below(i, 15)) + 0.5f) / 8; break;
      case 7: x[i] = i % 128 == 77 ? -1e-30f : sign * 0.0f; break;
      case 8: x[i] = normal * 0x1p-20f; break;  // steps among f16's subnormal numbers
      default: x[i] = 1e30f + normal * 1e24f; break;
    }
  }
  return x;
}

/// What the host refuses is reported as beyond the range, and the rest of it is equal without the large numbers.
inline void expect_awkward_like_host(DeviceUnderTest& device, const CodecCase& c) {
  const Shape shape{10, 256};
  const std::unique_ptr<Codec> host = codec_here(c, shape);
  if (!host->traits().gather) return;
  const DeviceCodecCase test{c, shape};
  std::vector<float> x = awkward_values(shape);
  std::vector<std::byte> payload(host->max_payload_bytes(shape));
  try {
    host->encode({x.data(), shape}, MessageKey{.tensor = hash_name("device")}, payload);
  } catch (const RuntimeFailure&) {
    SCOPED_TRACE(test.text());
    EXPECT_EQ(run_on_device(device, test, x, std::vector<float>(x.size())).status[0], device_status_beyond_range);
    for (float& v : x) v = std::abs(v) < 1e4f ? v : 1.0f;
  }
  expect_equals_host(device, test, x);
}

/// group's lowest code is never written where codes are symmetric, but may arrive: a step that makes it infinite is refused on both ends.
inline void expect_lowest_code_refused(DeviceUnderTest& device) {
  const DeviceCodecCase test{{"group:bits=4", Form::fair}, Shape{1, 32}};
  const std::vector<float> x(32, 1.0f), large(32, 3e38f), start(32, 0.0f);
  const DeviceResult hostile = run_on_device(device, test, x, start, [](std::vector<std::byte>& payload) {
    const float step = 4.5e37f;
    std::fill(payload.begin(), payload.end(), std::byte{0x88});
    std::memcpy(payload.data(), &step, sizeof step);
  });
  EXPECT_EQ(hostile.status[1], device_status_damaged);
  EXPECT_EQ(run_on_device(device, test, large, start).status[0], device_status_beyond_range);
}

}  // namespace thinwire::testing
