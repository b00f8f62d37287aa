// labels: unit
// Examples of a task as batches: what a sample looks like, that an epoch has every row once whoever asks for which part, that a judged set is gone through once, and
// what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "models/data/dataset.h"
#include "tests/support/temporary_folder.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t rows = 23, dev_rows = 9, global_batch = 6, seq = 12;

/// RTE and STS-B with a vocabulary; row i of the former says word i % 7, so that labels are told from texts.
class Glue : public TemporaryFolder {
 public:
  Glue() {
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nw0\nw1\nw2\nw3\nw4\nw5\nw6\nand\nmore\n");
    for (const char* folder : {"RTE", "STS-B"}) std::filesystem::create_directory(*this / folder);
    for (const auto& [name, count] : {std::pair{"train", rows}, {"dev", dev_rows}}) {
      std::ostringstream rte, stsb;
      rte << "index\tsentence1\tsentence2\tlabel\n";
      stsb << "sentence1\tsentence2\tscore\n";
      for (std::int64_t i = 0; i < count; ++i) {
        rte << i << "\tw" << i % 7 << " and and and\tmore W" << i % 5 << "\t" << (i % 7 < 3 ? "entailment" : "not_entailment") << "\n";
        stsb << "w" << i % 7 << "\tw1\t" << 0.25 * static_cast<double>(i % 20) << "\n";
      }
      write(std::string("RTE/") + name + ".tsv", rte.str()), write(std::string("STS-B/") + name + ".tsv", stsb.str());
    }
  }
  std::string vocabulary() const { return *this / "vocab.txt"; }
  DataSource open(const std::string& options = "name=rte", std::uint64_t seed = 3) const { return open_data("task:" + options, path(), seed, global_batch, vocabulary()); }
};

