// PowerSGD on a device against the host codec: messages of every pass, rounds over ranks, stacks of matrices, and state.
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
    const Round mine = codec.as<Rounds>()->begin_round(r, {x.data(), shape}, key, 2);
    std::vector<std::byte> other(mine.send.size());
    std::vector<Round> both{mine, {mine.send, other, mine.dtype, mine.op}};
    sum_round(both);
  }
  std::vector<float> sum(x.size());
  codec.as<Rounds>()->end_rounds(key, 2, {sum.data(), shape});
  return sum;
}
/// One message, as it is decoded.
inline std::vector<float> host_message(Codec& codec, const std::vector<float>& x, const Shape& shape, const MessageKey& key) {
  std::vector<std::byte> payload(codec.max_payload_bytes(shape));
  codec.encode({x.data(), shape}, key, payload);
  std::vector<float> decoded(x.size());
  codec.decode(payload, key, {decoded.data(), shape});
  return decoded;
}

/// The same on a device.
inline std::vector<float> device_rounds(DeviceUnderTest& device, Codec& codec, const std::vector<float>& x, const Shape& shape, const MessageKey& key) {
  const Device here = device.where().device;
  const ConstTensorView values(device.upload(x), DType::f32, shape, here);
  for (int r = 0; r < 2; ++r) {
    const Round mine = codec.as<Rounds>()->begin_round(r, values, key, 2);
    const std::vector<std::byte> sent = device.download(mine.send.data(), mine.send.size());
    std::vector<std::byte> first(sent.size()), second(sent.size());
    std::vector<Round> both{{sent, first, mine.dtype, ReduceOp::sum}, {sent, second, mine.dtype, ReduceOp::sum}};
    sum_round(both);
    device.write(mine.receive.data(), first.data(), first.size());
  }
  const TensorView sum(device.poisoned(x.size() * sizeof(float)), DType::f32, shape, here);
  codec.as<Rounds>()->end_rounds(key, 2, sum);
  return device.download(static_cast<const float*>(sum.data()), x.size());
}

/// One message on a device, as it is decoded.
inline std::vector<float> device_message(DeviceUnderTest& device, Codec& codec, const std::vector<float>& x, const Shape& shape, const MessageKey& key) {
  const Device here = device.where().device;
  const std::size_t bytes = codec.max_payload_bytes(shape);
  std::byte* payload = device.poisoned(bytes, 2);
  codec.encode({device.upload(x), DType::f32, shape, here}, key, {payload, bytes});
  const TensorView out(device.poisoned(x.size() * sizeof(float)), DType::f32, shape, here);
  codec.decode({payload, bytes}, key, out);
  return device.download(static_cast<const float*>(out.data()), x.size());
}

inline void expect_no_status(DeviceUnderTest& device, Codec& codec) {
  std::array<std::uint32_t, 2> status{};
  device.read(status.data(), codec.as<DeviceHalf>()->status_words(), sizeof status);
  EXPECT_EQ(status, (std::array<std::uint32_t, 2>{}));
}

/// Training messages, an evaluation and a recomputation between them, and one more after the device's state went to a new host codec and
/// into a new one on the device. As rounds, and as messages where the tensor is no stack.
inline void expect_powersgd_follows_host(DeviceUnderTest& device, const PowerSgdCase& c) {
  for (const bool rounds : {true, false}) {
    if (c.stack != 1 && !rounds) continue;
    SCOPED_TRACE(c.codec + " (" + name_of(c.form) + ") " + c.shape.to_string() + ", stack " + std::to_string(c.stack) + (rounds ? ", rounds" : ", messages"));
    CodecStack host = make_codec(c.codec, c.form);
    const PlacementScope scope(device.where());
    CodecStack own = make_codec(c.codec, c.form);
    const auto compare = [&](const MessageKey& key, const std::string& what) {
      const auto x = normal_matrix(c.shape.elements(), "powersgd" + std::to_string(key.step));
      std::vector<float> expected;
      {
        const PlacementScope on_the_host{Device{}};
        expected = rounds ? host_rounds(*host.codec, x, c.shape, key) : host_message(*host.codec, x, c.shape, key);
      }
      expect_close(rounds ? device_rounds(device, *own.codec, x, c.shape, key) : device_message(device, *own.codec, x, c.shape, key), expected, c.tolerance, what);
    };
    MessageKey key{.tensor = hash_name("device"), .stack = c.stack};
    compare(key, "first message");
    key.step = 1;
    compare(key.with_pass(Pass::evaluate), "evaluation");
    compare(key, "second message");
    compare(key.with_pass(Pass::recompute), "recomputation of the second");
    StateWriter writer;
    own.codec->as<State>()->save_state(writer);
    const std::vector<std::byte> bytes = writer.finish();
    StateReader for_host(bytes), for_device(bytes);
    {
      const PlacementScope on_the_host{Device{}};
      host = make_codec(c.codec, c.form);
      host.codec->as<State>()->load_state(for_host);
    }
    expect_no_status(device, *own.codec);
    own = make_codec(c.codec, c.form);
    own.codec->as<State>()->load_state(for_device);
    for_device.check_all_taken();
    key.step = 2;
    compare(key, "first message after a checkpoint");
    expect_no_status(device, *own.codec);
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
  const CodecStack host = make_codec("powersgd:rank=3");
  const PlacementScope scope(device.where());
  const CodecStack own = make_codec("powersgd:rank=3");
  for (int step = 0; step < 2; ++step) {
    std::vector<float> x = normal_matrix(shape.elements(), "dead" + std::to_string(step)), expected;
    if (step == 0) std::fill(x.begin(), x.begin() + 120, 0.0f);  // of the first matrix nothing is left
    const MessageKey key{.tensor = 7, .step = step, .stack = 2};
    {
      const PlacementScope on_the_host{Device{}};
      expected = host_rounds(*host.codec, x, shape, key);
    }
    expect_close(device_rounds(device, *own.codec, x, shape, key), expected, 2e-5, "step " + std::to_string(step));
  }
  expect_no_status(device, *own.codec);
}

/// More columns than one panel of the orthonormalisation, through the codec.
inline void expect_powersgd_of_high_rank(DeviceUnderTest& device) {
  const Shape shape{262, 270};
  const CodecStack host = make_codec("powersgd:rank=258,orthogonalise=p");
  const MessageKey key{.tensor = 9};
  const auto x = normal_matrix(shape.elements(), "high rank");
  const std::vector<float> expected = host_message(*host.codec, x, shape, key);
  const PlacementScope scope(device.where());
  const CodecStack own = make_codec("powersgd:rank=258,orthogonalise=p");
  expect_close(device_message(device, *own.codec, x, shape, key), expected, 1e-4, "rank 258");
  expect_no_status(device, *own.codec);
}

}  // namespace thinwire::testing
