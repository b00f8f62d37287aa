// labels: unit
// Every seed validates on the same windows and trains on its own.
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

}  // namespace
}  // namespace thinwire
