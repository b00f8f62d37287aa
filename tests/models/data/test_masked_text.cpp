// labels: unit
// Masked pairs of segments: their form, the shares of what is masked, and that a batch's weight is known without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/random.h"
#include "models/data/masked_text.h"
#include "support/temporary_folder.h"

namespace thinwire {
namespace {

/// Bytes 0 .. 199 in turn: every window says where it is from.
std::vector<std::uint8_t> counting(std::size_t bytes) {
  std::vector<std::uint8_t> text(bytes);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::uint8_t>(i % 200);
  return text;
}

const std::vector<std::uint8_t> text = counting(5000);

MaskedText data(double rate = 0.15, double shorter = 0.1) { return {text, 3, "masked.training", {rate, shorter}, 64}; }

TEST(MaskedText, IsTwoNeighbouringSegmentsBetweenSpecialTokens) {
  const Batch batch = data().batch(0, 0, 200, 24);
  std::int64_t exchanged = 0, shorter = 0;
  for (std::int64_t b = 0; b < 200; ++b) {
    const std::int64_t length = batch.lengths[static_cast<std::size_t>(b)];
    shorter += length < 24;
    ASSERT_GE(length, 8);
    std::vector<std::int32_t> tokens, types;
    for (std::int64_t t = 0; t < 24; ++t) {
      const auto at = static_cast<std::size_t>(b * 24 + t);
      const std::int32_t asked = batch.ints("masked_labels")[at];
      tokens.push_back(asked == -1 ? batch.ints("tokens")[at] : asked);
      types.push_back(batch.ints("types")[at]);
      if (t >= length) {
        EXPECT_EQ(asked, -1);
        EXPECT_EQ(tokens.back(), 0);
      }
    }
    EXPECT_EQ(tokens[0], masked_text_class);
    EXPECT_EQ(tokens[static_cast<std::size_t>(length - 1)], masked_text_separator);
    const auto middle = std::find(tokens.begin(), tokens.end(), masked_text_separator) - tokens.begin();
    ASSERT_LT(middle, length - 2);
    for (std::int64_t t = 0; t < 24; ++t) EXPECT_EQ(types[static_cast<std::size_t>(t)], t > middle && t < length ? 1 : 0) << b << " " << t;
    std::vector<std::int32_t> a(tokens.begin() + 1, tokens.begin() + middle), c(tokens.begin() + middle + 1, tokens.begin() + length - 1);
    const bool swapped = batch.ints("labels")[static_cast<std::size_t>(b)] == 1;
    exchanged += swapped;
    if (swapped) a.swap(c);
    a.insert(a.end(), c.begin(), c.end());
    for (std::size_t i = 1; i < a.size(); ++i) EXPECT_EQ(a[i], (a[i - 1] + 1) % 200) << b;
  }
  // 200 samples: five deviations of a half and of a tenth.
  EXPECT_NEAR(exchanged, 100, 36);
  EXPECT_NEAR(shorter, 20, 22);
  EXPECT_GT(shorter, 0);
}

TEST(MaskedText, MasksAsBertDoes) {
  std::int64_t asked = 0, content = 0, masked = 0, kept = 0, other = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Batch batch = data().batch(step, 0, 32, 64);
    for (const std::int32_t length : batch.lengths) content += length - 3;
    const auto &labels = batch.ints("masked_labels"), &tokens = batch.ints("tokens");
    std::int64_t here = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == -1) continue;
      ++here;
      EXPECT_LT(labels[i], byte_vocabulary) << "special tokens are not asked";
      masked += tokens[i] == masked_text_mask, kept += tokens[i] == labels[i];
      other += tokens[i] != masked_text_mask && tokens[i] != labels[i];
    }
    EXPECT_EQ(static_cast<double>(here), batch.weight);
    asked += here;
  }
  EXPECT_NEAR(static_cast<double>(asked) / static_cast<double>(content), 0.15, 0.01);
  const auto n = static_cast<double>(asked);
  EXPECT_NEAR(static_cast<double>(masked), 0.8 * n, 5 * std::sqrt(0.16 * n));
  EXPECT_NEAR(static_cast<double>(kept), 0.1 * n, 5 * std::sqrt(0.1 * n));
  EXPECT_NEAR(static_cast<double>(other), 0.1 * n, 5 * std::sqrt(0.1 * n));
}

