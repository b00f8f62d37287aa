// Damaged payloads on a device: whatever arrives, nothing outside the tensor is touched, and what the host codec refuses is reported.
#pragma once

#include "support/device_codec_cases.h"

namespace thinwire::testing {

/// Flipped bits, bytes of noise, runs of one value, and parts moved to other places: `round` numbers the damages.
inline void damage_payload(std::vector<std::byte>& payload, const Random& random, std::uint64_t round) {
  if (payload.empty()) return;
  const std::uint64_t base = round * 1000;
  const auto place = [&](std::uint64_t i) { return static_cast<std::size_t>(random.below(base + i, payload.size())); };
  const std::size_t first = place(1), last = std::min(payload.size(), first + 1 + place(2) % 64);
  switch (round % 5) {
    case 0: payload[first] ^= static_cast<std::byte>(1u << random.below(base + 3, 8)); break;
    case 1:
      for (std::size_t i = first; i < last; ++i) payload[i] = static_cast<std::byte>(random.bits32(base + 10 + i));
      break;
    case 2: std::fill(payload.begin() + static_cast<std::ptrdiff_t>(first), payload.begin() + static_cast<std::ptrdiff_t>(last), std::byte{0xff}); break;
    case 3: std::fill(payload.begin() + static_cast<std::ptrdiff_t>(first), payload.begin() + static_cast<std::ptrdiff_t>(last), std::byte{0}); break;
    default: std::rotate(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(first), payload.end()); break;
  }
}

/// `rounds` damages of one message. What the host decodes the device decodes to the same bits; what it refuses is reported. The device may
/// report more where `stricter`: randomk's released positions that come twice.
inline void expect_survives_damage(DeviceUnderTest& device, const std::string& codec, Form form, const Shape& shape, std::uint64_t rounds, bool stricter = false) {
  const DeviceCodecCase test{codec, shape, 0, 1, form};
  const std::vector<float> x = device_values(shape), start(x.size());
  const CodecStack host = make_codec(codec, form);
  const MessageKey key{.tensor = hash_name("device")};
  const Random random(device_seed, codec);
  int refusals = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(test.text() + ", damage " + std::to_string(round) + ", seed " + std::to_string(device_seed));
    std::vector<std::byte> changed;
    const DeviceResult result = run_on_device(device, test, x, start, [&](std::vector<std::byte>& payload) {
      damage_payload(payload, random, round);
      changed = payload;
    });
    std::vector<float> decoded(x.size());
    bool refused = false;
    try {
      host.codec->decode(changed, key, {decoded.data(), shape});
    } catch (const CorruptData&) {
      refused = true;
    }
    refusals += refused ? 1 : 0;
    if (refused) {
      EXPECT_EQ(result.decode_status, device_status_damaged);
    } else if (!stricter || result.decode_status == 0) {
      EXPECT_EQ(result.decode_status, 0u);
      EXPECT_EQ(std::memcmp(result.decoded.data(), decoded.data(), decoded.size() * sizeof(float)), 0) << "decoded to other bits than on the host";
    }
  }
  if (codec != "none") {
    EXPECT_GT(refusals, 0) << codec << ": no damage was of the kind that a codec can see";
  }
}

inline void expect_all_survive_damage(DeviceUnderTest& device) {
  struct Case {
    const char* codec;
    Form form;
    bool stricter;
  };
  for (const Case& c : {Case{"cast:to=f16", Form::fair, false}, {"cast:to=bf16", Form::fair, false}, {"quantize:bits=2", Form::fair, false},
                        {"quantize:bits=3", Form::fair, false}, {"quantize:bits=7,norm=l2", Form::released, false}, {"quantize:bits=4", Form::released, false},
                        {"topk:fraction=0.2", Form::fair, false}, {"topk:fraction=0.2,index=int32,values=f32", Form::fair, false},
                        {"topk:fraction=0.05", Form::released, false}, {"randomk:fraction=0.3", Form::fair, false},
                        {"randomk:fraction=0.2", Form::released, true}, {"none", Form::fair, false}})
    expect_survives_damage(device, c.codec, c.form, Shape{19, 23}, 25, c.stricter);
}

/// The same for codecs whose payload goes through a product: only what is reported can be compared, as the sums run in another order.
inline void expect_matrix_codecs_survive_damage(DeviceUnderTest& device) {
  for (const char* codec : {"powersgd:rank=3", "powersgd:rank=2,wire=f16", "powersgd:min_ratio=9", "autoencoder:width=3,init=orthonormal"}) {
    const Shape shape{13, 9};
    const std::vector<float> x = device_values(shape);
    const MessageKey key{.tensor = hash_name("device")};
    const CodecStack host = make_codec(codec);
    DeviceCodec on_device(codec, shape, seam_of(device));  // once: its workspace is large
    std::byte* payload = device.poisoned(on_device.payload_bytes(), 1);
    auto* out = reinterpret_cast<float*>(device.poisoned(x.size() * sizeof(float)));
    std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
    on_device.encode(device.upload(x), key, payload, status);
    const std::vector<std::byte> sent = device.download(payload, on_device.payload_bytes()), guard(16, std::byte{0xcd});
    const Random random(device_seed, codec);
    for (std::uint64_t round = 0; round < 25; ++round) {
      SCOPED_TRACE(std::string(codec) + ", damage " + std::to_string(round) + ", seed " + std::to_string(device_seed));
      std::vector<std::byte> changed = sent;
      damage_payload(changed, random, round);
      const std::uint32_t none = 0;
      device.write(payload, changed.data(), changed.size());
      device.write(status, &none, sizeof none);
      on_device.decode(payload, key, out, false, status);
      std::vector<float> decoded(x.size());
      std::uint32_t expected = 0;
      try {
        host.codec->decode(changed, key, {decoded.data(), shape});
      } catch (const CorruptData&) {
        expected = device_status_damaged;
      }
      EXPECT_EQ(device.download(status, 1)[0], expected);
      EXPECT_EQ(device.download(reinterpret_cast<std::byte*>(out + x.size()), 16), guard) << "a kernel wrote past the decoded tensor";
    }
  }
}

}  // namespace thinwire::testing
