// labels: unit
// Text, its entropies and its samples: order, hash, split, and clear refusals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/sha256.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"

namespace thinwire {
namespace fs = std::filesystem;
namespace {

struct CorpusFolder : testing::Test {
  fs::path root = fs::temp_directory_path() / ("thinwire_corpus_" + std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(root / "b"); }
  void TearDown() override { fs::remove_all(root); }
  void write(const fs::path& name, const std::string& text) const {
    std::ofstream(root / name, std::ios::binary) << text;
  }
};

}  // namespace

TEST_F(CorpusFolder, FilesAreReadInBytewiseOrderOfTheirPathWithoutHiddenOnes) {
  write("z.txt", "3");
  write("a.txt", "1");
  write("b/x.txt", "2");
  write(".hidden", "never");
  const Corpus corpus = Corpus::from_path(root.string());
  EXPECT_EQ(corpus.hash(), sha256_hex("123"));
  EXPECT_EQ(corpus.files(), 3);
  EXPECT_EQ(corpus.bytes(), 3);
}

TEST_F(CorpusFolder, EmptyTextIsAUsageErrorAndAMissingPathAnEnvironmentError) {
  write("empty", "");
  EXPECT_THROW(Corpus::from_path((root / "empty").string()), UsageError);
  fs::create_directories(root / "nothing");
  EXPECT_THROW(Corpus::from_path((root / "nothing").string()), UsageError);
  try {
    Corpus::from_path((root / "missing").string());
    FAIL();
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("missing"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("--text"), std::string::npos);
  }
}

TEST(Corpus, SplitsEveryTenthBlockOffForValidationAndLosesNoByte) {
  std::string text;
  for (int i = 0; i < 500000; ++i) text += static_cast<char>(i / 16384);  // each block holds its number
  const Corpus corpus = Corpus::from_text(text, "blocks");
  EXPECT_EQ(corpus.bytes(), 500000);
  for (std::uint8_t c : corpus.validation()) ASSERT_EQ(c % 10, 9);
  for (std::uint8_t c : corpus.training()) ASSERT_NE(c % 10, 9);
}

TEST(Corpus, EntropiesHaveTheirClosedForms) {
  std::string alternating;
  for (int i = 0; i < 10000; ++i) alternating += i % 2 ? 'a' : 'b';
  const Corpus corpus = Corpus::from_text(alternating, "ab");
  EXPECT_NEAR(corpus.unigram_entropy(), std::log(2.0), 1e-6);
  EXPECT_NEAR(corpus.bigram_entropy(), 0.0, 1e-6);
}

TEST(Corpus, TheStandardLibraryIsReproducibleText) {
  const Corpus first = Corpus::python_standard_library(), second = Corpus::open("");
  EXPECT_EQ(first.hash(), second.hash());
  EXPECT_GT(first.bytes(), 1000000);
  EXPECT_LT(first.bigram_entropy(), first.unigram_entropy());
}

TEST(BatchSampler, ASampleDependsOnSeedStepAndNumberAlone) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i >> 3);
  const Corpus corpus = Corpus::from_text(text, "t");
  const BatchSampler sampler(corpus.training(), 1, "train");
  const Batch whole = sampler.batch(7, 0, 6, 33);
  for (std::int64_t s = 0; s < 6; ++s) {
    const Batch one = sampler.batch(7, s, 1, 33);
    EXPECT_TRUE(std::equal(one.ints("tokens").begin(), one.ints("tokens").end(), whole.ints("tokens").begin() + 33 * s));
  }
  EXPECT_NE(sampler.batch(8, 0, 6, 33).ints("tokens"), whole.ints("tokens"));
  EXPECT_NE(BatchSampler(corpus.training(), 2, "train").batch(7, 0, 6, 33).ints("tokens"), whole.ints("tokens"));
  for (std::size_t i = 0; i + 1 < 33; ++i)
    EXPECT_EQ(whole.ints("targets")[i], whole.ints("tokens")[i + 1]);  // targets follow
}

TEST(BatchSampler, ATextShorterThanASequenceIsRefused) {
  const Corpus corpus = Corpus::from_text("short text", "t");
  const BatchSampler sampler(corpus.training(), 1, "train");
  EXPECT_THROW(sampler.batch(0, 0, 1, 64), UsageError);
  EXPECT_NO_THROW(sampler.batch(0, 0, 1, 8));
}

}  // namespace thinwire
