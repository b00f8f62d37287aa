// labels: unit
// AQ-SGD's caches against their recursion in float64 (docs/papers/activation_compression.md, "AQ-SGD"): both ends hold equal bits, what
// arrives closes in on what is sent, samples keep what is theirs; and state, damage and the file.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/half.h"
#include "kernels/codec/message.h"
#include "kernels/codec/state.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::relative_difference;
using Floats = std::vector<float>;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t tokens = 6, width = 20;

struct Ends {
  explicit Ends(const std::string& expression) : sender(make_codec(expression)), receiver(make_codec(expression)) {}
  /// What arrives of x [samples * tokens, width].
  Floats send(const Floats& x, const Ids& samples, std::int64_t step, Pass pass = Pass::train) {
    MessageKey key;
    key.tensor = hash_name("boundary");
    key.step = step;
    key.pass = pass;
    key.samples = samples;
    const Shape shape{static_cast<std::int64_t>(x.size()) / width, width};
    payload.resize(sender.codec->max_payload_bytes(shape));
    payload.resize(encode_message(sender, ConstTensorView(x.data(), shape), key, payload, scratch));
    Floats out(x.size(), -7.0f);
    decode_message(receiver, payload, key, TensorView(out.data(), shape));
    return out;
  }
  CodecStack sender, receiver;
  std::vector<std::byte> payload;
  MessageScratch scratch;
};

Floats tensor(std::int64_t samples, std::uint64_t seed) { return normal_numbers(samples * tokens * width, seed); }

/// The entries of a state, without the names: those of what was sent, or of what was received.
std::vector<std::vector<std::byte>> remembered(const CodecStack& stack, const char* what) {
  StateWriter writer;
  stack.codec->as<State>()->save_state(writer);
  const std::vector<std::byte> bytes = writer.finish();
  StateReader reader(bytes);
  std::vector<std::vector<std::byte>> entries;
  for (const char* part : {" samples", " values"})
    for (const StateEntry* entry : reader.take(what + std::string(part), DType::u8)) entries.emplace_back(entry->bytes.begin(), entry->bytes.end());
  return entries;
}

void hand_over(const CodecStack& from, CodecStack& to) {
  StateWriter writer;
  from.codec->as<State>()->save_state(writer);
  const std::vector<std::byte> bytes = writer.finish();
  StateReader reader(bytes);
  to.codec->as<State>()->load_state(reader);
  reader.check_all_taken();
}

TEST(Delta, FollowsItsRecursionSampleBySample) {
  Ends ends("cast+delta:store=f32");  // C rounds to f16: the reference does it, too
  std::map<std::int64_t, std::vector<float>> m;
  const std::vector<Ids> batches = {{3, 1}, {0, 2}, {1, 3}, {2, 1}, {0, 3}};
  for (std::size_t step = 0; step < batches.size(); ++step) {
    const Ids& ids = batches[step];
    const Floats x = tensor(2, step + 1), seen = ends.send(x, ids, static_cast<std::int64_t>(step));
    const bool all_known = m.contains(ids[0]) && m.contains(ids[1]);
    EXPECT_EQ(ends.payload.size(), 1 + x.size() * (all_known ? 2 : 4)) << step;
    for (std::size_t s = 0; s < 2; ++s) {
      std::vector<float>& mine = m[ids[s]];
      const std::size_t first = s * tokens * width, count = tokens * width;
      mine.resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        mine[i] = all_known ? mine[i] + round_to_half(x[first + i] - mine[i]) : x[first + i];
        ASSERT_EQ(seen[first + i], mine[i]) << "step " << step << ", sample " << ids[s] << ", element " << i;
      }
    }
  }
}

TEST(Delta, WhatIsRememberedIsRoundedAndWhatArrivesIsNot) {
  Ends ends("cast+delta");  // store=f16
  const Floats a = tensor(1, 1), b = tensor(1, 2), c = tensor(1, 3);
  EXPECT_EQ(ends.send(a, {5}, 0), a) << "in full";
  Floats m(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) m[i] = round_to_half(a[i]);
  for (const Floats* x : {&b, &c}) {
    const Floats seen = ends.send(*x, {5}, 1);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const float arrives = m[i] + round_to_half((*x)[i] - m[i]);
      ASSERT_EQ(seen[i], arrives) << i;
      m[i] = round_to_half(arrives);
    }
  }
}