TEST(TaskSamples, AreTheTextsBetweenTheirMarksAndPadding) {
  const Glue glue;
  const DataSource data = glue.open();
  EXPECT_EQ(data.vocabulary, 14);
  const Batch dev = data.judged.at(0).samples->batch(0, 0, 2, seq);
  // [CLS] w1 and and and [SEP] more w1 [SEP]
  const std::vector<std::int32_t> second = {2, 6, 12, 12, 12, 3, 13, 6, 3, 0, 0, 0}, types = {0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0};
  EXPECT_TRUE(std::equal(second.begin(), second.end(), dev.ints("tokens").begin() + seq));
  EXPECT_TRUE(std::equal(types.begin(), types.end(), dev.ints("types").begin() + seq));
  EXPECT_EQ(dev.lengths, (std::vector<std::int32_t>{9, 9}));
  EXPECT_EQ(dev.ints("labels"), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(data.judged[0].samples->batch(0, 1, 1, 8).ints("tokens"), (std::vector<std::int32_t>{2, 6, 12, 12, 3, 13, 6, 3})) << "the longer text is cut";
  EXPECT_EQ(glue.open("name=stsb").judged[0].samples->batch(0, 1, 1, 8).ints("tokens"), (std::vector<std::int32_t>{2, 6, 3, 6, 3, 0, 0, 0}));
  // Capitals are dropped unless they are kept.
  EXPECT_EQ(glue.open("name=rte,case=kept").judged[0].samples->batch(0, 1, 1, seq).ints("tokens")[7], 1) << "W1 is no piece";
}

TEST(TaskSamples, OfAnEpochAreAllRowsOnceWhoeverAsksForThem) {
  const Glue glue;
  const DataSource data = glue.open();
  ASSERT_EQ(data.training->samples(), rows);
  std::vector<std::int64_t> seen;
  for (std::uint64_t step = 0; static_cast<std::int64_t>(seen.size()) < 2 * rows; ++step) {
    const Batch whole = data.training->batch(step, 0, global_batch, seq);
    EXPECT_EQ(whole.weight, global_batch);
    EXPECT_EQ(data.training->weight(step, global_batch, seq), global_batch);
    // Two replicas with micro-batches of their own, from data that another rank has opened; it asks for the last step first.
    const DataSource other = glue.open();
    (void)other.training->batch(40, 0, 1, seq);
    for (const std::int64_t first : {4, 0, 2}) {
      const Batch part = other.training->batch(step, first, 2, seq);
      EXPECT_TRUE(std::equal(part.sample_ids.begin(), part.sample_ids.end(), whole.sample_ids.begin() + first)) << step;
      EXPECT_TRUE(std::equal(part.ints("tokens").begin(), part.ints("tokens").end(), whole.ints("tokens").begin() + first * seq));
    }
    for (std::size_t b = 0; b < static_cast<std::size_t>(global_batch); ++b) {
      const std::int64_t row = whole.sample_ids[b];
      EXPECT_EQ(whole.ints("tokens")[b * seq + 1], 5 + row % 7);
      EXPECT_EQ(whole.ints("labels")[b], row % 7 < 3 ? 0 : 1);
      seen.push_back(row);
    }
  }
  std::vector<std::int64_t> first(seen.begin(), seen.begin() + rows), second(seen.begin() + rows, seen.begin() + 2 * rows), all(rows);
  for (std::int64_t i = 0; i < rows; ++i) all[static_cast<std::size_t>(i)] = i;
  EXPECT_NE(first, second) << "each epoch has an order of its own";
  EXPECT_NE(first, all);
  for (auto* epoch : {&first, &second}) {
    std::sort(epoch->begin(), epoch->end());
    EXPECT_EQ(*epoch, all);
  }
  EXPECT_NE(glue.open("name=rte", 4).training->batch(0, 0, global_batch, seq).sample_ids, data.training->batch(0, 0, global_batch, seq).sample_ids) << "the seed decides the order";
}

TEST(TaskSamples, OfASetToBeJudgedOnComeOnceInTheirOrder) {
  const Glue glue;
  for (const bool scores : {false, true}) {
    const DataSource data = glue.open(scores ? "name=stsb" : "name=rte");
    EXPECT_EQ(data.validation, nullptr);
    ASSERT_EQ(data.judged.size(), 1U);
    const JudgedSet& set = data.judged[0];
    EXPECT_EQ(set.name, "dev");
    ASSERT_EQ(set.samples->samples(), dev_rows);
    ASSERT_EQ(set.wanted.size(), static_cast<std::size_t>(dev_rows));
    EXPECT_EQ(set.metrics, scores ? (std::vector<std::string>{"pearson", "spearman"}) : (std::vector<std::string>{"accuracy"}));
    for (std::int64_t number = 0; number < 2 * global_batch; ++number) {
      const auto step = static_cast<std::uint64_t>(number / global_batch);
      const Batch one = set.samples->batch(step, number % global_batch, 1, seq);
      const bool there = number < dev_rows;
      EXPECT_EQ(one.weight, there ? 1 : 0);
      if (scores) {
        EXPECT_TRUE(there ? one.floats("labels")[0] == set.wanted[static_cast<std::size_t>(number)] : std::isnan(one.floats("labels")[0])) << number;
      } else {
        EXPECT_EQ(one.ints("labels")[0], there ? static_cast<std::int32_t>(set.wanted[static_cast<std::size_t>(number)]) : -1) << number;
      }
      if (!there) {
        EXPECT_EQ(one.lengths[0], 2) << "nothing between its marks";
      }
    }
    EXPECT_EQ(set.samples->weight(0, global_batch, seq), global_batch);
    EXPECT_EQ(set.samples->weight(1, global_batch, seq), dev_rows - global_batch);
  }
}

TEST(TaskSamples, TheHashKnowsTextsPiecesAndCase) {
  const Glue glue;
  std::map<std::string, std::string> hashes = {{"as it is", glue.open().hash}, {"case", glue.open("name=rte,case=kept").hash}, {"task", glue.open("name=stsb").hash}};
  EXPECT_EQ(glue.open("name=rte", 9).hash, hashes["as it is"]) << "the seed is no part of the data";
  std::ofstream(glue.vocabulary(), std::ios::app) << "once\n";
  hashes["vocabulary"] = glue.open().hash;
  std::ofstream(glue.path() + "/RTE/dev.tsv", std::ios::app) << "9\tw1\tw2\tentailment\n";
  hashes["dev"] = glue.open().hash;
  for (const auto& [a, one] : hashes)
    for (const auto& [b, two] : hashes) EXPECT_EQ(one == two, a == b) << a << " " << b;
}

TEST(TaskSamples, WhatIsMissingIsAskedFor) {
  const Glue glue;
  const auto refused = [](const auto& open, const std::string& words) {
    try {
      (void)open();
      ADD_FAILURE() << "nothing was refused where '" << words << "' is expected";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused([&] { return open_data("task", glue.path(), 1, 1, glue.vocabulary()); }, "mnli");
  refused([&] { return glue.open("name=rt"); }, "did you mean");
  refused([&] { return glue.open("name=rte,fold=3"); }, "fold");
  refused([&] { return open_data("task:name=rte", "", 1, 1, glue.vocabulary()); }, "--text");
  EXPECT_FALSE(reads_default_text("task:name=rte")) << "it asks for its files";
  EXPECT_TRUE(reads_default_text("text:windows=3"));
  EXPECT_TRUE(reads_default_text("masked_text"));
  EXPECT_FALSE(reads_default_text("no_such_data"));
  refused([&] { return open_data("task:name=rte", glue.path(), 1, 1, ""); }, "--vocabulary");
  refused([&] { return glue.open("name=cola"); }, glue.path() + "/CoLA/train.tsv");
  refused([&] { return glue.open().training->batch(0, 0, 1, 7); }, "--seq");
  std::ofstream(glue.path() + "/RTE/dev.tsv", std::ios::app) << "9\tw1\tw2\tperhaps\n";
  refused([&] { return glue.open(); }, glue.path() + "/RTE/dev.tsv:11:9: the label 'perhaps'");
}

}  // namespace
}  // namespace thinwire
