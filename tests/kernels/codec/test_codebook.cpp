// labels: unit
// Code books of bin means against the vectors of docs/papers/low_communication.md, "Worked examples", and their laws.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "support/codec_rounds.h"
#include "support/damaged_payloads.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using Sent = testing::SentPayload;

Sent send(const std::string& expression, const std::vector<float>& x, Shape shape, Form form = Form::fair) { return testing::send_payload(expression, x, shape, 0, form); }
Sent send(const std::string& expression, const std::vector<float>& x, Form form = Form::fair) { return send(expression, x, Shape{1, static_cast<std::int64_t>(x.size())}, form); }
std::vector<int> after(const std::vector<int>& bytes, std::size_t count) { return {bytes.begin() + static_cast<std::ptrdiff_t>(count), bytes.end()}; }

TEST(CodeBookVectors, FourBinsAsReleased) {
  const Sent first = send("codebook:bins=4", {-4, -1, 0, 1, 2, 2}, Form::released);
  EXPECT_EQ(after(first.bytes, 16), (std::vector<int>{0b01101010, 0b11110000}));  // codes 1 2 2 2 3 3
  EXPECT_EQ(first.decoded, (std::vector<float>{-4, 0, 0, 0, 2, 2}));
  const Sent second = send("codebook:bins=4", {-3, -2, -2, 2, 2, 3}, Form::released);
  EXPECT_EQ(after(second.bytes, 16), (std::vector<int>{0b01010111, 0b11110000}));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(second.decoded[i], i < 3 ? -7.0 / 3 : 7.0 / 3, 1e-6);
}

TEST(CodeBookVectors, Bins256AroundZeroAsReleased) {
  const Sent sent = send("codebook:bins=256,centre=zero", {1, 1.01f, -1, 0.5f, 0, 4, -4, 0.02f}, Form::released);
  EXPECT_EQ(after(sent.bytes, 1024), (std::vector<int>{147, 147, 109, 138, 128, 204, 52, 128}));
  const std::vector<float> wanted = {1.005f, 1.005f, -1, 0.5f, 0.01f, 4, -4, 0.01f};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(sent.decoded[i], wanted[i], 1e-6) << i;
}

TEST(CodeBookVectors, FairBinsLieAlikeOnBothSides) {
  // sigma 2.280351, bins of 3.420526: borders at -3.42, 0, 3.42; half to even puts the mean itself into the upper half.
  const Sent sent = send("codebook:bins=4", {-4, -1, 0, 1, 2, 2});
  EXPECT_EQ(after(sent.bytes, 16), (std::vector<int>{0b00011010, 0b10100000}));
  EXPECT_EQ(sent.decoded, (std::vector<float>{-4, -1, 1.25f, 1.25f, 1.25f, 1.25f}));
}

/// The formula in float64. Elements within 1e-4 of a border may fall on either side.
void expect_formula(const std::vector<float>& x, std::span<const int> codes, std::span<const float> decoded, int bins, bool centred, bool fair) {
  const double n = static_cast<double>(x.size());
  double mean = 0, spread = 0;
  for (const float v : x) mean += centred ? v / n : 0;
  for (const float v : x) spread += (v - mean) * (v - mean);
  const double width = 6 * std::sqrt(spread / std::max(1.0, n - 1)) / bins;
  std::map<int, std::pair<double, double>> of;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double y = (x[i] - mean) / width - (fair ? 0.5 : 0);
    const double q = std::clamp(std::nearbyint(y), -bins / 2.0, bins / 2.0 - 1) + bins / 2.0;
    if (std::fabs(y - std::floor(y) - 0.5) > 1e-4) {
      ASSERT_EQ(codes[i], static_cast<int>(q)) << i << ": " << x[i];
    }
    of[codes[i]].first += x[i], of[codes[i]].second += 1;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [sum, count] = of[codes[i]];
    ASSERT_EQ(decoded[i], static_cast<float>(sum / count)) << i << " is not its bin's mean";
  }
}

std::vector<int> codes_of(std::span<const int> bytes, std::size_t count, int bits) {
  std::vector<int> codes;
  for (std::size_t i = 0; i < count; ++i) codes.push_back(bytes[i * static_cast<std::size_t>(bits) / 8] >> (8 - bits - static_cast<int>(i * static_cast<std::size_t>(bits) % 8)) & ((1 << bits) - 1));
  return codes;
}

