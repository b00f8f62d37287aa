// PowerSGD as DeviceCodec against the host codec: messages of every pass, rounds over ranks, stacks of matrices, and state.
#pragma once

#include "kernels/codec/state.h"
#include "support/codec_rounds.h"
#include "support/device_matrix_cases.h"

namespace thinwire::testing {

struct PowerSgdCase {
  std::string codec;
  Shape shape;
  Form form = Form::fair;
  std::int32_t stack = 1;
  double tolerance = 2e-5;
};

/// One reduction over two ranks with equal inputs, by the host's codec.
inline std::vector<float> host_rounds(Codec& codec, const std::vector<float>& x, const Shape& shape, const MessageKey& key) {
  for (int r = 0; r < 2; ++r) {
    const Round mine = codec.begin_round(r, {x.data(), shape}, key, 2);
    std::vector<std::byte> other(mine.send.size());
    std::vector<Round> both{mine, {mine.send, other, mine.dtype, mine.op}};
    sum_round(both);
  }
  std::vector<float> sum(x.size());
  codec.end_rounds(key, 2, {sum.data(), shape});
  return sum;
}
/// The same on a device.
inline std::vector<float> device_rounds(DeviceUnderTest& device, DeviceCodec& codec, const std::vector<float>& x, const Shape&, const MessageKey& key, DType wire,
                                        std::uint32_t* status) {
  const float* values = device.upload(x);
  std::byte* received[2] = {};
  for (int r = 0; r < 2; ++r) {
    const std::size_t bytes = codec.round_bytes(r);
    std::byte* send = device.poisoned(bytes);
    codec.begin_round(r, values, key, received[0], send, status);
    const std::vector<std::byte> sent = device.download(send, bytes);
    std::vector<std::byte> first(bytes), second(bytes);
    std::vector<Round> both{{sent, first, wire, ReduceOp::sum}, {sent, second, wire, ReduceOp::sum}};
    sum_round(both);
    received[r] = device.upload(first);
  }
  auto* sum = reinterpret_cast<float*>(device.poisoned(x.size() * sizeof(float)));
  codec.end_rounds(received[0], received[1], key, 2, sum, status);
  return device.download(sum, x.size());
}

/// Training messages, an evaluation and a recomputation between them, and one more after the device's state went to a new host codec and
/// into a new DeviceCodec. As rounds, and as messages where the tensor is no stack.
inline void expect_powersgd_follows_host(DeviceUnderTest& device, const PowerSgdCase& c) {
  for (const bool rounds : {true, false}) {
    if (c.stack != 1 && !rounds) continue;
    SCOPED_TRACE(c.codec + " (" + name_of(c.form) + ") " + c.shape.to_string() + ", stack " + std::to_string(c.stack) + (rounds ? ", rounds" : ", messages"));
    const DType wire = c.codec.find("wire=f16") != std::string::npos ? DType::f16 : DType::f32;
    CodecStack host = make_codec(c.codec, c.form);
    const auto starts = std::make_shared<DeviceStarts>();
    auto codec = std::make_unique<DeviceCodec>(c.codec, c.shape, seam_of(device), c.form, c.stack, starts);
    std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
    const auto compare = [&](const MessageKey& key, const std::string& what) {
      const auto x = normal_matrix(c.shape.elements(), "powersgd" + std::to_string(key.step));
      std::vector<float> expected, actual;
      if (rounds) {
        expected = host_rounds(*host.codec, x, c.shape, key);
        actual = device_rounds(device, *codec, x, c.shape, key, wire, status);
      } else {
        std::vector<std::byte> payload(host.codec->max_payload_bytes(c.shape));
        ASSERT_EQ(codec->payload_bytes(), payload.size());
        host.codec->encode({x.data(), c.shape}, key, payload);
        expected.resize(x.size());
        host.codec->decode(payload, key, {expected.data(), c.shape});
        std::byte* on_wire = device.poisoned(payload.size(), 2);
        codec->encode(device.upload(x), key, on_wire, status);
        auto* out = reinterpret_cast<float*>(device.poisoned(x.size() * sizeof(float)));
        codec->decode(on_wire, key, out, false, status);
        actual = device.download(out, x.size());
      }
      expect_close(actual, expected, c.tolerance, what);
    };
    MessageKey key{.tensor = hash_name("device"), .stack = c.stack};
    compare(key, "first message");
    key.step = 1;
    compare(key.with_pass(Pass::evaluate), "evaluation");
    compare(key, "second message");
    compare(key.with_pass(Pass::recompute), "recomputation of the second");
    StateWriter writer;
    starts->save_state(writer, seam_of(device));
    const std::vector<std::byte> bytes = writer.finish();
    host = make_codec(c.codec, c.form);
    StateReader for_host(bytes), for_device(bytes);
    host.codec->load_state(for_host);
    const auto loaded = std::make_shared<DeviceStarts>();
    loaded->load_state(for_device, 1 << 16, seam_of(device));
    for_device.check_all_taken();
    codec = std::make_unique<DeviceCodec>(c.codec, c.shape, seam_of(device), c.form, c.stack, loaded);
    key.step = 2;
    compare(key, "first message after a checkpoint");
    EXPECT_EQ(device.download(status, 1)[0], 0u);
  }
}

inline std::vector<PowerSgdCase> powersgd_cases() {
  return {{"powersgd:rank=4", {33, 20}},
          {"powersgd:rank=3,wire=f16", {20, 33}, Form::fair, 1, 3e-3},
          {"powersgd:rank=4", {6 * 17, 23}, Form::fair, 6},
          {"powersgd:rank=2,wire=f16", {3 * 40, 9}, Form::fair, 3, 3e-3},
          {"powersgd:rank=2", {4 * 9, 12}, Form::released, 4},
          {"powersgd:rank=4", {31, 8}, Form::released},
          {"powersgd:rank=4,orthogonalise=p", {31, 18}},
          {"powersgd:rank=4,orthogonalise=both", {31, 18}, Form::released},
          {"powersgd:rank=4,warm_start=false", {18, 31}},
          {"powersgd:rank=4,rows=30", {5, 6, 14}},
          {"powersgd:rank=4,min_ratio=2", {12, 10}},                      // dense
          {"powersgd:rank=4,min_ratio=2,wire=f16", {2 * 12, 10}, Form::fair, 2, 1e-3},
          {"powersgd:rank=1,min_ratio=2", {40, 30}},                      // not dense
          {"powersgd:rank=8", {1, 5}},
          {"powersgd:rank=8", {0, 5}}};
}

/// Starts whose columns have died (the tensor had a lower rank) are drawn anew, per matrix of a stack.
inline void expect_powersgd_revives_dead_columns(DeviceUnderTest& device) {
  const Shape shape{2 * 12, 10};
  const std::string text = "powersgd:rank=3";
  const CodecStack host = make_codec(text);
  DeviceCodec codec(text, shape, seam_of(device), Form::fair, 2);
  std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
  for (int step = 0; step < 2; ++step) {
    std::vector<float> x = normal_matrix(shape.elements(), "dead" + std::to_string(step));
    if (step == 0) std::fill(x.begin(), x.begin() + 120, 0.0f);  // of the first matrix nothing is left
    const MessageKey key{.tensor = 7, .step = step, .stack = 2};
    const auto expected = host_rounds(*host.codec, x, shape, key);
    expect_close(device_rounds(device, codec, x, shape, key, DType::f32, status), expected, 2e-5, "step " + std::to_string(step));
  }
  EXPECT_EQ(device.download(status, 1)[0], 0u);
}

/// More columns than one panel of the orthonormalisation, through the codec.
inline void expect_powersgd_of_high_rank(DeviceUnderTest& device) {
  const Shape shape{262, 270};
  const std::string text = "powersgd:rank=258,orthogonalise=p";
  const CodecStack host = make_codec(text);
  DeviceCodec codec(text, shape, seam_of(device));
  const MessageKey key{.tensor = 9};
  const auto x = normal_matrix(shape.elements(), "high rank");
  std::vector<std::byte> payload(host.codec->max_payload_bytes(shape));
  std::vector<float> decoded(x.size());
  host.codec->encode({x.data(), shape}, key, payload);
  host.codec->decode(payload, key, {decoded.data(), shape});
  std::byte* wire = device.poisoned(payload.size());
  auto* out = reinterpret_cast<float*>(device.poisoned(x.size() * sizeof(float)));
  std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
  codec.encode(device.upload(x), key, wire, status);
  codec.decode(wire, key, out, false, status);
  expect_close(device.download(out, x.size()), decoded, 1e-4, "rank 258");
  EXPECT_EQ(device.download(status, 1)[0], 0u);
}

}  // namespace thinwire::testing
