// labels: mpi
// ranks: 2,3
// timeout: 60
// joined: no
// What a sender knows about a message (samples, tokens) reaches codecs and wrappers on both ends, pieces included, and outlives the call; bf16
// tensors travel through codecs.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "collectives/channel/channel.h"
#include "kernels/convert.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using testing::world;

struct Seen {
  std::string where;
  std::vector<std::int64_t> samples;
  std::vector<std::int32_t> tokens;
};
std::vector<Seen>& seen() {
  static std::vector<Seen> all;
  return all;
}
void note(const char* where, const MessageKey& key) {
  seen().push_back({where, {key.samples.begin(), key.samples.end()}, {key.tokens.begin(), key.tokens.end()}});
}

/// f32 as it is, noting what it is told.
class Listening final : public Codec {
 public:
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return static_cast<std::size_t>(shape.elements()) * sizeof(float); }

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    note("encode", key);
    if (x.bytes() > 0) std::memcpy(payload.data(), x.data(), x.bytes());
    return x.bytes();
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    note("decode", key);
    if (!payload.empty()) std::memcpy(out.data(), payload.data(), payload.size());
  }
  CodecTraits traits_;
};

class ListeningWrapper final : public Wrapper {
 public:
  bool needs_own_decoded() const override { return false; }
  void before_encode(TensorView, const MessageKey& key) override { note("before_encode", key); }
  void after_encode(ConstTensorView, ConstTensorView, const MessageKey& key) override { note("after_encode", key); }
  void after_decode(TensorView, const MessageKey& key) override { note("after_decode", key); }
  void after_reduce(ConstTensorView, ConstTensorView, ConstTensorView, const MessageKey& key) override { note("after_reduce", key); }
};

const bool registered = register_codec(
    {.name = "test_listening", .summary = "for this test", .source = "none", .make = [](const Parameters&, Form) { return std::make_unique<Listening>(); }});
const bool wrapper_registered =
    register_wrapper({.name = "test_noting", .summary = "for this test", .source = "none", .make = [](const Parameters&, const CodecTraits&) -> std::unique_ptr<Wrapper> {
                        return std::make_unique<ListeningWrapper>();
                      }});

std::set<std::string> places() {
  std::set<std::string> all;
  for (const Seen& s : seen()) all.insert(s.where);
  return all;
}

void expect_context() {
  for (const Seen& s : seen()) {
    EXPECT_EQ(s.samples, (std::vector<std::int64_t>{7, 9, 11})) << s.where;
    EXPECT_EQ(s.tokens, (std::vector<std::int32_t>{5, 4, 3, 2})) << s.where;
  }
}

TEST(MessageContext, ReachesCodecAndWrapperOnBothEnds) {
  const int n = world().size(), me = world().rank();
  const std::vector<float> x(24, 1.0f + static_cast<float>(me));
  std::vector<float> out(24);
  for (const Protocol protocol : {Protocol::point_to_point, Protocol::gather, Protocol::two_shot}) {
    SCOPED_TRACE(name_of(protocol));
    ChannelOptions options;
    options.traffic = protocol == Protocol::point_to_point ? TrafficClass::pp_forward : TrafficClass::dp_gradient;
    options.codec = "test_listening+test_noting";
    options.protocol = protocol;
    Channel channel(world(), options);
    seen().clear();
    Operation receiving, sending;
    {
      // The caller's memory goes when the call returns.
      const std::vector<std::int64_t> samples = {7, 9, 11};
      const std::vector<std::int32_t> tokens = {5, 4, 3, 2};
      MessageKey key;
      key.tensor = hash_name("context");
      key.samples = samples;
      key.tokens = tokens;
      if (protocol == Protocol::point_to_point) {
        sending = channel.send({x.data(), Shape{4, 6}}, (me + 1) % n, key);
        receiving = channel.receive({out.data(), Shape{4, 6}}, (me + n - 1) % n, key);
      } else {
        sending = channel.all_reduce({x.data(), Shape{4, 6}}, {out.data(), Shape{4, 6}}, key);
      }
    }
    sending.wait();
    if (receiving.valid()) receiving.wait();
    expect_context();
    const std::set<std::string> message{"after_decode", "after_encode", "before_encode", "decode", "encode"}, sum{"after_reduce", "before_encode", "decode", "encode"};
    std::set<std::string> expected = protocol == Protocol::point_to_point ? message : sum;
    if (protocol == Protocol::two_shot) expected.insert({"after_encode", "after_decode"});  // its second half is a message of its own
    EXPECT_EQ(places(), expected);
  }
}

TEST(Bf16Tensors, TravelThroughCodecsAsTheNumbersTheyHold) {
  const int n = world().size(), me = world().rank();
  std::vector<float> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.37f - 3;
  std::vector<BFloat16> sent(24), arrived(24);
  convert(std::span<const float>(x), std::span(sent));
  for (const char* codec : {"cast:to=bf16", "cast:to=f16+ef", "topk:fraction=1,values=f32"}) {
    SCOPED_TRACE(codec);
    ChannelOptions options;
    options.traffic = TrafficClass::pp_forward;
    options.codec = codec;
    Channel channel(world(), options);
    MessageKey key;
    key.tensor = hash_name("bf16");
    Operation out = channel.send(ConstTensorView(sent.data(), Shape{4, 6}), (me + 1) % n, key);
    channel.receive(TensorView(arrived.data(), Shape{4, 6}), (me + n - 1) % n, key).wait();
    out.wait();
    for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(arrived[i].bits, sent[i].bits) << i;
  }
  ChannelOptions options;
  options.traffic = TrafficClass::dp_gradient;
  options.codec = "cast";
  Channel channel(world(), options);
  EXPECT_THROW(channel.all_reduce(ConstTensorView(sent.data(), Shape{4, 6}), TensorView(arrived.data(), Shape{4, 6}), {}), UsageError) << "sums are f32";
}

}  // namespace
}  // namespace thinwire
