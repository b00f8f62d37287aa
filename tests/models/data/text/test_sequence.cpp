// labels: unit
// Texts between [CLS] and [SEP]: segments, and what is cut when they are too long.
#include <gtest/gtest.h>

#include "models/data/text/sequence.h"

namespace thinwire::text {
namespace {

using Ids = std::vector<Vocabulary::Id>;
const Vocabulary vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, "here");

}  // namespace

TEST(Sequence, OneTextStandsBetweenItsMarks) {
  const Sequence whole = sequence_of(vocabulary, Ids{7, 8, 9}, 5);
  EXPECT_EQ(whole.ids, (Ids{2, 7, 8, 9, 3}));
  EXPECT_EQ(whole.segments, (std::vector<std::int32_t>(5, 0)));
  EXPECT_EQ(sequence_of(vocabulary, Ids{7, 8, 9}, 4).ids, (Ids{2, 7, 8, 3}));
  EXPECT_EQ(sequence_of(vocabulary, Ids{}, 4).ids, (Ids{2, 3}));
}

TEST(Sequence, TheSecondTextIsOfSegmentOne) {
  const Sequence pair = sequence_of(vocabulary, Ids{7}, Ids{8, 9}, 10);
  EXPECT_EQ(pair.ids, (Ids{2, 7, 3, 8, 9, 3}));
  EXPECT_EQ(pair.segments, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
}

TEST(Sequence, TheLongerTextIsCutFirstThenTheSecond) {
  EXPECT_EQ(sequence_of(vocabulary, Ids{10, 11, 12, 13}, Ids{20, 21}, 7).ids, (Ids{2, 10, 11, 3, 20, 21, 3}));
  EXPECT_EQ(sequence_of(vocabulary, Ids{10, 11}, Ids{20, 21}, 6).ids, (Ids{2, 10, 11, 3, 20, 3}));
  EXPECT_EQ(sequence_of(vocabulary, Ids{10, 11}, Ids{20, 21, 22}, 3).ids, (Ids{2, 3, 3}));
}

}  // namespace thinwire::text