TEST(CodeBook, IsTheFormulaForEveryScopeAndSize) {
  for (const int bits : {2, 4, 8})
    for (const Shape& shape : {Shape{1, 2}, Shape{3, 31}, Shape{2, 1025}, Shape{5, 4099}, Shape{1, 70001}})
      for (const char* scope : {"tensor", "row"})
        for (const bool centred : {true, false})
          for (const Form form : {Form::fair, Form::released}) {
            std::vector<float> x = normal_numbers(static_cast<std::size_t>(shape.elements()), static_cast<std::uint64_t>(bits));
            for (float& v : x) v = 0.3f * v + 0.1f;
            const std::string expression = "codebook:bins=" + std::to_string(1 << bits) + ",scope=" + scope + ",centre=" + (centred ? "mean" : "zero");
            SCOPED_TRACE(expression + " " + shape.to_string() + " " + name_of(form));
            const Sent sent = send(expression, x, shape, form);
            const bool whole = std::string(scope) == "tensor";
            const std::size_t blocks = whole ? 1 : static_cast<std::size_t>(shape.rows()), each = x.size() / blocks;
            const std::size_t books = blocks * (std::size_t{4} << bits), row_bytes = (each * static_cast<std::size_t>(bits) + 7) / 8;
            ASSERT_EQ(sent.bytes.size(), books + blocks * row_bytes);
            for (std::size_t b = 0; b < blocks; ++b)
              expect_formula({x.begin() + static_cast<std::ptrdiff_t>(b * each), x.begin() + static_cast<std::ptrdiff_t>((b + 1) * each)},
                             codes_of(std::span(sent.bytes).subspan(books + b * row_bytes), each, bits), std::span(sent.decoded).subspan(b * each, each), 1 << bits, centred, form == Form::fair);
          }
}

TEST(CodeBook, AGroupIsARowOfItsOwn) {
  const std::vector<float> x = normal_numbers(3 * 320, 5);
  for (const char* bins : {"4", "16", "256"}) {
    const Sent groups = send(std::string("codebook:scope=group,group=128,bins=") + bins, x, Shape{3, 320});
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t from = 0; from < 320; from += 128) {
        const std::size_t count = std::min<std::size_t>(128, 320 - from), at = row * 320 + from;
        const std::vector<float> part(x.begin() + static_cast<std::ptrdiff_t>(at), x.begin() + static_cast<std::ptrdiff_t>(at + count));
        const Sent alone = send(std::string("codebook:bins=") + bins, part);
        EXPECT_TRUE(std::equal(alone.decoded.begin(), alone.decoded.end(), groups.decoded.begin() + static_cast<std::ptrdiff_t>(at)));
      }
  }
}

TEST(CodeBook, KeepsTheSumAndTheSign) {
  const std::vector<float> x = normal_numbers(20011, 6);
  std::vector<float> mirrored(x);
  for (float& v : mirrored) v = -v;
  for (const char* expression : {"codebook:bins=4", "codebook:bins=16,centre=zero", "codebook"}) {
    const Sent sent = send(expression, x), other = send(expression, mirrored);
    double before = 0, behind = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      before += x[i], behind += sent.decoded[i];
      ASSERT_EQ(other.decoded[i], -sent.decoded[i]) << expression << " " << i;
    }
    EXPECT_NEAR(before, behind, 1e-2) << expression;
  }
}

TEST(CodeBook, WhatHasNoSpreadComesBackAsItIs) {
  for (const char* expression : {"codebook:bins=4", "codebook:bins=16", "codebook", "codebook:scope=row"}) {
    for (const float v : {0.0f, 2.5f, -1e-40f, 3e38f}) {
      EXPECT_EQ(send(expression, std::vector<float>(1000, v)).decoded, std::vector<float>(1000, v)) << expression << " " << v;
      EXPECT_EQ(send(expression, {v}).decoded, std::vector<float>{v}) << expression;
    }
    for (const float big : {3.4e38f, 1e-45f, 1e-39f})
      for (const float v : send(expression, {big, -big, big / 2, 0, big / 7}).decoded) EXPECT_TRUE(std::isfinite(v) && std::fabs(v) <= big) << expression << " " << big;
  }
}

TEST(CodeBook, ThreadsAndInstructionSetsDoNotMatter) {
  const std::vector<float> x = normal_numbers(5 * 66001, 7);
  const int before = omp_get_max_threads();
  for (const char* expression : {"codebook:bins=4", "codebook:bins=16", "codebook", "codebook:bins=4,scope=row", "codebook:bins=16,scope=group,group=208"}) {
    omp_set_num_threads(1);
    const Sent one = send(expression, x, Shape{5, 66001});
    omp_set_num_threads(3);
    EXPECT_EQ(send(expression, x, Shape{5, 66001}).bytes, one.bytes) << expression;
    testing::on_every_simd_target([&] {
      const Sent other = send(expression, x, Shape{5, 66001});
      EXPECT_EQ(other.bytes, one.bytes) << expression;
      EXPECT_EQ(other.decoded, one.decoded) << expression;
    });
  }
  omp_set_num_threads(before);
}

TEST(CodeBook, DamageIsRefusedOrHarmless) {
  const std::vector<float> x = normal_numbers(7 * 93, 8);
  for (const char* expression : {"codebook:bins=4", "codebook:bins=16,scope=row", "codebook", "codebook:bins=4,scope=group,group=64"})
    testing::expect_damage_is_refused_or_harmless(expression, x, Shape{7, 93}, 20);
}

TEST(CodeBook, WhatCannotBeIsRefusedWhenRead) {
  EXPECT_THROW((void)make_codec("codebook:scope=group,group=72"), UsageError);
  EXPECT_THROW((void)make_codec("codebook:group=128"), UsageError);
  EXPECT_THROW((void)make_codec("codebook:bins=8"), UsageError);
}

}  // namespace
}  // namespace thinwire
