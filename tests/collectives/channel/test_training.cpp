// labels: mpi
// ranks: 1,2,3,4,8
// timeout: 240
// slow: n8
// What training asks of a channel beside sums: the backward pass of a compressed reduction, results kept for
// recomputation, state for checkpoints, and weights of a codec that train with the model.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "core/tensor_names.h"
#include "kernels/codec/codecs/learned/autoencoder.h"
#include "kernels/codec/state.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t rows = 10, columns = 12, elements = rows * columns;
const Shape shape{rows, columns};

int me() { return world().rank(); }
int n() { return world().size(); }

void fit(Codec& codec) {
  static const std::vector<float> samples = normal_input(256 * columns, "samples", 0);
  const ConstTensorView views[] = {{samples.data(), Shape{256, columns}}};
  if (codec.traits().needs_fit) codec.as<Fit>()->fit(views);
}

Channel open(const std::string& codec, Protocol protocol = Protocol::automatic, TrafficClass traffic = TrafficClass::tp_forward,
             bool keep = false, Form form = Form::fair) {
  Channel channel(world(), {.traffic = traffic, .codec = codec, .form = form, .protocol = protocol, .comm_dtype = DType::f32, .keep_for_recompute = keep});
  fit(*channel.codec().codec);
  return channel;
}

MessageKey message(const char* tensor, std::int64_t step, std::int32_t micro_batch, Pass pass = Pass::train) {
  MessageKey key = key_of(tensor, step);
  key.tensor = tensor_id(tensor);
  key.micro_batch = micro_batch;
  key.pass = pass;
  return key;
}

std::vector<float> input(const MessageKey& key, int rank) {
  return normal_input(elements, ("in" + std::to_string(key.random_stream())).c_str(), rank);
}