TEST(MaskedText, EverySplitOfABatchSeesTheSameSamplesAndWeighsTheSame) {
  const MaskedText samples = data(0.3, 0.5);
  const Batch whole = samples.batch(5, 0, 8, 20);
  EXPECT_EQ(samples.weight(5, 8, 20), whole.weight);
  std::vector<std::int32_t> tokens, labels, lengths;
  double weight = 0;
  for (const std::int64_t first : {0, 3, 6}) {
    const Batch part = samples.batch(5, first, std::min<std::int64_t>(3, 8 - first), 20);
    tokens.insert(tokens.end(), part.ints("tokens").begin(), part.ints("tokens").end());
    labels.insert(labels.end(), part.ints("masked_labels").begin(), part.ints("masked_labels").end());
    lengths.insert(lengths.end(), part.lengths.begin(), part.lengths.end());
    weight += part.weight;
  }
  EXPECT_EQ(tokens, whole.ints("tokens"));
  EXPECT_EQ(labels, whole.ints("masked_labels"));
  EXPECT_EQ(lengths, whole.lengths);
  EXPECT_EQ(weight, whole.weight);
  EXPECT_NE(samples.batch(6, 0, 8, 20).ints("tokens"), tokens);
}

TEST(MaskedText, RefusesWhatHasNoRoom) {
  EXPECT_THROW(data().batch(0, 0, 1, 7), UsageError);
  EXPECT_THROW(data().batch(0, 0, 1, 6000), UsageError);
  EXPECT_THROW(open_data("masked_text:rate=0", "", 1, 1), UsageError);
  EXPECT_THROW(open_data("masked_text:shorter=1.5", "", 1, 1), UsageError);
  EXPECT_THROW(open_data("masked_text:share=0.1", "", 1, 1), UsageError);
  EXPECT_THROW(open_data("masked_text:pairs=both", "", 1, 1), UsageError);
  EXPECT_THROW(open_data("masked_text:within=100", "", 1, 1), UsageError) << "of neighbours";
}

