// labels: unit
// Learning a vocabulary: against a slow one that recounts everything at every step, and the properties that its users rely on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/error.h"
#include "models/data/text/learn_vocabulary.h"
#include "models/data/text/wordpiece.h"
#include "support/temporary_folder.h"

namespace thinwire::text {
namespace {

using Pieces = std::vector<std::string>;

/// The rule word by word: recount all pairs, join the most frequent (the least among equals), until there are enough. ASCII only.
Pieces learnt_slowly(const WordCounts& counts, const LearningOptions& options) {
  Pieces pieces(std::begin(special_pieces), std::end(special_pieces));
  std::map<std::string, int> first, next;
  std::vector<std::pair<Pieces, std::int64_t>> texts;
  for (const auto& [word, count] : counts) {
    Pieces cut;
    for (const char c : word) {
      cut.push_back((cut.empty() ? "" : "##") + std::string(1, c));
      first[std::string(1, c)];
      if (word.size() > 1) next["##" + std::string(1, c)];
    }
    texts.emplace_back(cut, count);
  }
  for (const auto& [piece, unused] : first) pieces.push_back(piece);
  for (const auto& [piece, unused] : next) pieces.push_back(piece);
  while (static_cast<std::int64_t>(pieces.size()) < options.size) {
    std::map<std::pair<std::string, std::string>, std::int64_t> pairs;
    for (const auto& [cut, count] : texts)
      for (std::size_t i = 1; i < cut.size(); ++i) pairs[{cut[i - 1], cut[i]}] += count;
    const auto best = std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < options.least_count) break;
    const auto [left, right] = best->first;
    const std::string joined = left + right.substr(2);
    if (std::find(pieces.begin(), pieces.end(), joined) == pieces.end()) pieces.push_back(joined);
    for (auto& [cut, count] : texts)
      for (std::size_t i = 1; i < cut.size(); ++i)
        if (cut[i - 1] == left && cut[i] == right) {
          cut[i - 1] = joined;
          cut.erase(cut.begin() + static_cast<std::ptrdiff_t>(i));
        }
  }
  return pieces;
}

WordCounts drawn_words(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  WordCounts counts;
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (std::uint64_t n = 1 + random() % 9; n > 0; --n) word += static_cast<char>('a' + random() % 3);
    counts[word] += static_cast<std::int64_t>(1 + random() % 5);
  }
  return counts;
}

}  // namespace

TEST(LearnVocabulary, JoinsAsASlowLearnerDoes) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const std::int64_t size : {11, 20, 60, 400}) {
      LearningOptions options;
      options.size = size;
      EXPECT_EQ(learn_vocabulary(drawn_words(seed), options), learnt_slowly(drawn_words(seed), options)) << "seed " << seed << ", size " << size;
    }
}

TEST(LearnVocabulary, JoinsTheMostFrequentPairFirst) {
  WordCounts counts{{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};  // Sennrich et al. 2016, figure 1: es, est, lo, low
  LearningOptions options;
  options.size = 5 + 10 + 10 + 4;
  const Pieces pieces = learn_vocabulary(counts, options);
  EXPECT_EQ(Pieces(pieces.end() - 4, pieces.end()), (Pieces{"##es", "##est", "##ow", "low"})) << "lo and ow are equally frequent: ##o, ##w sorts first";
}

TEST(LearnVocabulary, EveryWordOfTheTextIsKnown) {
  const WordCounts counts = drawn_words(3);
  LearningOptions options;
  options.size = 80;
  const WordPiece wordpiece(Vocabulary(learn_vocabulary(counts, options), "learnt"));
  for (const auto& [word, count] : counts) {
    const auto ids = wordpiece.encode(word);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), wordpiece.vocabulary().unknown()), 0) << word;
  }
}

TEST(LearnVocabulary, RareCharactersAreLeftOutWithTheirWords) {
  LearningOptions options;
  options.most_characters = 2;
  const Pieces pieces = learn_vocabulary({{"ab", 9}, {"abc", 2}, {"c", 1}}, options);
  EXPECT_EQ(Pieces(pieces.begin() + 5, pieces.end()), (Pieces{"a", "b", "##a", "##b", "ab"}));
}

TEST(LearnVocabulary, WhatStandsAloneNeverGoesOnWithAWord) {
  WordCounts counts;
  count_words("a. \xE4\xB8\xAD\nb!", Case::dropped, counts);
  const Pieces pieces = learn_vocabulary(counts, {});
  EXPECT_EQ(Pieces(pieces.begin() + 5, pieces.end()), (Pieces{"!", ".", "a", "b", "\xE4\xB8\xAD"}));
}

TEST(LearnVocabulary, CountsWordsOfAllLines) {
  WordCounts counts;
  count_words("The end.\nthe\n\nEND", Case::dropped, counts);
  EXPECT_EQ(counts, (WordCounts{{"the", 2}, {"end", 2}, {".", 1}}));
  counts.clear();
  count_words("The the", Case::kept, counts);
  EXPECT_EQ(counts, (WordCounts{{"The", 1}, {"the", 1}}));
}

TEST(LearnVocabulary, RefusesWhatCannotBe) {
  using testing::message_of;
  LearningOptions options;
  EXPECT_NE(message_of<UsageError>([&] { learn_vocabulary({}, options); }).find("no word"), std::string::npos);
  options.size = 10;
  EXPECT_NE(message_of<UsageError>([&] { learn_vocabulary({{"abc", 1}}, options); }).find("at least 11"), std::string::npos);
}

}  // namespace thinwire::text
