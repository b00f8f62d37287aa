// labels: mpi
// ranks: 1,2,3
// timeout: 120
// slow: n2
// devices: cuda, emulated, lazy
// optimised: yes
// Every protocol with every codec on device tensors, against the same channel on host tensors: equal bits where the codec's two halves are equal bits
// (docs/device.md), else equal to rounding.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "kernels/codec/state.h"
#include "support/codec_expressions.h"
#include "tests/collectives/device_world.h"

namespace thinwire {
namespace {

using namespace testing;

class DeviceCodecChannel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(DeviceKind::cuda); !why.empty()) GTEST_SKIP() << why;
  }
};

/// Of every codec that has a CUDA implementation: its defaults (a fifth of small tensors where it keeps a share), with a residual, the released form, and settings (two at
/// a time) with which it reduces in another way.
struct Case {
  std::string codec;
  Form form = Form::fair;
  bool exact = true, needs_fit = false;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    const char* only = std::getenv("THINWIRE_TEST_CODEC");
    for (const CodecInfo* info : all_codecs()) {
      if (!has_cuda(info->name) || (only != nullptr && info->name != only)) continue;
      std::string codec = info->name;
      for (const ParameterSpec& p : info->parameters)
        if (p.name == "fraction") codec += ":fraction=0.2";
      const auto add = [&](const std::string& text, Form form) {
        const CodecTraits traits = make_codec(text, form).codec->traits();
        made.push_back({text, form, !traits.reordered_sums, traits.needs_fit});
      };
      if (!make_codec(codec).is_dense()) add(codec, Form::fair);  // what is dense is no codec's to carry
      add(codec + "+ef", Form::fair);
      if (info->has_released_form) add(codec, Form::released);
      std::set<std::pair<bool, int>> ways;
      for (const testing::CodecCase& setting : testing::codec_cases(true)) {
        if (parse_codec(setting.codec).codec.name != info->name || setting.form != Form::fair) continue;
        const CodecTraits traits = make_codec(setting.codec).codec->traits();
        if (!ways.emplace(traits.gather, traits.rounds).second || ways.size() == 1) continue;
        add(setting.codec, Form::fair);
        if (traits.loss_is_own) add(setting.codec + "+ef", Form::fair);
      }
    }
    return made;
  }();
  return all;
}

/// Fitted on equal samples on all ranks, where it must be.
void fit(Channel& channel, std::int64_t columns) {
  if (!channel.codec().codec->traits().needs_fit) return;
  const std::vector<float> values = normal_input(64 * columns, "samples", 0);
  const Tensor samples = placed(values, Shape{64, columns});
  const ConstTensorView views[] = {samples.view()};
  channel.fit(views);
}

constexpr Kind all_kinds[] = {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce, Kind::exchange};

void expect_equal(const Tensor& device, const Tensor& host, bool exact) {
  if (exact) {
    EXPECT_EQ(bytes_of(device), bytes_of(host));
    return;
  }
  const std::vector<float> a = floats_of(device), b = floats_of(host);
  ASSERT_EQ(a.size(), b.size());
  // A value that rounds to another f16 number on the wire is 5e-4 off.
  EXPECT_LT(relative_l2(a, b), 2e-3);
}

/// The codec on channels of the host and the device; null where the host refuses it, which the device must, too.
std::unique_ptr<Channel> open(const ChannelOptions& options) {
  try {
    return std::make_unique<Channel>(world(), options);
  } catch (const UsageError&) {
    return nullptr;
  }
}

TEST_F(DeviceCodecChannel, EveryProtocolGivesWhatTheHostGives) {
  int ran = 0;
  for (const Protocol protocol : {Protocol::rounds, Protocol::gather, Protocol::two_shot, Protocol::point_to_point})
    for (const Case& c : cases())
      for (const bool average : {false, true}) {
        ChannelOptions options;
        options.traffic = TrafficClass::dp_gradient;
        options.codec = c.codec;
        options.form = c.form;
        options.protocol = protocol;
        options.average = average;
        if (average && &c != &cases().front()) continue;  // a factor of its own, whatever the codec
        const std::unique_ptr<Channel> host = open(options);
        const OnDevice here;
        const std::unique_ptr<Channel> device = open(options);
        ASSERT_EQ(host == nullptr, device == nullptr) << c.codec << ", " << name_of(protocol);
        if (host == nullptr) continue;
        fit(*device, 8);
        {
          const PlacementScope on_the_host(Device{});
          fit(*host, 8);
        }
        for (const Kind kind : all_kinds)
          for (int step = 0; step < 2; ++step) {
            SCOPED_TRACE(c.codec + ", " + name_of(c.form) + ", " + name_of(protocol) + ", " + name_of(kind) + ", step " + std::to_string(step));
            MessageKey key = key_of(name_of(kind).c_str(), step);
            Tensor expected(Device{});
            bool refused = false;
            try {
              const PlacementScope on_the_host(Device{});
              expected = run_kind(*host, kind, {13, 8}, key, "codec");
            } catch (const UsageError&) {
              refused = true;
            }
            if (refused) {
              EXPECT_THROW(run_kind(*device, kind, {13, 8}, key, "codec"), UsageError);
              continue;
            }
            const Tensor out = run_kind(*device, kind, {13, 8}, key, "codec");
            expect_equal(out, expected, c.exact);
            EXPECT_EQ(device->meter().total().payload_bytes, host->meter().total().payload_bytes);
            ++ran;
            if (::testing::Test::HasFailure()) return;
          }
      }
  EXPECT_GT(ran, 10 * static_cast<int>(cases().size()));
}