// Ids of pieces: neighbours in the text, special tokens of the vocabulary, random ones below its size.
TEST(MaskedPieces, AreTheSamePairsInAnotherAlphabet) {
  std::vector<std::int32_t> ids(3000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 100 + static_cast<std::int32_t>(i % 900);
  const MaskedTokens special{2, 3, 4, 0, 1000};
  const MaskedPieces samples(ids, 3, "masked.training", {0.3, 0.5}, 64, special);
  const Batch batch = samples.batch(1, 0, 64, 40);
  std::int64_t masked = 0, asked = 0;
  for (std::int64_t b = 0; b < 64; ++b) {
    const std::int64_t length = batch.lengths[static_cast<std::size_t>(b)];
    std::vector<std::int32_t> row, a, c;
    for (std::int64_t t = 0; t < 40; ++t) {
      const auto at = static_cast<std::size_t>(b * 40 + t);
      const std::int32_t token = batch.ints("tokens")[at], wanted = batch.ints("masked_labels")[at];
      masked += wanted != -1 && token == special.mask, asked += wanted != -1;
      if (wanted != -1) {
        EXPECT_TRUE(token == special.mask || (token >= 0 && token < 1000));
      }
      if (t >= length) {
        EXPECT_EQ(token, special.padding);
      }
      row.push_back(wanted == -1 ? token : wanted);
    }
    EXPECT_EQ(row[0], special.class_token);
    EXPECT_EQ(row[static_cast<std::size_t>(length - 1)], special.separator);
    const auto middle = std::find(row.begin(), row.end(), special.separator);
    a.assign(row.begin() + 1, middle), c.assign(middle + 1, row.begin() + length - 1);
    if (batch.ints("labels")[static_cast<std::size_t>(b)] == 1) a.swap(c);
    a.insert(a.end(), c.begin(), c.end());
    for (std::size_t i = 1; i < a.size(); ++i) EXPECT_EQ(a[i], 100 + (a[i - 1] - 99) % 900) << b;
  }
  EXPECT_EQ(static_cast<double>(asked), batch.weight);
  EXPECT_EQ(samples.weight(1, 64, 40), batch.weight);
  const auto n = static_cast<double>(asked);
  EXPECT_NEAR(static_cast<double>(masked), 0.8 * n, 5 * std::sqrt(0.16 * n));
}

// Of a text in which every id stands once: where each segment is from can be read off it.
TEST(MaskedPieces, FollowEachOtherOrAreFromAnywhereElse) {
  struct Case {
    std::int64_t size, within;
  };
  for (const auto& [size, within] : {Case{40, 0}, Case{3000, 0}, Case{3000, 100}}) {  // 40: no longer than a sequence
    std::vector<std::int32_t> ids(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 100 + static_cast<std::int32_t>(i);
    const MaskedTokens special{2, 3, 4, 0, 100 + size};
    const MaskedPieces samples(ids, 3, "masked.training", {.pairs = PairQuestion::next, .within = within}, 64, special);
    constexpr std::int64_t count = 400, seq = 40;
    const Batch batch = samples.batch(1, 0, count, seq);
    EXPECT_EQ(samples.weight(1, count, seq), batch.weight);
    std::int64_t others = 0, in_first_half = 0, farthest = 0, nearest = size;
    for (std::int64_t b = 0; b < count; ++b) {
      std::vector<std::int32_t> row;
      for (std::int64_t t = 0; t < batch.lengths[static_cast<std::size_t>(b)]; ++t) {
        const auto at = static_cast<std::size_t>(b * seq + t);
        row.push_back(batch.ints("masked_labels")[at] == -1 ? batch.ints("tokens")[at] : batch.ints("masked_labels")[at]);
      }
      const auto middle = std::find(row.begin(), row.end(), special.separator);
      const std::vector<std::int32_t> first(row.begin() + 1, middle), second(middle + 1, row.end() - 1);
      for (const auto& segment : {first, second}) {
        ASSERT_FALSE(segment.empty());
        for (std::size_t i = 1; i < segment.size(); ++i) EXPECT_EQ(segment[i], segment[i - 1] + 1) << b;
        EXPECT_GE(segment.front(), 100);
        EXPECT_LT(segment.back(), 100 + size);
      }
      const bool other = batch.ints("labels")[static_cast<std::size_t>(b)] == 1;
      others += other, in_first_half += other && second.front() < 100 + size / 2;
      EXPECT_EQ(second.front() != first.back() + 1, other) << b;
      const std::int64_t away = std::abs(second.front() - first.back() - 1);
      farthest = std::max(farthest, away), nearest = std::min(nearest, other ? away : nearest);
    }
    EXPECT_NEAR(others, 200, 50) << "five deviations";
    if (size == 3000) {
      EXPECT_NEAR(in_first_half, others / 2, 40);
    }
    if (within > 0) {
      EXPECT_LE(farthest, within);
      EXPECT_GT(farthest, within / 2);
      EXPECT_LT(nearest, within / 10);
    } else {
      EXPECT_GT(farthest, size / 2);
    }
  }
}

TEST(MaskedPieces, AreOpenedWithAVocabularyAndKnownByIt) {
  const testing::TemporaryFolder folder;
  std::string words;
  for (int i = 0; i < 400; ++i) words += i % 3 == 0 ? "cat runs\n" : "a dog is here\n";
  std::ofstream(folder.path() + "/text.txt") << words;
  const auto vocabulary = [&](const std::string& name, const std::string& more) {
    std::ofstream(folder.path() + "/" + name) << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\nruns\na\ndog\nis\n" << more;
    return folder.path() + "/" + name;
  };
  const std::string path = folder.path() + "/text.txt", small = vocabulary("small.txt", ""), large = vocabulary("large.txt", "here\n");
  const DataSource source = open_data("masked_text:tokens=pieces", path, 1, 8, large);
  EXPECT_EQ(source.vocabulary, 11);
  const Batch batch = source.training->batch(0, 0, 8, 16);
  for (const std::int32_t token : batch.ints("tokens")) EXPECT_TRUE(token >= 0 && token < 11) << token;
  EXPECT_TRUE(std::ranges::count(batch.ints("tokens"), 4) > 0) << "no mask";
  EXPECT_NE(source.hash, open_data("masked_text:tokens=pieces", path, 1, 8, small).hash);
  EXPECT_NE(source.hash, open_data("masked_text:tokens=pieces,case=kept", path, 1, 8, large).hash);
  EXPECT_NE(source.hash, open_data("masked_text", path, 1, 8, large).hash);
  EXPECT_THROW(open_data("masked_text:tokens=pieces", path, 1, 8), UsageError);
  // A vocabulary without [MASK] cannot hide anything.
  std::ofstream(folder.path() + "/none.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\ncat\n";
  try {
    open_data("masked_text:tokens=pieces", path, 1, 8, folder.path() + "/none.txt");
    ADD_FAILURE() << "a vocabulary without [MASK]";
  } catch (const CorruptData& error) {
    EXPECT_NE(std::string(error.what()).find("none.txt:6:1: the vocabulary ends without the piece [MASK]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace thinwire