// Claim C23 of the page: bits 1 to 8, shuffled order, a short last batch.
TEST(Delta, BothEndsRememberTheSameBits) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const char* store : {"f32", "f16", "int8", "int4"}) {
      Ends ends("quantize:packing=neighbour,bits=" + std::to_string(bits) + "+delta:store=" + store);
      for (std::int64_t step = 0; step < 9; ++step) {
        const Ids ids = step % 3 == 2 ? Ids{4} : step % 3 == 1 ? Ids{step % 2, 2} : Ids{2 + step % 2, step % 2 * 4};
        ends.send(tensor(static_cast<std::int64_t>(ids.size()), static_cast<std::uint64_t>(step)), ids, step);
        ASSERT_FALSE(remembered(ends.sender, "sent").empty());
        ASSERT_EQ(remembered(ends.sender, "sent"), remembered(ends.receiver, "received")) << bits << " bits, " << store << ", step " << step;
        EXPECT_TRUE(remembered(ends.sender, "received").empty());
      }
    }
  }
}

// Worked example 6 of the page: the same x again at least halves max |x - m| of a channel, with two bits or more.
TEST(Delta, TheSameTensorAgainHalvesWhatIsMissing) {
  for (const int bits : {2, 3, 4}) {
    Ends ends("quantize:bits=" + std::to_string(bits) + "+delta:store=f32");
    ends.send(Floats(tokens * width, 0.0f), {1}, 0);
    const Floats x = tensor(1, 4);
    Floats before(width, 1e9f);
    for (std::int64_t step = 1; step < 12; ++step) {
      const Floats seen = ends.send(x, {1}, step);
      Floats missing(width, 0.0f);
      for (std::size_t i = 0; i < x.size(); ++i) missing[i % width] = std::max(missing[i % width], std::abs(x[i] - seen[i]));
      for (std::size_t c = 0; c < width; ++c) EXPECT_LE(missing[c], std::max(0.501f * before[c], 1e-6f)) << bits << " bits, step " << step << ", channel " << c;
      before = missing;
    }
    EXPECT_LT(*std::ranges::max_element(before), 2e-3f) << bits;
  }
}

TEST(Delta, ASampleKeepsItsOwnWhateverItTravelsWith) {
  Ends alone("group+delta"), among("group+delta");
  const Floats a = tensor(1, 1), b = tensor(1, 2), c = tensor(1, 3), again = tensor(1, 4);
  const auto joined = [](const Floats& x, const Floats& y) {
    Floats both = x;
    both.insert(both.end(), y.begin(), y.end());
    return both;
  };
  alone.send(a, {10}, 0);
  among.send(joined(b, a), {11, 10}, 0);
  among.send(c, {12}, 1);
  EXPECT_EQ(alone.send(again, {10}, 2), among.send(again, {10}, 2));
  // Once more together, with a partner that is known.
  alone.send(a, {10}, 3);
  among.send(joined(a, b), {10, 12}, 3);
  EXPECT_EQ(alone.send(again, {10}, 4), among.send(again, {10}, 4));
}

TEST(Delta, AnEvaluationSeesTheCodecAloneAndLeavesNoTrace) {
  Ends ends("group+delta"), plain("group");
  ends.send(tensor(2, 1), {1, 2}, 0);
  const auto before = remembered(ends.sender, "sent");
  const Floats x = tensor(2, 2);
  EXPECT_EQ(ends.send(x, {1, 2}, 1, Pass::evaluate), plain.send(x, {}, 1));
  EXPECT_EQ(ends.payload, plain.payload);
  ends.send(x, {8, 9}, 1, Pass::evaluate);
  EXPECT_EQ(remembered(ends.sender, "sent"), before);
  EXPECT_EQ(remembered(ends.receiver, "received"), before);
}

TEST(Delta, GoesAroundAndInsideATransform) {
  for (const char* expression : {"group:bits=3+hadamard:block=4+delta", "group:bits=3+delta+hadamard:block=4", "powersgd:rank=2,min_ratio=1+delta", "topk:fraction=0.3+delta"}) {
    Ends ends(expression);
    const Floats x = tensor(2, 1);
    EXPECT_LT(relative_difference(ends.send(x, {1, 2}, 0), x), 1e-6) << expression;
    double error = 1;
    for (std::int64_t step = 1; step < 8; ++step) error = relative_difference(ends.send(x, {1, 2}, step), x);
    EXPECT_LT(error, 1e-3) << expression;
  }
}