TEST_F(DeviceCodecChannel, StateMovesBetweenHostAndDevice) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.codec);
    ChannelOptions options;
    options.traffic = TrafficClass::dp_gradient;
    options.codec = c.codec;
    options.form = c.form;
    const OnDevice here;
    Channel device(world(), options), second(world(), options);
    fit(second, 6);
    const PlacementScope on_the_host(Device{});
    Channel host(world(), options);
    fit(host, 6);
    const auto step_of = [&](Channel& channel, Device where, int step) {
      Tensor out(Device{});
      if (where == test_device()) {
        const OnDevice scope;
        out = run_kind(channel, Kind::all_reduce, {12, 6}, key_of("state", step), "state");
      } else {
        out = run_kind(channel, Kind::all_reduce, {12, 6}, key_of("state", step), "state");
      }
      return out;
    };
    for (int step = 0; step < 2; ++step) {
      step_of(host, Device{}, step);
      step_of(second, test_device(), step);
    }
    device.load_state(host.save_state());
    if (c.exact) {
      EXPECT_EQ(device.save_state(), host.save_state());
      EXPECT_EQ(second.save_state(), host.save_state());
    }
    const Tensor expected = step_of(host, Device{}, 2);
    expect_equal(step_of(device, test_device(), 2), expected, c.exact);
    Channel back(world(), options);
    back.load_state(second.save_state());
    expect_equal(step_of(back, Device{}, 2), expected, c.exact);
  }
}