std::vector<float> reduce(Channel& channel, const MessageKey& key) {
  const auto x = input(key, me());
  std::vector<float> out(elements);
  channel.all_reduce({x.data(), shape}, {out.data(), shape}, key).wait();
  return out;
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// ---- backward ----

/// What the gradient of this rank's own messages must be, by a codec and a residual of its own.
class Oracle {
 public:
  Oracle(const std::string& text, Form form) : feedback_(text.find("+ef") != std::string::npos), stack_(make_codec(text.substr(0, text.find('+')), form)) {
    fit(*stack_.codec);
    masked_ = stack_.codec->traits().backward == BackwardRule::masked && form == Form::fair;
    // A kept element is the input's, or a multiple of it (unbiased Random-K).
    if (text.find("unbiased") != std::string::npos) factor_ = 1 / 0.3;
  }
  void forward(const MessageKey& key) {
    if (!masked_) return;
    auto x = input(key, me());
    std::vector<float>& residual = residuals_[key.state_key()];
    residual.resize(elements, 0.0f);
    for (std::size_t i = 0; i < x.size() && feedback_; ++i) x[i] += residual[i];
    std::vector<std::byte> payload(stack_.codec->max_payload_bytes(shape));
    const std::size_t size = stack_.codec->encode(ConstTensorView(x.data(), shape), key, payload);
    std::vector<float> decoded(elements);
    stack_.codec->decode({payload.data(), size}, key, {decoded.data(), shape});
    for (std::size_t i = 0; i < x.size(); ++i) residual[i] = x[i] - decoded[i];
    std::vector<double>& mask = masks_[key.random_stream()];
    for (const float value : decoded) mask.push_back(value != 0 ? factor_ : 0);
  }
  std::vector<double> backward(const MessageKey& key, const std::vector<float>& gradient) {
    std::vector<double> expected(gradient.begin(), gradient.end());
    if (masked_)
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= masks_.at(key.random_stream())[i];
    auto* autoencoder = dynamic_cast<Autoencoder*>(stack_.codec.get());
    if (autoencoder == nullptr) return expected;
    const auto E = autoencoder->encoder(columns), D = autoencoder->decoder(columns);
    const std::int64_t e = autoencoder->width_for(columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::vector<double> code(static_cast<std::size_t>(e), 0);
      for (std::int64_t k = 0; k < e; ++k)
        for (std::int64_t j = 0; j < columns; ++j) code[k] += double{gradient[r * columns + j]} * D[j * e + k];
      for (std::int64_t j = 0; j < columns; ++j) {
        expected[r * columns + j] = 0;
        for (std::int64_t k = 0; k < e; ++k) expected[r * columns + j] += code[k] * E[k * columns + j];
      }
    }
    return expected;
  }

 private:
  bool feedback_, masked_ = false;
  double factor_ = 1;
  CodecStack stack_;
  std::map<std::uint64_t, std::vector<float>> residuals_;
  std::map<std::uint64_t, std::vector<double>> masks_;
};

TEST(ReductionBackward, FollowsEachMessagesOwnRuleWhateverLiesBetweenForwardAndBackward) {
  struct Case {
    std::string codec;
    Protocol protocol;
    Form form = Form::fair;
  };
  for (const Case& c : {Case{"topk:fraction=0.3", Protocol::gather}, {"topk:fraction=0.3,index=int32+ef", Protocol::gather},
                        {"topk:fraction=0.3", Protocol::gather, Form::released}, {"randomk:fraction=0.3", Protocol::rounds},
                        {"randomk:fraction=0.3,unbiased=true", Protocol::gather}, {"randomk:fraction=0.3", Protocol::gather, Form::released},
                        {"autoencoder:width=5", Protocol::rounds}, {"autoencoder:width=5,wire=f32+ef", Protocol::gather},
                        {"quantize:bits=4", Protocol::gather}, {"quantize:bits=4", Protocol::two_shot}, {"cast", Protocol::rounds},
                        {"powersgd:rank=2+ef", Protocol::rounds}, {"none", Protocol::dense}}) {
    SCOPED_TRACE(c.codec + " " + name_of(c.protocol) + " " + name_of(c.form));
    Channel channel = open(c.codec, c.protocol, TrafficClass::tp_forward, false, c.form);
    Oracle oracle(c.codec, c.form);
    // Two layers of three micro-batches in flight, and evaluations among them.
    std::vector<MessageKey> keys;
    for (std::int64_t step = 0; step < 2; ++step) {
      keys.clear();
      for (std::int32_t micro_batch = 0; micro_batch < 3; ++micro_batch)
        for (const char* tensor : {"a", "b"}) {
          keys.push_back(message(tensor, step, micro_batch));
          reduce(channel, keys.back());
          oracle.forward(keys.back());
          reduce(channel, message(tensor, step, micro_batch + 1, Pass::evaluate));
        }
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const MessageKey& key = keys[(i * 5 + 2) % keys.size()];
        std::vector<float> gradient = normal_input(elements, "gradient", static_cast<int>(i)), result(elements, -7.0f);
        channel.reduction_backward({gradient.data(), shape}, {result.data(), shape}, key);
        EXPECT_LT(relative_l2(result, oracle.backward(key, gradient)), 1e-5);
        channel.reduction_backward({gradient.data(), shape}, {gradient.data(), shape}, key);
        EXPECT_EQ(gradient, result) << "in place";
      }
    }
  }
}

TEST(ReductionBackward, OfAMeanIsTheShareOfOneRank) {
  for (const char* codec : {"none", "topk:count=120,values=f32"}) {
    Channel channel(world(), {.traffic = TrafficClass::tp_forward, .codec = codec, .comm_dtype = DType::f32, .average = true});
    reduce(channel, message("a", 0, 0));
    const auto gradient = normal_input(elements, "gradient", 0);
    std::vector<float> result(elements);
    channel.reduction_backward({gradient.data(), shape}, {result.data(), shape}, message("a", 0, 0));
    for (std::size_t i = 0; i < result.size(); ++i) EXPECT_FLOAT_EQ(result[i], gradient[i] / static_cast<float>(n()));
  }
}

TEST(ReductionBackward, CopiesDoublesOfADenseChannelAndRefusesWhatHasNoGradient) {
  std::vector<double> gradient(elements, 1.0 / 3), result(elements);
  Channel dense(world(), {.traffic = TrafficClass::tp_forward, .comm_dtype = DType::f64});
  dense.reduction_backward({gradient.data(), shape}, {result.data(), shape}, message("a", 0, 0));
  EXPECT_EQ(result, gradient);
  std::vector<float> narrow(elements);
  EXPECT_THROW(dense.reduction_backward({gradient.data(), shape}, {narrow.data(), shape}, message("a", 0, 0)), UsageError);
  for (const Protocol protocol : {Protocol::gather, Protocol::two_shot}) {
    Channel channel = open("topk:fraction=0.3", protocol);
    reduce(channel, message("a", 0, 0, Pass::evaluate));
    const auto backward = [&](Pass pass) { channel.reduction_backward({narrow.data(), shape}, {narrow.data(), shape}, message("a", 0, 0, pass)); };
    EXPECT_THROW(backward(Pass::evaluate), UsageError);
    if (protocol == Protocol::gather) {
      EXPECT_THROW(backward(Pass::train), RuntimeFailure) << "an evaluation left a mask";
      reduce(channel, message("a", 0, 0));
      EXPECT_NO_THROW(backward(Pass::train));
    } else {
      EXPECT_NE(refusal([&] { backward(Pass::train); }).find("two_shot"), std::string::npos);
    }
  }
}

