// labels: unit
// Text, its entropies and its samples: order, hash, split, and clear refusals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

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

TEST(BatchSampler, EveryEpochHasEachWindowOnceInAnOrderOfItsOwn) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i >> 3);
  const Corpus corpus = Corpus::from_text(text, "t");
  const Epochs epochs{.windows = 10, .global_batch = 4};
  const BatchSampler sampler(corpus.training(), 1, "train", epochs), other(corpus.training(), 2, "train", epochs);
  EXPECT_EQ(sampler.samples(), 10);
  // Ten steps are four epochs; steps are asked for in the order of a run, and backwards.
  std::vector<std::vector<std::int64_t>> orders(4), seen(10);
  for (std::uint64_t step = 0; step < 10; ++step) {
    const Batch batch = sampler.batch(step, 0, 4, 33);
    seen[step] = batch.sample_ids;
    for (std::size_t b = 0; b < 4; ++b) {
      orders[(step * 4 + b) / 10].push_back(batch.sample_ids[b]);
      const auto begin = corpus.training().begin() + batch.sample_ids[b];
      EXPECT_TRUE(std::equal(begin, begin + 33, batch.ints("tokens").begin() + static_cast<std::ptrdiff_t>(b * 33))) << "an id says where its window begins";
    }
  }
  for (std::uint64_t step = 10; step-- > 0;) {
    EXPECT_EQ(sampler.batch(step, 0, 4, 33).sample_ids, seen[step]);
    EXPECT_EQ(sampler.batch(step, 2, 1, 33).sample_ids, std::vector<std::int64_t>{seen[step][2]});
  }
  for (std::size_t e = 1; e < orders.size(); ++e) EXPECT_NE(orders[e], orders[0]);
  EXPECT_NE(other.batch(0, 0, 4, 33).sample_ids, seen[0]);
  for (std::vector<std::int64_t>& order : orders) {
    std::ranges::sort(order);
    EXPECT_EQ(order, orders[0]);
    EXPECT_EQ(std::ranges::adjacent_find(order), order.end());
  }
}

TEST(BatchSampler, AWindowKeepsItsPlaceInTheBatchWhereBatchesAreWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i >> 3);
  const Corpus corpus = Corpus::from_text(text, "t");
  const BatchSampler sampler(corpus.training(), 1, "train", {.windows = 40, .global_batch = 4});
  std::vector<std::set<std::int64_t>> places(4);
  std::set<std::vector<std::int64_t>> batches;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const Batch batch = sampler.batch(step, 0, 4, 33);
    batches.insert(batch.sample_ids);
    for (std::size_t b = 0; b < 4; ++b) places[b].insert(batch.sample_ids[b]);
  }
  for (std::size_t b = 0; b < 4; ++b) EXPECT_EQ(places[b].size(), 10u) << "a quarter of the windows comes to place " << b << ", and all of it";
  EXPECT_GT(batches.size(), 45u) << "in other company every time";
}

TEST(BatchSampler, MoreWindowsThanTheTextHasPlacesAreRefused) {
  const Corpus corpus = Corpus::from_text(std::string(500, 'x'), "t");
  const auto places = static_cast<std::int64_t>(corpus.training().size()) - 8;
  EXPECT_THROW(BatchSampler(corpus.training(), 1, "train", {.windows = places + 1}).batch(0, 0, 1, 8), UsageError);
  EXPECT_NO_THROW(BatchSampler(corpus.training(), 1, "train", {.windows = places}).batch(0, 0, 1, 8));
}

TEST(TextData, TakesTheNumberOfWindowsTheBatchOfValidationsAndNothingElse) {
  EXPECT_EQ(open_data("text:windows=64", "", 1, 8).training->samples(), 64);
  EXPECT_EQ(open_data("text", "", 1, 8).training->samples(), 0);
  EXPECT_EQ(open_data("text:windows=64", "", 1, 8).validation->samples(), 0);
  const DataSource as_two = open_data("text:windows=64,validation_batch=2", "", 1, 8), two = open_data("text", "", 1, 2);
  EXPECT_EQ(as_two.training->samples(), 64);
  EXPECT_EQ(as_two.validation->batch(0, 2, 2, 16).sample_ids, two.validation->batch(1, 0, 2, 16).sample_ids);
  for (const char* wrong : {"text:windows=", "text:windows=0", "text:windows=-3", "text:windows=4x", "text:window=4", "text:4", "text:validation_batch=0", "text:windows=4,", "text:windows=4,validation_batch"})
    EXPECT_THROW(open_data(wrong, "", 1, 8), UsageError) << wrong;
}

TEST(BatchSampler, ATextShorterThanASequenceIsRefused) {
  const Corpus corpus = Corpus::from_text("short text", "t");
  const BatchSampler sampler(corpus.training(), 1, "train");
  EXPECT_THROW(sampler.batch(0, 0, 1, 64), UsageError);
  EXPECT_NO_THROW(sampler.batch(0, 0, 1, 8));
}

}  // namespace thinwire
