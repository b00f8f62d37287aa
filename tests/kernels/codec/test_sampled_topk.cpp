// labels: unit
// Top-K by a sampled threshold: what docs/papers/gradient_compression.md, "Deep gradient compression", says, on tensors that make it take each of its ways.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <set>

#include "support/codec_rounds.h"
#include "support/damaged_payloads.h"
#include "support/reference_codecs.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using Sent = testing::SentPayload;
Sent send(const std::string& expression, const std::vector<float>& x, std::int64_t step = 0, Form form = Form::fair) {
  return testing::send_payload(expression, x, Shape{1, static_cast<std::int64_t>(x.size())}, step, form);
}

/// Positions that came back, ascending; no element may be lost among them.
std::vector<std::size_t> kept_of(const Sent& sent) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < sent.decoded.size(); ++i)
    if (sent.decoded[i] != 0) kept.push_back(i);
  return kept;
}
std::int64_t count_of(const Sent& sent) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < 8; ++i) count |= static_cast<std::int64_t>(sent.bytes[i]) << (8 * i);
  return count;
}

TEST(SampledTopK, KeepsTheLargestBetween80PercentAndTheTarget) {
  const std::vector<float> x = normal_numbers(200003, 1);
  std::set<std::size_t> counts;
  for (std::int64_t step = 0; step < 20; ++step) {
    const Sent sent = send("sampled_topk:fraction=0.01,values=f32", x, step);
    const auto kept = kept_of(sent);
    EXPECT_EQ(count_of(sent), static_cast<std::int64_t>(kept.size()));
    EXPECT_GE(kept.size(), 1600u) << step;
    EXPECT_LE(kept.size(), 2000u) << step;
    EXPECT_EQ(kept, reference::top_positions(x, kept.size())) << step;
    for (const std::size_t i : kept) ASSERT_EQ(sent.decoded[i], x[i]);
    counts.insert(kept.size());
  }
  EXPECT_GT(counts.size(), 1u) << "another message, another sample";
  EXPECT_EQ(send("sampled_topk", x, 3).bytes, send("sampled_topk", x, 3).bytes);
}

TEST(SampledTopK, AWholeSampleIsExact) {
  const std::vector<float> x = normal_numbers(50021, 2);
  EXPECT_EQ(send("sampled_topk:fraction=0.01,sample=1", x).decoded, send("topk:fraction=0.01", x).decoded);
  for (const std::size_t size : {1, 2, 3, 17, 100}) {
    const std::vector<float> small(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(kept_of(send("sampled_topk:fraction=0.3,sample=1", small)), kept_of(send("topk:fraction=0.3", small))) << size;
  }
}

TEST(SampledTopK, TooHighAThresholdIsLowered) {
  // Of each 99 elements the first 33 are large: a sample of one in 99 sees these alone, or none.
  std::vector<float> x = normal_numbers(99 * 1000, 3);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i % 99 < 33) x[i] = std::copysign(3 + std::fabs(x[i]), x[i]);
  for (std::int64_t step = 0; step < 20; ++step) {
    const auto kept = kept_of(send("sampled_topk:fraction=0.02,values=f32", x, step));
    ASSERT_LE(kept.size(), 1980u);
    ASSERT_GE(kept.size(), 1584u) << step;
    ASSERT_EQ(kept, reference::top_positions(x, kept.size())) << step;
  }
}

TEST(SampledTopK, EqualElementsAreKeptInOrder) {
  for (const float v : {0.0f, 2.0f, -1e-41f}) {
    const Sent sent = send("sampled_topk:fraction=0.1,values=f32", std::vector<float>(10000, v));
    EXPECT_EQ(count_of(sent), 1000);
    for (std::size_t i = 0; i < 10000; ++i) ASSERT_EQ(sent.decoded[i], i < 1000 ? v : 0) << i;
  }
}

TEST(SampledTopK, ReleasedCutsOffTheEnd) {
  const std::vector<float> x = normal_numbers(300007, 4);
  int cut = 0;
  for (std::int64_t step = 0; step < 20; ++step) {
    const Sent sent = send("sampled_topk:fraction=0.01,values=f32", x, step, Form::released);
    const auto kept = kept_of(sent);
    ASSERT_LE(kept.size(), 3000u);
    float least = INFINITY;
    for (const std::size_t i : kept) least = std::min(least, std::fabs(x[i]));
    std::vector<std::size_t> reach;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (std::fabs(x[i]) >= least) reach.push_back(i);
    ASSERT_GE(reach.size(), kept.size());
    reach.resize(kept.size());
    EXPECT_EQ(kept, reach) << "the first in order";
    cut += kept.size() == 3000 && kept != reference::top_positions(x, 3000) ? 1 : 0;
  }
  EXPECT_GT(cut, 0) << "no message had a few too many";
}

// The authors' 0.316, 0.1, 0.0316, 0.01, 0.00316 of five stages, then 0.001.
TEST(SampledTopK, DensityFallsWhileTrainingWarmsUp) {
  const std::vector<float> x = normal_numbers(100003, 8);
  const std::vector<std::int64_t> targets = {31624, 10000, 3162, 1000, 316, 100};
  for (std::int64_t step = 0; step < 24; ++step) {
    const Sent sent = send("sampled_topk:ramp_steps=20,values=f32,sample=1", x, step);
    EXPECT_EQ(count_of(sent), targets[static_cast<std::size_t>(std::min<std::int64_t>(5, step / 4))]) << step;
  }
  EXPECT_EQ(send("sampled_topk:ramp_steps=20", x, 20).bytes, send("sampled_topk", x, 20).bytes);
  // A validation goes by the steps behind it: the number of its round says nothing.
  const Shape shape{1, static_cast<std::int64_t>(x.size())};
  for (const std::int64_t trained : {0, 9, 5000}) {
    MessageKey key;
    key.tensor = hash_name("payload");
    key.pass = Pass::evaluate, key.trained_steps = trained;
    CodecStack stack = make_codec("sampled_topk:ramp_steps=20,values=f32,sample=1");
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload));
    EXPECT_EQ(payload.size(), send("sampled_topk:ramp_steps=20,values=f32,sample=1", x, trained).bytes.size()) << trained;
    std::vector<float> back(x.size());
    EXPECT_NO_THROW(stack.codec->decode(payload, key, TensorView(back.data(), shape)));
  }
  EXPECT_EQ(count_of(send("sampled_topk:fraction=0.25,ramp_steps=2,ramp_stages=1,values=f32,sample=1", x, 1)), 50002) << "half, the root of a quarter";
  testing::expect_damage_is_refused_or_harmless("sampled_topk:fraction=0.02,ramp_steps=20", std::vector<float>(x.begin(), x.begin() + 5000), Shape{50, 100}, 7);
}

TEST(SampledTopK, ThreadsAndInstructionSetsDoNotMatter) {
  const std::vector<float> x = normal_numbers(700001, 5);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const Sent one = send("sampled_topk", x);
  omp_set_num_threads(3);
  testing::on_every_simd_target([&] { EXPECT_EQ(send("sampled_topk", x).bytes, one.bytes); });
  omp_set_num_threads(before);
}

TEST(SampledTopK, DamageIsRefusedOrHarmless) {
  const std::vector<float> x = normal_numbers(5000, 6);
  for (const char* index : {"compact", "int32", "int64"}) testing::expect_damage_is_refused_or_harmless(std::string("sampled_topk:fraction=0.02,index=") + index, x, Shape{50, 100}, 7);
}

}  // namespace
}  // namespace thinwire