TEST(Delta, SaysWhatItCannotDo) {
  for (const char* refused : {"group+delta+ef", "group+ef+delta", "autoencoder+delta", "autoencoder:init=xavier+delta", "group+delta+ef21"}) EXPECT_THROW(make_codec(refused), UsageError) << refused;
  Ends ends("group+delta:samples=2");
  EXPECT_THROW(ends.send(tensor(2, 1), {}, 0), UsageError) << "no ids";
  EXPECT_THROW(ends.send(tensor(2, 1), {1, 2, 3, 4, 5}, 0), UsageError) << "twelve rows, five samples";
  ends.send(tensor(2, 1), {1, 2}, 0);
  EXPECT_THROW(ends.send(tensor(2, 1), {1}, 1), UsageError) << "another shape of a sample";
  EXPECT_THROW(ends.send(tensor(1, 1), {3}, 1), RuntimeFailure) << "a third sample";
  Ends narrow("group+delta");
  EXPECT_THROW(narrow.send(Floats(tokens * width, 1e6f), {1}, 0), NotRepresentable) << "beyond f16";
  Floats bad = tensor(1, 1);
  bad[7] = std::nanf("");
  Ends fresh("group+delta");
  EXPECT_THROW(fresh.send(bad, {1}, 0), NotRepresentable);
  fresh.send(tensor(1, 1), {1}, 1);
  EXPECT_THROW(fresh.send(bad, {1}, 2), NotRepresentable);
}

TEST(Delta, EndsThatDoNotRememberTheSameAreFound) {
  Ends ends("group+delta"), stranger("group+delta");
  ends.send(tensor(1, 1), {1}, 0);
  MessageKey key;
  key.tensor = hash_name("boundary");
  const Ids ids = {1};
  key.samples = ids;
  Floats out(tokens * width);
  const TensorView to(out.data(), Shape{tokens, width});
  const std::vector<std::byte> whole = ends.payload;
  EXPECT_THROW(decode_message(ends.receiver, whole, key, to), CorruptData) << "in full, but it has passed";
  ends.send(tensor(1, 2), {1}, 1);
  EXPECT_THROW(decode_message(stranger.receiver, ends.payload, key, to), CorruptData) << "a change, but to what?";
  // A damaged message leaves the cache as it was.
  const auto before = remembered(ends.receiver, "received");
  std::vector<std::byte> damaged = ends.payload;
  damaged[0] = std::byte{9};
  EXPECT_THROW(decode_message(ends.receiver, damaged, key, to), CorruptData);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, ends.payload.size() - 1})
    EXPECT_THROW(decode_message(ends.receiver, std::span(ends.payload).first(size), key, to), CorruptData) << size;
  EXPECT_THROW(decode_message(stranger.receiver, std::span(whole).first(whole.size() - 1), key, to), CorruptData);
  EXPECT_EQ(remembered(ends.receiver, "received"), before);
}

TEST(Delta, ASavedStateGoesOnBitEqualAndADamagedOneIsRefused) {
  for (const char* expression : {"group+delta", "group+delta:store=int8", "group+delta:store=int4,where=file", "powersgd:rank=2,min_ratio=1+delta:store=f32"}) {
    Ends one(expression), other(expression);
    for (std::int64_t step = 0; step < 4; ++step) one.send(tensor(2, static_cast<std::uint64_t>(step)), {step % 3, 7}, step);
    other.send(tensor(1, 99), {40}, 0);  // a history of its own, which goes
    hand_over(one.sender, other.sender);
    hand_over(one.receiver, other.receiver);
    for (std::int64_t step = 4; step < 9; ++step) {
      const Floats x = tensor(2, static_cast<std::uint64_t>(step));
      const Ids ids = {7, step % 4};
      ASSERT_EQ(one.send(x, ids, step), other.send(x, ids, step)) << expression << ", step " << step;
      ASSERT_EQ(one.payload, other.payload);
    }
    EXPECT_EQ(remembered(one.sender, "sent"), remembered(other.sender, "sent"));
  }
  const auto refused = [](const std::vector<std::int64_t>& ids, std::size_t bytes) {
    StateWriter writer;
    writer.put("sent samples", 1, std::as_bytes(std::span(ids)));
    writer.put("sent values", 1, std::vector<std::byte>(bytes));
    const std::vector<std::byte> state = writer.finish();
    StateReader reader(state);
    EXPECT_THROW(make_codec("group+delta").codec->as<State>()->load_state(reader), CorruptData) << ids.size() << " numbers, " << bytes << " bytes";
  };
  refused({2, 3, 0}, 11);
  refused({2, 3}, 12);
  refused({2}, 0);
  refused({2, 3, 5, 5}, 24);
  refused({-2, 3, 5}, 12);
  refused({std::int64_t{1} << 31, std::int64_t{1} << 31, 5}, 12);
  StateWriter writer;
  const std::vector<std::int64_t> ids = {2, 3, 0};
  writer.put("sent samples", 1, std::as_bytes(std::span(ids)));
  const std::vector<std::byte> state = writer.finish();
  StateReader reader(state);
  EXPECT_THROW(make_codec("group+delta").codec->as<State>()->load_state(reader), CorruptData) << "numbers without values";
}