// ---- recomputation ----

TEST(Recomputation, RepeatsEveryOperationWithoutTrafficAndLeavesAllStateAlone) {
  for (const char* codec : {"none", "cast", "topk:fraction=0.3+ef", "powersgd:rank=2+ef", "autoencoder:width=4,init=orthonormal+ef"}) {
    SCOPED_TRACE(codec);
    Channel kept = open(codec, Protocol::automatic, TrafficClass::tp_forward, true), plain = open(codec);
    const bool scatters = std::string(codec).find("powersgd") == std::string::npos;
    const RowBlock block = shard_rows(rows, me(), n());
    const Shape part{block.count, columns};
    for (std::int64_t step = 0; step < 3; ++step) {
      std::vector<MessageKey> keys;
      std::vector<std::vector<float>> sums, parts, wholes;
      for (std::int32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const MessageKey key = message("a", step, micro_batch);
        keys.push_back(key);
        sums.push_back(reduce(kept, key));
        EXPECT_EQ(sums.back(), reduce(plain, key));
        const auto x = input(key, me());
        for (Channel* channel : {&kept, &plain}) {
          if (!scatters) continue;
          const MessageKey other = message("scattered", step, micro_batch);
          std::vector<float> own(static_cast<std::size_t>(part.elements())), whole(elements);
          channel->reduce_scatter({x.data(), shape}, {own.data(), part}, other).wait();
          // The same key: an operation of another kind is another result.
          if (std::string(codec).find("+ef") == std::string::npos)
            channel->all_gather({own.data(), part}, {whole.data(), shape}, other).wait();
          if (channel == &kept) {
            parts.push_back(own);
            wholes.push_back(whole);
          }
        }
      }
      const OperationReport before = kept.meter().total();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const MessageKey again = keys[i].with_pass(Pass::recompute);
        std::vector<float> out(elements, -7.0f);
        const std::vector<float> other(elements, 1.0f);  // not even looked at
        Operation operation = kept.all_reduce({other.data(), shape}, {out.data(), shape}, again);
        EXPECT_TRUE(operation.test());
        EXPECT_EQ(operation.wait().dense_bytes, 0);
        EXPECT_EQ(out, sums[i]);
        const auto twice = [&] { kept.all_reduce({other.data(), shape}, {out.data(), shape}, again); };
        EXPECT_NE(refusal(twice).find("'a'"), std::string::npos) << refusal(twice);
        if (!scatters) continue;
        const MessageKey scattered = message("scattered", step, static_cast<std::int32_t>(i), Pass::recompute);
        std::vector<float> own(parts[i].size(), -7.0f), whole(elements, -7.0f);
        kept.reduce_scatter({other.data(), shape}, {own.data(), part}, scattered).wait();
        EXPECT_EQ(own, parts[i]);
        if (std::string(codec).find("+ef") != std::string::npos) continue;
        kept.all_gather({own.data(), part}, {whole.data(), shape}, scattered).wait();
        EXPECT_EQ(whole, wholes[i]);
      }
      const OperationReport after = kept.meter().total();
      EXPECT_EQ(after.link_bytes, before.link_bytes);
      EXPECT_EQ(after.payload_bytes, before.payload_bytes);
      EXPECT_EQ(after.encode_us, before.encode_us);
    }
    EXPECT_EQ(kept.save_state(), plain.save_state()) << "residuals and warm starts";
    std::vector<float> out(elements);
    const auto never = [&](Channel& channel) {
      return refusal([&] { channel.all_reduce({out.data(), shape}, {out.data(), shape}, message("never", 9, 1, Pass::recompute)); });
    };
    EXPECT_NE(never(kept).find("'never'"), std::string::npos) << never(kept);
    EXPECT_NE(never(plain).find("keep_for_recompute"), std::string::npos) << never(plain);
  }
}