/// What run() throws, at the latest when the meter is read; its text.
template <typename Error, typename Run>
std::string thrown(Channel& channel, const Run& run) {
  try {
    run();
    channel.meter();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(DeviceCodecChannel, TensorsThatNoCodecCanRepresentAreReportedByTheOperation) {
  const OnDevice here;
  std::vector<float> values(60, 1.0f);
  values[31] = std::nanf("");
  const Tensor x = placed(values, Shape{10, 6});
  Tensor out(Shape{10, 6});
  for (const Case& c : cases()) {
    if (c.codec.ends_with("+ef")) continue;  // the codec's to report
    const std::string& codec = c.codec;
    ChannelOptions options;
    options.traffic = TrafficClass::dp_gradient;
    options.codec = codec;
    options.form = c.form;
    Channel channel(world(), options);
    fit(channel, 6);
    // A transfer to other ranks has waited for the encoder, so this is known before anything is decoded.
    const std::string text = thrown<RuntimeFailure>(channel, [&] {
      channel.all_reduce(x.view(), out.view(), key_of("nan")).wait();
      EXPECT_EQ(world().size(), 1) << codec << ": wait() knew nothing";
    });
    EXPECT_NE(text.find("NaN or infinity"), std::string::npos) << codec << ": " << text;
    EXPECT_NE(text.find("all_reduce of tensor"), std::string::npos) << codec << ": " << text;
    // The channel goes on.
    const Tensor good = run_kind(channel, Kind::all_reduce, {10, 6}, key_of("good"), "good");
    EXPECT_NO_THROW(channel.meter()) << codec;
    for (const float value : floats_of(good)) EXPECT_TRUE(std::isfinite(value));
  }
  const std::vector<float> large(60, 1e30f);
  const Tensor y = placed(large, Shape{10, 6});
  ChannelOptions options;
  options.traffic = TrafficClass::dp_gradient;
  options.codec = "cast:to=f16";
  Channel channel(world(), options);
  const std::string text = thrown<NotRepresentable>(channel, [&] { channel.all_reduce(y.view(), out.view(), key_of("large")).wait(); });
  EXPECT_NE(text.find("beyond the type on the wire"), std::string::npos) << text;
}

TEST_F(DeviceCodecChannel, DamagedPayloadsAreReportedAtTheLatestWhenTheMeterIsRead) {
  const OnDevice here;
  const int n = world().size();
  if (n > 1) {
    const std::vector<float> large(60, 60000.0f);  // fits f16, the sum over ranks does not
    const Tensor x = placed(large, Shape{10, 6});
    Tensor out(Shape{10, 6});
    ChannelOptions options;
    options.traffic = TrafficClass::dp_gradient;
    options.codec = "cast:to=f16";
    options.protocol = Protocol::rounds;
    Channel channel(world(), options);
    const std::string text = thrown<NotRepresentable>(channel, [&] { channel.all_reduce(x.view(), out.view(), key_of("sum")).wait(); });
    EXPECT_NE(text.find("a sum over ranks overflowed"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce of tensor"), std::string::npos) << text;
  }
  int refusals = 0;
  for (const Case& c : cases()) {
    if (!c.exact || c.codec.ends_with("+ef")) continue;
    const std::string& codec = c.codec;
    CodecStack stack = make_codec(codec, c.form);
    const CodecStack host = [&] {
      const PlacementScope on_the_host(Device{});
      return make_codec(codec, c.form);
    }();
    const std::vector<float> ones(60, 1.0f);
    const Tensor x = placed(ones, Shape{10, 6});
    Tensor out(Shape{10, 6});
    const std::size_t most = stack.codec->max_payload_bytes(x.shape());
    Buffer payload(most);
    const std::size_t bytes = stack.codec->encode(x.view(), key_of("p"), {payload.data(), most});
    for (const std::byte filler : {std::byte{0xff}, std::byte{0x80}}) {
      const std::vector<std::byte> damage(bytes, filler);
      bool refused = false;
      try {
        const PlacementScope on_the_host(Device{});
        std::vector<float> decoded(60);
        host.codec->decode(damage, key_of("p"), TensorView(decoded.data(), Shape{10, 6}));
      } catch (const CorruptData&) {
        refused = true;
      }
      copy_and_wait(payload.data(), damage.data(), bytes);
      stack.codec->decode({payload.data(), bytes}, key_of("p"), out.view());
      std::array<std::uint32_t, 2> seen{};
      copy_and_wait(seen.data(), stack.codec->as<DeviceHalf>()->status_words(), sizeof seen);
      if (refused) {
        EXPECT_THROW(stack.codec->as<DeviceHalf>()->check_status(seen, key_of("p")), CorruptData) << codec;
        ++refusals;
      } else if (!host.codec->traits().stricter_on_device) {
        EXPECT_EQ(seen[1], 0u) << codec;
      }
    }
    EXPECT_THROW(stack.codec->decode({payload.data(), bytes - 1}, key_of("p"), out.view()), CorruptData) << codec;
  }
  EXPECT_GT(refusals, 0);
}

TEST_F(DeviceCodecChannel, KeptResultsAndReusedPayloads) {
  ChannelOptions options;
  options.traffic = TrafficClass::dp_gradient;
  options.codec = "topk:fraction=0.3";
  options.protocol = Protocol::gather;
  options.keep_for_recompute = options.reuse_payloads = true;
  const OnDevice here;
  Channel channel(world(), options);
  const Tensor first = run_kind(channel, Kind::all_reduce, {7, 5}, key_of("kept"), "kept");
  Tensor again(Shape{7, 5});
  channel.all_reduce(first.view(), again.view(), key_of("kept").with_pass(Pass::recompute)).wait();
  EXPECT_EQ(bytes_of(again), bytes_of(first));
  const Tensor gathered = run_kind(channel, Kind::all_gather, {7, 5}, key_of("weights"), "weights");
  const Tensor reused = run_kind(channel, Kind::all_gather, {7, 5}, key_of("weights"), "other values, same step");
  EXPECT_EQ(channel.meter().last().reused_payloads, 1);
  EXPECT_EQ(bytes_of(reused), bytes_of(gathered));
}

// ---- backward passes ----

/// Gradients of an activation that went to the next rank: forward, and back with a dense or coded gradient.
std::vector<float> gradient_of_boundary(const char* codec, const char* gradient_codec, bool trained, std::vector<float>* weight_gradients) {
  Communicator& w = world();
  const int n = w.size(), me = w.rank(), next = (me + 1) % n, before = (me + n - 1) % n;
  ChannelOptions options;
  options.traffic = TrafficClass::pp_forward;
  options.codec = codec;
  Channel forward(w, options);
  options.traffic = TrafficClass::pp_backward;
  options.codec = gradient_codec;
  Channel backward(w, options);
  const Shape shape{9, 8};
  MessageKey key = key_of("activation");
  if (trained) forward.codec().codec->as<Trainable>()->prepare_training(key.tensor, shape.columns());
  const std::vector<float> x_values = normal_input(shape.elements(), "activation", me), g_values = normal_input(shape.elements(), "gradient", me);
  const Tensor x = placed(x_values, shape), g = placed(g_values, shape);
  Tensor arrived(shape), input_gradient(shape);
  Operation sent = forward.send(x.view(), next, key), received = forward.receive(arrived.view(), before, key);
  received.wait();
  sent.wait();
  Operation back = backward.send_backward(g.view(), before, key, forward), mine = backward.receive_backward(input_gradient.view(), next, key, forward);
  mine.wait();
  back.wait();
  backward.meter();
  synchronize_placement();
  if (weight_gradients != nullptr && trained)
    for (const CodecParameter& p : forward.codec().codec->as<Trainable>()->trainable()) {
      std::vector<float> values(p.gradient.size());
      copy_and_wait(values.data(), p.gradient.data(), p.gradient.size_bytes());
      weight_gradients->insert(weight_gradients->end(), values.begin(), values.end());
    }
  return floats_of(input_gradient);
}

TEST_F(DeviceCodecChannel, GradientsOfBoundariesTravelByTheRuleOfTheActivationsCodec) {
  if (world().size() == 1) GTEST_SKIP() << "a rank alone has no boundary";
  struct Boundary {
    const char *forward, *backward;
    bool trained, exact;
  };
  for (const Boundary& b : {Boundary{"topk:fraction=0.2", "none", false, true}, Boundary{"topk:fraction=0.2,index=int32", "cast:to=bf16", false, true},
                            Boundary{"randomk:fraction=0.2,unbiased=true", "none", false, true}, Boundary{"quantize:bits=4", "quantize:bits=8+lep", false, true},
                            Boundary{"autoencoder:width=3,init=orthonormal", "none", false, false}, Boundary{"autoencoder:width=3,init=xavier", "none", true, false}}) {
    SCOPED_TRACE(b.forward);
    std::vector<float> host_weights, device_weights;
    const std::vector<float> host = gradient_of_boundary(b.forward, b.backward, b.trained, &host_weights);
    const OnDevice here;
    const std::vector<float> device = gradient_of_boundary(b.forward, b.backward, b.trained, &device_weights);
    if (b.exact) {
      EXPECT_EQ(device, host);
    } else {
      EXPECT_LT(relative_l2(device, host), 2e-3);
      EXPECT_LT(relative_l2(device_weights, host_weights), 2e-3);
      EXPECT_EQ(device_weights.size(), b.trained ? 2 * 3 * 8 : 0);
    }
  }
}

TEST_F(DeviceCodecChannel, GradientsOfReducedActivations) {
  for (const char* codec : {"topk:fraction=0.2", "randomk:fraction=0.2", "autoencoder:width=3,init=orthonormal", "quantize:bits=8"}) {
    SCOPED_TRACE(codec);
    ChannelOptions options;
    options.traffic = TrafficClass::tp_forward;
    options.codec = codec;
    options.average = true;
    const auto run = [&] {
      Channel channel(world(), options);
      const Tensor sum = run_kind(channel, Kind::all_reduce, {9, 8}, key_of("reduced"), "reduced");
      const std::vector<float> values = normal_input(72, "g", 0);
      const Tensor g = placed(values, Shape{9, 8});
      Tensor out(Shape{9, 8});
      channel.reduction_backward(g.view(), out.view(), key_of("reduced"));
      return floats_of(out);
    };
    const std::vector<float> host = run();
    const OnDevice here;
    const std::vector<float> device = run();
    EXPECT_LT(relative_l2(device, host), std::string(codec).starts_with("auto") ? 2e-3 : 1e-30);
  }
}

TEST_F(DeviceCodecChannel, CodecsAreFittedOnTheHostFromSamplesOnTheDevice) {
  ChannelOptions options;
  options.traffic = TrafficClass::dp_gradient;
  options.codec = "autoencoder:width=2,wire=f32";
  const auto run = [&] {
    Channel channel(world(), options);
    const std::vector<float> values = normal_input(40 * 6, "samples", 0);
    const Tensor samples = placed(values, Shape{40, 6});
    const ConstTensorView views[] = {samples.view()};
    channel.fit(views);
    return floats_of(run_kind(channel, Kind::all_reduce, {10, 6}, key_of("fitted"), "fitted"));
  };
  const std::vector<float> host = run();
  const OnDevice here;
  EXPECT_LT(relative_l2(run(), host), 1e-5);
}

}  // namespace
}  // namespace thinwire
