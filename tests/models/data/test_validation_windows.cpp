// labels: unit
// Every seed validates on the same windows and trains on its own; runs of another global batch may ask for the windows of one.
#include <gtest/gtest.h>

#include "models/data/batches.h"

namespace thinwire {
namespace {

TEST(ValidationWindows, AreTheSameUnderEverySeedAndThoseOfTrainingAreNot) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += static_cast<char>('a' + i * i % 23);
  const Corpus corpus = Corpus::from_text(text, "windows");
  const DataSource one = text_data(corpus, 1), seven = text_data(corpus, 7);
  for (std::uint64_t round = 0; round < 3; ++round) {
    const Batch a = one.validation->batch(round, 0, 16, 32), b = seven.validation->batch(round, 0, 16, 32);
    EXPECT_EQ(a.sample_ids, b.sample_ids);
    EXPECT_EQ(a.ints("tokens"), b.ints("tokens"));
    EXPECT_EQ(a.ints("targets"), b.ints("targets"));
    EXPECT_NE(one.training->batch(round, 0, 16, 32).sample_ids, seven.training->batch(round, 0, 16, 32).sample_ids);
  }
  EXPECT_NE(one.validation->batch(0, 0, 16, 32).sample_ids, one.validation->batch(1, 0, 16, 32).sample_ids);
}

TEST(ValidationWindows, ThoseOfAnotherGlobalBatchAreTheSameInTheSameOrder) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += static_cast<char>('a' + i * i % 23);
  const Corpus corpus = Corpus::from_text(text, "windows");
  constexpr std::int64_t wanted = 16, windows = 48, seq = 32;
  Batch all(windows, seq);
  for (std::uint64_t round = 0; round < windows / wanted; ++round) {
    const Batch one = text_data(corpus, 1).validation->batch(round, 0, wanted, seq);
    all.sample_ids.insert(all.sample_ids.end(), one.sample_ids.begin(), one.sample_ids.end());
    all.ints("tokens").insert(all.ints("tokens").end(), one.ints("tokens").begin(), one.ints("tokens").end());
    all.ints("targets").insert(all.ints("targets").end(), one.ints("targets").begin(), one.ints("targets").end());
  }
  for (const std::int64_t own : {2, 4, 12, 24, 48}) {
    const OtherRounds other(text_data(corpus, 3).validation, own, wanted);
    Batch seen(windows, seq);
    for (std::int64_t round = 0; round < windows / own; ++round)
      for (std::int64_t first = 0; first < own; first += own / 2) {  // as two micro-batches
        const Batch one = other.batch(static_cast<std::uint64_t>(round), first, own / 2, seq);
        EXPECT_EQ(one.first_sample, first);
        EXPECT_EQ(one.weight, static_cast<double>(own / 2 * seq));
        seen.sample_ids.insert(seen.sample_ids.end(), one.sample_ids.begin(), one.sample_ids.end());
        seen.ints("tokens").insert(seen.ints("tokens").end(), one.ints("tokens").begin(), one.ints("tokens").end());
        seen.ints("targets").insert(seen.ints("targets").end(), one.ints("targets").begin(), one.ints("targets").end());
      }
    EXPECT_EQ(seen.sample_ids, all.sample_ids) << own;
    EXPECT_EQ(seen.ints("tokens"), all.ints("tokens")) << own;
    EXPECT_EQ(seen.ints("targets"), all.ints("targets")) << own;
  }
  EXPECT_NE(text_data(corpus, 1).validation->batch(1, 0, 4, seq).sample_ids, (std::vector<std::int64_t>{all.sample_ids.begin() + 4, all.sample_ids.begin() + 8})) << "without asking they are others";
}

}  // namespace
}  // namespace thinwire