TEST(Recomputation, KeepsWhatABroadcastAndAReceiveDeliveredAndNothingOfAnEvaluation) {
  Channel channel = open("none", Protocol::automatic, TrafficClass::param_all_gather, true);
  std::vector<float> x = input(message("w", 0, 0), me()), again(elements);
  channel.broadcast({x.data(), shape}, 0, message("w", 0, 0)).wait();
  channel.broadcast({again.data(), shape}, 0, message("w", 0, 0, Pass::recompute)).wait();
  EXPECT_EQ(again, x);
  reduce(channel, message("e", 0, 0, Pass::evaluate));
  EXPECT_THROW(channel.all_reduce({x.data(), shape}, {x.data(), shape}, message("e", 0, 0, Pass::recompute)), UsageError);
  if (n() == 1) return;
  Channel pipeline = open("quantize", Protocol::automatic, TrafficClass::pp_forward, true);
  const int right = (me() + 1) % n(), left = (me() + n() - 1) % n();
  const MessageKey key = message("p", 0, 0);
  Operation send = pipeline.send({x.data(), shape}, right, key);
  std::vector<float> arrived(elements);
  pipeline.receive({arrived.data(), shape}, left, key).wait();
  send.wait();
  pipeline.receive({again.data(), shape}, left, key.with_pass(Pass::recompute)).wait();
  EXPECT_EQ(again, arrived);
}

// ---- state ----

std::vector<std::string> every_expression() {
  std::vector<std::string> all;
  for (const CodecInfo* codec : all_codecs()) {
    all.push_back(codec->name);
    for (const WrapperInfo* wrapper : all_wrappers()) {
      if (wrapper->point_to_point_only) continue;  // OfAPointToPointSenderGoesOnBitEqual
      const std::string expression = codec->name + "+" + wrapper->name;
      try {
        parse_codec(expression);
      } catch (const UsageError&) {
        continue;  // not around this codec
      }
      all.push_back(expression);
    }
  }
  all.push_back("powersgd:rank=3,wire=f16+ef");
  all.push_back("group+hadamard:signs=keyed+ef21");
  all.push_back("group+loco:store=int8,reset=2");
  all.push_back("autoencoder:width=4,init=orthonormal+ef");
  return all;
}

TEST(State, GoingOnAfterLoadingIsBitEqualToNeverHavingStopped) {
  for (const std::string& codec : every_expression()) {
    for (const Protocol protocol : {Protocol::automatic, Protocol::two_shot}) {
      const bool dense = parse_codec(codec).is_dense();
      if (protocol == Protocol::two_shot && dense) continue;
      SCOPED_TRACE(codec + " " + name_of(protocol));
      Channel channel = open(codec, protocol, TrafficClass::dp_gradient);
      const auto go_on = [&](Channel& c, std::int64_t from) {
        std::vector<std::vector<float>> results;
        for (std::int64_t step = from; step < from + 3; ++step)
          for (const char* tensor : {"a", "b"}) results.push_back(reduce(c, message(tensor, step, 0)));
        return results;
      };
      go_on(channel, 0);
      const auto saved = channel.save_state();
      EXPECT_EQ(channel.save_state(), saved) << "saving changes nothing";
      const auto uninterrupted = go_on(channel, 3);
      Channel fresh(world(), channel.options());  // not fitted: the weights are part of the state
      fresh.load_state(saved);
      EXPECT_EQ(fresh.save_state(), saved);
      EXPECT_EQ(go_on(fresh, 3), uninterrupted);
      EXPECT_EQ(fresh.save_state(), channel.save_state());
      // Into a channel with a history of its own, too.
      fresh.load_state(saved);
      EXPECT_EQ(go_on(fresh, 3), uninterrupted);

      const bool has_state = !channel.codec().wrappers.empty() || channel.codec().codec->traits().stateful;
      std::vector<std::vector<float>> inputs;
      for (int r = 0; r < n(); ++r) inputs.push_back(input(message("a", 3, 0), r));
      const bool loses = relative_l2(uninterrupted[0], sum_of_inputs(inputs)) > 1e-6;  // a codec may send messages as small as these as they are
      if (has_state && loses) {
        EXPECT_NE(channel.save_state(), saved) << "state that never changes is no state";
      }
      // Cut anywhere; with wrappers, which share how they write, at fewer places the further on.
      for (std::size_t length = 0; length < saved.size(); length += channel.codec().wrappers.empty() ? 1 : 1 + length / 64)
        ASSERT_THROW(fresh.load_state({saved.data(), length}), CorruptData) << length << " of " << saved.size() << " bytes";
    }
  }
}

