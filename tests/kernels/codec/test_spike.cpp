// labels: unit
// Groups whose spikes travel apart, against the page's numbers (docs/papers/low_bandwidth_pipeline.md, "Worked examples") and what spikes must not do.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "support/codec_rounds.h"
#include "support/sent_payload.h"

namespace thinwire {
namespace {

using Sent = testing::SentPayload;
Sent send(const std::string& expression, const std::vector<float>& x, Shape shape) { return testing::send_payload(expression, x, shape); }
Sent send(const std::string& expression, const std::vector<float>& x) { return send(expression, x, Shape{1, static_cast<std::int64_t>(x.size())}); }

double squared_error(const std::vector<float>& x, const Sent& sent) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{sent.decoded[i]} - x[i], 2);
  return sum;
}

const std::vector<float> page = {0.1f, -0.4f, 9, 0.2f, -8, 0.3f, 0, -0.1f};

TEST(SpikeVectors, ErrorIsThePages) {
  EXPECT_NEAR(squared_error(page, send("spike:bits=2", page)), 0.020, 0.0005);
  EXPECT_NEAR(squared_error(page, send("group:bits=2,range=minmax", page)), 33.4, 0.05);
}

TEST(SpikeVectors, BytesAreTheLayouts) {
  // step 0.7 / 3 = 0.2333 (f16 0x3377), min -0.4 (0xb666), least -8 (0xc800), largest 9 (0x4880), places 4 and 2; q = 2 0 0 3 0 3 2 1, less 2: 0 2 2 1 2 1 0 3 as two's complements.
  EXPECT_EQ(send("spike:bits=2", page).bytes, (std::vector<int>{0x77, 0x33, 0x66, 0xb6, 0x00, 0xc8, 0x80, 0x48, 4, 2, 0b00101001, 0b10010011}));
}

TEST(Spike, LargestAndLeastAreExactAndTheOthersWithinHalfAStep) {
  std::vector<float> x = testing::normal_numbers(8 * 100, 11);
  for (std::size_t row = 0; row < 8; ++row) x[100 * row + 7 * row] = 300, x[100 * row + 7 * row + 5] = -500;
  for (const int bits : {1, 2, 3, 4, 5, 8}) {
    const Sent sent = send("spike:group=128,bits=" + std::to_string(bits), x, Shape{8, 100});
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::fabs(x[i]) > 100)
        EXPECT_EQ(sent.decoded[i], x[i]) << i;
      else
        EXPECT_NEAR(sent.decoded[i], x[i], 0.5 * 7.5 / ((1 << bits) - 1) + 0.01) << i << ", " << bits << " bits";
    }
  }
}

TEST(Spike, GroupsTooSmallForARestAreSpikesAlone) {
  EXPECT_EQ(send("spike", {3}).decoded, (std::vector<float>{3}));
  EXPECT_EQ(send("spike", {3, -4}).decoded, (std::vector<float>{3, -4}));
  EXPECT_EQ(send("spike", std::vector<float>(40, 2.5f)).decoded, std::vector<float>(40, 2.5f)) << "all equal: one place is both spikes";
}

TEST(Spike, AddingAddsSpikesOnce) {
  CodecStack stack = make_codec("spike:bits=3");
  std::vector<float> x = testing::normal_numbers(70, 5), sum(70, 1.0f), plain(70);
  x[3] = 40, x[69] = -40;
  const MessageKey key;
  const Shape shape{1, 70};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  stack.codec->encode(ConstTensorView(x.data(), shape), key, payload);
  stack.codec->decode(payload, key, TensorView(plain.data(), shape));
  stack.codec->decode_add(payload, key, TensorView(sum.data(), shape));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_FLOAT_EQ(sum[i], 1 + plain[i]) << i;
}

TEST(Spike, PlacesOutsideOfAGroupAreDamage) {
  CodecStack stack = make_codec("spike");
  const std::vector<float> x = testing::normal_numbers(40, 2);
  std::vector<float> out(40);
  const MessageKey key;
  const Shape shape{1, 40};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  stack.codec->encode(ConstTensorView(x.data(), shape), key, payload);
  payload[10 + 8] = std::byte{8};  // the second group has 8 elements, 0 to 7
  EXPECT_THROW(stack.codec->decode(payload, key, TensorView(out.data(), shape)), CorruptData);
}

TEST(Spike, ValuesBeyondF16AreRefused) {
  EXPECT_THROW(send("spike", {1, 70000, 2}), NotRepresentable);
  EXPECT_THROW(parse_codec("spike:group=4097"), UsageError);
  EXPECT_THROW(make_codec("spike:group=40"), UsageError);
}

}  // namespace
}  // namespace thinwire
