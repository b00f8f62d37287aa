// labels: unit
// vocab.txt: ids by line, and one clear error, with file, line and column, for each way in which it can be wrong.
#include <gtest/gtest.h>

#include "core/error.h"
#include "models/data/text/vocabulary.h"
#include "support/temporary_folder.h"

namespace thinwire::text {
namespace {

using testing::message_of;
const std::string sound = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n";

struct VocabularyFile : ::testing::Test {
  testing::TemporaryFolder folder;
  /// The error of reading this content, without the folder.
  std::string refusal(const std::string& content) {
    const std::string path = folder.write("vocab.txt", content);
    const std::string said = message_of<CorruptData>([&] { Vocabulary::read(path); });
    return said.starts_with(path) ? said.substr(path.size()) : "no file in: " + said;
  }
};

}  // namespace

TEST_F(VocabularyFile, IdsAreNumbersOfLines) {
  for (const std::string& content : {sound, sound.substr(0, sound.size() - 1)}) {
    const Vocabulary read = Vocabulary::read(folder.write("vocab.txt", content));
    EXPECT_EQ(read.size(), 7);
    EXPECT_EQ(read.mask(), 4);
    EXPECT_EQ(read.first("the"), 5);
    EXPECT_EQ(read.next("s"), 6);
    EXPECT_EQ(read.next("the"), std::nullopt);
    EXPECT_EQ(read.piece(6), "##s");
  }
}

TEST_F(VocabularyFile, SpecialPiecesMayStandAnywhere) {
  const Vocabulary read = Vocabulary::read(folder.write("vocab.txt", "a\r\n[MASK]\r\n[SEP]\r\n[CLS]\r\n[UNK]\r\n[PAD]\r\n"));
  EXPECT_EQ(read.pad(), 5);
  EXPECT_EQ(read.unknown(), 4);
  EXPECT_EQ(read.begin(), 3);
  EXPECT_EQ(read.separator(), 2);
  EXPECT_EQ(read.mask(), 1);
}

TEST_F(VocabularyFile, WhatIsWrittenIsReadBack) {
  const Vocabulary read = Vocabulary::read(folder.write("vocab.txt", sound));
  read.write(folder / "again.txt");
  EXPECT_EQ(folder.read(folder / "again.txt"), sound);
  EXPECT_EQ(Vocabulary::read(folder / "again.txt").hash(), read.hash());
}

TEST_F(VocabularyFile, NamesFileLineAndColumnOfWhatIsWrong) {
  EXPECT_TRUE(refusal("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n").starts_with(":6:1: the vocabulary ends without the piece [MASK]"));
  EXPECT_TRUE(refusal("").starts_with(":1:1: the vocabulary ends without the piece [PAD]"));
  EXPECT_TRUE(refusal(sound + "\nof\n").starts_with(":8:1: an empty line"));
  EXPECT_TRUE(refusal(sound + "of\nthe\n").starts_with(":9:1: the piece 'the' has line 6 already"));
  EXPECT_TRUE(refusal(sound + "caf\xE9\n").starts_with(":8:4: this byte is no UTF-8"));
}

TEST_F(VocabularyFile, AMissingFileIsNamed) {
  EXPECT_NE(message_of<EnvironmentError>([&] { Vocabulary::read(folder / "none.txt"); }).find("none.txt"), std::string::npos);
}

}  // namespace thinwire::text
