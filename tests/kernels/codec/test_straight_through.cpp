// labels: unit
// The wrapper straight_through: payloads and values of the codec inside, whose mask the gradient does not share.
#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/codec/capabilities.h"
#include "kernels/codec/state.h"
#include "support/codec_rounds.h"
#include "support/sent_payload.h"

namespace thinwire {
namespace {

TEST(StraightThrough, SendsWhatTheCodecInsideSends) {
  const Shape shape{12, 40};
  const std::vector<float> x = testing::normal_numbers(static_cast<std::size_t>(shape.elements()), 4);
  for (const std::string codec : {"topk:fraction=0.1", "randomk:fraction=0.2", "quantize:bits=4", "group:bits=4"}) {
    const auto inside = testing::send_payload(codec, x, shape), around = testing::send_payload(codec + "+straight_through", x, shape);
    EXPECT_EQ(inside.bytes, around.bytes) << codec;
    EXPECT_EQ(inside.decoded, around.decoded) << codec;
  }
}

TEST(StraightThrough, TheGradientComesBackWhole) {
  CodecStack masked = make_codec("topk:fraction=0.1"), whole = make_codec("topk:fraction=0.1+straight_through");
  EXPECT_EQ(masked.codec->traits().backward, BackwardRule::masked);
  EXPECT_EQ(whole.codec->traits().backward, BackwardRule::straight_through);
  EXPECT_EQ(whole.codec->as<Backward>(), nullptr);
  const Shape shape{3, 10};
  EXPECT_EQ(travel_shape(*masked.codec, shape).elements(), 3);
  EXPECT_EQ(travel_shape(*whole.codec, shape), shape);
  const std::vector<float> gradient = testing::normal_numbers(30, 2);
  std::vector<float> travel(30), arrived(30);
  decode_backward(*whole.codec, ConstTensorView(gradient.data(), shape), {}, TensorView(travel.data(), shape));
  encode_backward(*whole.codec, ConstTensorView(travel.data(), shape), {}, TensorView(arrived.data(), shape));
  EXPECT_EQ(arrived, gradient);
}

TEST(StraightThrough, SaysWhatItCannotDo) {
  EXPECT_THROW(make_codec("autoencoder:width=4,init=xavier+straight_through"), UsageError) << "its weights learn from the code's gradient";
  EXPECT_THROW(make_codec("autoencoder:width=4+straight_through"), UsageError);
}

TEST(StraightThrough, KeepsTheStateOfTheCodecInside) {
  const Shape shape{16, 12};
  CodecStack one = make_codec("powersgd:rank=2,min_ratio=0+straight_through"), other = make_codec("powersgd:rank=2,min_ratio=0+straight_through");
  const auto send = [&](CodecStack& stack, std::uint64_t seed, std::int64_t step) {
    const std::vector<float> x = testing::normal_numbers(static_cast<std::size_t>(shape.elements()), seed);
    MessageKey key;
    key.step = step;
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload));
    return payload;
  };
  (void)send(one, 1, 0);
  StateWriter writer;
  one.codec->as<State>()->save_state(writer);
  const std::vector<std::byte> bytes = writer.finish();
  StateReader reader(bytes);
  other.codec->as<State>()->load_state(reader);
  EXPECT_EQ(send(one, 2, 1), send(other, 2, 1)) << "the warm start goes on";
}

}  // namespace
}  // namespace thinwire