TEST(State, OfAPointToPointSenderGoesOnBitEqual) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  std::vector<std::string> expressions = {"topk:fraction=0.2+ef", "powersgd:rank=2", "autoencoder:width=4,init=xavier+ef", "group+hadamard+ef21", "group+loco"};
  for (const WrapperInfo* wrapper : all_wrappers())
    if (wrapper->point_to_point_only) expressions.push_back("group+" + wrapper->name);
  for (const std::string& codec : expressions) {
    const auto go_on = [&](Channel& c, std::int64_t from) {
      std::vector<std::vector<float>> results;
      for (std::int64_t step = from; step < from + 3; ++step) {
        MessageKey key = message("p", step, 0);
        const std::vector<std::int64_t> samples = {step % 2, 9};
        key.samples = samples;
        const std::vector<std::int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, static_cast<std::int32_t>(step)};
        key.tokens = tokens;
        const auto x = input(key, me());
        std::vector<float> out(elements);
        Operation send = c.send({x.data(), shape}, (me() + 1) % n(), key);
        c.receive({out.data(), shape}, (me() + n() - 1) % n(), key).wait();
        send.wait();
        results.push_back(out);
      }
      return results;
    };
    Channel channel = open(codec, Protocol::automatic, TrafficClass::pp_backward);
    go_on(channel, 0);
    const auto saved = channel.save_state();
    const auto uninterrupted = go_on(channel, 3);
    Channel fresh = open(codec, Protocol::automatic, TrafficClass::pp_backward);
    fresh.load_state(saved);
    EXPECT_EQ(go_on(fresh, 3), uninterrupted) << codec;
  }
}

TEST(PointToPointOnly, AWrapperThatTwoEndsShareIsRefusedForSumsAndGathers) {
  for (const WrapperInfo* wrapper : all_wrappers()) {
    if (!wrapper->point_to_point_only) continue;
    const std::string codec = "group+" + wrapper->name;
    for (const Protocol protocol : {Protocol::automatic, Protocol::gather, Protocol::two_shot})
      EXPECT_NE(refusal([&] { open(codec, protocol, TrafficClass::dp_gradient); }).find("one sender and one receiver"), std::string::npos) << codec;
    EXPECT_EQ(refusal([&] { open(codec, Protocol::automatic, TrafficClass::pp_forward); }), "");
  }
}

TEST(State, OfAnotherSetUpIsRefusedSayingWhatDiffers) {
  Channel channel = open("topk:fraction=0.3+ef", Protocol::gather);
  reduce(channel, message("a", 0, 0));
  const auto saved = channel.save_state();
  const auto refused = [&](Channel other, std::span<const std::byte> state) { return refusal([&] { other.load_state(state); }); };
  EXPECT_NE(refused(open("topk:fraction=0.2+ef", Protocol::gather), saved).find("fraction=0.3"), std::string::npos);
  EXPECT_NE(refused(open("topk:fraction=0.3", Protocol::gather), saved).find("codec"), std::string::npos);
  EXPECT_NE(refused(open("topk:fraction=0.3+ef", Protocol::two_shot), saved).find("protocol"), std::string::npos);
  EXPECT_NE(refused(open("topk:fraction=0.3+ef", Protocol::gather, TrafficClass::tp_forward, false, Form::released), saved).find("form"),
            std::string::npos);
  if (n() == 1) return;
  std::vector<std::byte> all(saved.size() * static_cast<std::size_t>(n()));
  world().all_gather(saved.data(), static_cast<std::int64_t>(saved.size()), all.data())->wait();
  const std::span<const std::byte> neighbours(all.data() + saved.size() * static_cast<std::size_t>((me() + 1) % n()), saved.size());
  EXPECT_NE(refused(open("topk:fraction=0.3+ef", Protocol::gather), neighbours).find("rank"), std::string::npos);
}

