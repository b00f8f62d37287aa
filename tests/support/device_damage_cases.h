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
  switch (round % 6) {
    case 0: payload[first] ^= static_cast<std::byte>(1u << random.below(base + 3, 8)); break;
    case 1:
      for (std::size_t i = first; i < last; ++i) payload[i] = static_cast<std::byte>(random.bits32(base + 10 + i));
      break;
    case 2: std::fill(payload.begin() + static_cast<std::ptrdiff_t>(first), payload.begin() + static_cast<std::ptrdiff_t>(last), std::byte{0xff}); break;
    case 3: std::fill(payload.begin() + static_cast<std::ptrdiff_t>(first), payload.begin() + static_cast<std::ptrdiff_t>(last), std::byte{0}); break;
    case 4: std::fill(payload.begin() + static_cast<std::ptrdiff_t>(first), payload.begin() + static_cast<std::ptrdiff_t>(last), std::byte{0x80}); break;
    default: std::rotate(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(first), payload.end()); break;
  }
}

/// `rounds` damages of one message. What the host decodes the device decodes to the same bits; what it refuses is reported. The device may
/// report more where the codec's traits say so. How many the host refused.
inline int expect_survives_damage(DeviceUnderTest& device, const CodecCase& c, const Shape& shape, std::uint64_t rounds) {
  const DeviceCodecCase test{c, shape, 0, 1};
  const std::unique_ptr<Codec> host = codec_here(c, shape);
  if (host == nullptr || !host->traits().gather) return 0;
  const CodecTraits& traits = host->traits();
  const std::vector<float> x = device_values(shape), start(x.size());
  const MessageKey key{.tensor = hash_name("device")};
  const Random random(device_seed, c.codec);
  int refusals = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(test.text() + ", damage " + std::to_string(round));
    std::vector<std::byte> changed;
    const DeviceResult result = run_on_device(device, test, x, start, [&](std::vector<std::byte>& payload) {
      damage_payload(payload, random, round);
      changed = payload;
    });
    std::vector<float> decoded(x.size());
    bool refused = false;
    try {
      host->decode(changed, key, {decoded.data(), shape});
    } catch (const CorruptData&) {
      refused = true;
    }
    refusals += refused ? 1 : 0;
    if (refused) {
      EXPECT_EQ(result.status[1], device_status_damaged);
    } else if (!traits.stricter_on_device || result.status[1] == 0) {
      EXPECT_EQ(result.status[1], 0u);
      if (!traits.reordered_sums) {
        EXPECT_EQ(std::memcmp(result.decoded.data(), decoded.data(), decoded.size() * sizeof(float)), 0) << "decoded to other bits than on the host";
      }
    }
  }
  return refusals;
}

/// Each kind of damage twice for every codec.
inline void expect_all_survive_damage(DeviceUnderTest& device) {
  int refusals = 0;
  for (const CodecCase& c : cuda_codec_cases()) refusals += expect_survives_damage(device, c, Shape{19, 23}, 12);
  EXPECT_GT(refusals, 0) << "no damage was of the kind that a codec can see";
}

}  // namespace thinwire::testing