TEST(Delta, TheFileIsMemoryOfAnotherKind) {
  Ends memory("group+delta"), file("group+delta:where=file");
  for (std::int64_t step = 0; step < 6; ++step) {
    const Floats x = tensor(2, static_cast<std::uint64_t>(step));
    EXPECT_EQ(memory.send(x, {step % 3, 5}, step), file.send(x, {step % 3, 5}, step));
  }
  EXPECT_EQ(remembered(memory.sender, "sent"), remembered(file.sender, "sent"));
}

TEST(Delta, IntegersKeepEachChannelToHalfAStep) {
  for (const auto& [store, most] : {std::pair{"int8", 127.0f}, std::pair{"int4", 7.0f}}) {
    Ends ends(std::string("cast:to=bf16+delta:store=") + store);
    Floats x = tensor(1, 3);
    for (std::int64_t r = 0; r < tokens; ++r) x[static_cast<std::size_t>(r * width)] *= 100;  // a channel of outliers
    ends.send(x, {1}, 0);
    // A change of exactly what is missing shows what is remembered: zero arrives as m + C(0 - m).
    const auto values = remembered(ends.sender, "sent").at(1);
    std::vector<float> steps(width);
    std::memcpy(steps.data(), values.data(), sizeof(float) * width);
    for (std::int64_t c = 0; c < width; ++c) {
      float largest = 0;
      for (std::int64_t r = 0; r < tokens; ++r) largest = std::max(largest, std::abs(x[static_cast<std::size_t>(r * width + c)]));
      EXPECT_EQ(steps[static_cast<std::size_t>(c)], largest / most);
      for (std::int64_t r = 0; r < tokens; ++r) {
        const auto i = static_cast<std::size_t>(r * width + c);
        const auto byte = static_cast<std::uint8_t>(values[sizeof(float) * width + (most > 100 ? i : i / 2)]);
        const int code = most > 100 ? static_cast<std::int8_t>(byte) : (static_cast<int>(byte >> (i % 2 * 4) & 0xf) ^ 8) - 8;
        EXPECT_LE(std::abs(static_cast<float>(code) * steps[static_cast<std::size_t>(c)] - x[i]), 0.5001f * steps[static_cast<std::size_t>(c)]) << i;
      }
    }
  }
}

TEST(Delta, SteadyStateAllocatesNothing) {
  for (const char* store : {"f16", "int8"}) {
    Ends ends(std::string("group+delta:store=") + store);
    const Floats x = tensor(2, 1);
    const Ids ids = {1, 2};
    for (std::int64_t step = 0; step < 3; ++step) ends.send(x, ids, step);
    MessageKey key;
    key.tensor = hash_name("boundary");
    key.samples = ids;
    key.step = 4;
    const Shape shape{2 * tokens, width};
    std::vector<std::byte> payload(ends.sender.codec->max_payload_bytes(shape));
    Floats out(x.size());
    const long before = testing::allocations;
    const std::size_t bytes = ends.sender.codec->encode(ConstTensorView(x.data(), shape), key, payload);
    ends.receiver.codec->decode(std::span(payload).first(bytes), key, TensorView(out.data(), shape));
    EXPECT_EQ(testing::allocations, before) << store;
  }
}

}  // namespace
}  // namespace thinwire