TEST(State, WhateverBytesChangeIsRefusedOrLoadedNeverACrash) {
  const Random random(test_seed(), "damage");
  for (const char* codec : {"powersgd:rank=2+ef", "autoencoder:width=4,init=xavier+ef"}) {
    Channel channel = open(codec);
    reduce(channel, message("a", 0, 0));
    const auto saved = channel.save_state();
    const std::size_t body = saved.size() - 8;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      auto changed = saved;
      changed[random.below(3 * i, i % 2 ? body : 400)] = static_cast<std::byte>(random.bits32(3 * i + 1));
      if (changed != saved) {
        EXPECT_THROW(channel.load_state(changed), CorruptData);
      }
      // With a check sum that fits, the entries themselves must be looked at.
      const std::uint64_t sum = hash_name({reinterpret_cast<const char*>(changed.data()), body});
      std::memcpy(changed.data() + body, &sum, 8);
      try {
        channel.load_state(changed);
      } catch (const Error&) {
      }
    }
    channel.load_state(saved);
    EXPECT_EQ(channel.save_state(), saved);
  }
}

// ---- training ----

/// Central differences of `loss` in `value`; it is linear in each element, so a large step costs no accuracy.
void expect_gradient(std::span<float> value, std::span<const float> gradient, const std::function<double()>& loss, bool mine, const char* what) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    const float old = value[i];
    if (mine) value[i] = old + 0.25f;
    const double up = loss();
    if (mine) value[i] = old - 0.25f;
    const double down = loss();
    value[i] = old;
    if (mine) {
      EXPECT_NEAR((up - down) / 0.5, gradient[i], 1e-3 * (1 + std::abs(gradient[i]))) << what << " " << i;
    }
  }
}

const char* const trained = "autoencoder:width=3,init=orthonormal,wire=f32";
const Shape small{4, 5};

TEST(TrainableAutoencoder, GradientsOfAReductionMatchFiniteDifferences) {
  for (const Protocol protocol : {Protocol::rounds, Protocol::gather}) {
    Channel channel = open(trained, protocol);
    Trainable& codec = *channel.codec().codec->as<Trainable>();
    EXPECT_TRUE(codec.trainable().empty());
    codec.prepare_training(tensor_id("other"), 5);
    codec.prepare_training(tensor_id("layer"), 5);
    std::vector<CodecParameter> parameters;
    for (const CodecParameter& p : codec.trainable())
      if (p.name.find("layer") != std::string::npos) parameters.push_back(p);
    ASSERT_EQ(codec.trainable().size(), 4u);
    ASSERT_EQ(parameters.size(), 2u);
    EXPECT_EQ(parameters[0].owner, CodecParameter::Owner::sender);
    EXPECT_EQ(parameters[1].owner, CodecParameter::Owner::receiver);
    EXPECT_TRUE(equal_on_all_ranks(parameters[0].value.data(), 15 * 4));

    // loss = sum over two micro-batches of w . out, counted once: out is equal on all ranks.
    const auto x = [&](int m) { return normal_input(20, m ? "x1" : "x0", me()); };
    const auto w = [&](int m) { return normal_input(20, m ? "w1" : "w0", 0); };
    const auto forward = [&](int m, Pass pass) {
      const auto in = x(m);
      std::vector<float> out(20);
      channel.all_reduce({in.data(), small}, {out.data(), small}, message("layer", 0, m, pass)).wait();
      double loss = 0;
      for (std::size_t i = 0; i < 20; ++i) loss += double{out[i]} * w(m)[i];
      return loss;
    };
    const auto loss = [&] { return forward(0, Pass::evaluate) + forward(1, Pass::evaluate); };
    std::vector<std::vector<float>> input_gradients(2, std::vector<float>(20));
    forward(0, Pass::train);
    forward(1, Pass::train);
    for (int m : {1, 0}) channel.reduction_backward({w(m).data(), small}, {input_gradients[static_cast<std::size_t>(m)].data(), small}, message("layer", 0, m));

    // The decoder's gradient is whole on every rank; the encoder's is this rank's part of the sum.
    expect_gradient(parameters[1].value, parameters[1].gradient, loss, true, "decoder");
    EXPECT_TRUE(equal_on_all_ranks(parameters[1].gradient.data(), 15 * 4));
    std::vector<float> summed(parameters[0].gradient.begin(), parameters[0].gradient.end());
    world().all_reduce(summed.data(), summed.data(), 15, DType::f32, ReduceOp::sum)->wait();
    expect_gradient(parameters[0].value, summed, loss, true, "encoder, equal on all ranks");
    for (int rank = 0; rank < n(); ++rank)  // whoever lets them drift apart needs no sum
      expect_gradient(parameters[0].value, parameters[0].gradient, loss, rank == me(), "encoder of one rank");
    for (const CodecParameter& p : codec.trainable()) {
      if (p.name.find("other") == std::string::npos) continue;
      EXPECT_TRUE(std::all_of(p.gradient.begin(), p.gradient.end(), [](float g) { return g == 0; })) << "of a tensor that was never sent";
    }
  }
}

TEST(TrainableAutoencoder, GradientsAtAPipelineBoundaryLieOnTheirEnds) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  const bool sender = me() % 2 == 0;
  const int partner = sender ? me() + 1 : me() - 1;
  Channel forward = open(trained, Protocol::automatic, TrafficClass::pp_forward);
  Channel backward(world(), {.traffic = TrafficClass::pp_backward, .comm_dtype = DType::f32});
  if (partner < n()) {
    forward.codec().codec->as<Trainable>()->prepare_training(tensor_id("boundary"), 5);
    const auto parameters = forward.codec().codec->as<Trainable>()->trainable();
    const auto x = [&](int m) { return normal_input(20, m ? "x1" : "x0", std::min(me(), partner)); };
    const auto w = [&](int m) { return normal_input(20, m ? "w1" : "w0", 0); };
    const auto pass_on = [&](int m, Pass pass) {
      const MessageKey key = message("boundary", 0, m, pass);
      double loss = 0;
      if (sender) {
        const auto in = x(m);
        forward.send({in.data(), small}, partner, key).wait();
        std::vector<float> told(2);
        backward.receive({told.data(), Shape{2}}, partner, key).wait();
        loss = double{told[0]} + double{told[1]};
      } else {
        std::vector<float> out(20);
        forward.receive({out.data(), small}, partner, key).wait();
        for (std::size_t i = 0; i < 20; ++i) loss += double{out[i]} * w(m)[i];
        const std::vector<float> told = {static_cast<float>(loss), static_cast<float>(loss - static_cast<float>(loss))};
        backward.send({told.data(), Shape{2}}, partner, key).wait();
      }
      return loss;
    };
    const auto loss = [&] { return pass_on(0, Pass::evaluate) + pass_on(1, Pass::evaluate); };
    pass_on(0, Pass::train);
    pass_on(1, Pass::train);
    for (int m : {1, 0}) {
      std::vector<float> gradient(20);
      if (sender)
        backward.receive_backward({gradient.data(), small}, partner, message("boundary", 0, m), forward).wait();
      else
        backward.send_backward({w(m).data(), small}, partner, message("boundary", 0, m), forward).wait();
    }
    expect_gradient(parameters[0].value, parameters[0].gradient, loss, sender, "encoder");
    expect_gradient(parameters[1].value, parameters[1].gradient, loss, !sender, "decoder");
    const auto& idle = parameters[sender ? 1 : 0].gradient;
    EXPECT_TRUE(std::all_of(idle.begin(), idle.end(), [](float g) { return g == 0; }));
  }
  world().barrier();
}

TEST(TrainableAutoencoder, WeightsThatTrainAreSavedAndLoadedInPlace) {
  Channel channel = open(trained, Protocol::rounds);
  channel.codec().codec->as<Trainable>()->prepare_training(tensor_id("layer"), columns);
  auto parameters = channel.codec().codec->as<Trainable>()->trainable();
  for (CodecParameter& p : parameters)
    for (float& v : p.value) v += 0.125f;
  const auto saved = channel.save_state();
  const auto result = reduce(channel, message("layer", 1, 0));
  Channel fresh = open(trained, Protocol::rounds);
  fresh.codec().codec->as<Trainable>()->prepare_training(tensor_id("layer"), columns);
  const auto held = fresh.codec().codec->as<Trainable>()->trainable();
  EXPECT_NE(reduce(fresh, message("layer", 1, 0)), result);
  fresh.load_state(saved);
  EXPECT_EQ(held[0].value[7], parameters[0].value[7]) << "who trains the weights holds spans of them";
  EXPECT_EQ(reduce(fresh, message("layer", 1, 0)), result);
}

}  // namespace
}  // namespace thinwire
