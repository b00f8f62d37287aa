// labels: unit
// needs: train_gpt
// A claim's cells have one text, and its entropies are those that the cells saw, not those of the judging machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "experiments/claims/cells.h"
#include "experiments/claims/trained.h"
#include "results/record.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

const std::string other_text(64, 'a');

results::CellRecord record_of(const std::string& corpus, double unigram = no_number) {
  results::CellRecord record;
  record.rows.emplace_back().corpus = corpus;
  record.provenance.corpus = corpus;
  record.provenance.unigram_entropy = unigram, record.provenance.bigram_entropy = unigram - 1;
  return record;
}

TEST(TextEntropies, AreTheCellsOwn) {
  EXPECT_EQ(entropies_of_text({{record_of(other_text, 4.5)}, {record_of(other_text)}}).unigram, 4.5);
  EXPECT_EQ(entropies_of_text({{record_of(other_text, 4.5)}}).bigram, 3.5);
}

// A collected cell has the provenance of its launch.
TEST(TextEntropies, OfALaunchWithAnotherTextDoNotCount) {
  results::CellRecord beside = record_of(hash_of_text_here());
  beside.provenance = record_of(other_text, 4.5).provenance;
  EXPECT_EQ(entropies_of_text({{beside}}).unigram, entropies_here().unigram);
}

TEST(TextEntropies, OfCellsThatRecordedTheHashAloneAreLookedUp) {
  EXPECT_EQ(entropies_of_text({{record_of(hash_of_text_here())}}).unigram, entropies_here().unigram);
  EXPECT_EQ(entropies_of_text({{record_of("d0fa794cd596f4c33d3b0bbf83163f2dd359c9dbf454ca9c860491508a9086a8")}}).unigram, 3.2456526897745803) << "of the references' text";
  EXPECT_THROW((void)entropies_of_text({{record_of(other_text)}}), Refused) << "nobody knows";
}

TEST(TextEntropies, OfCellsWithoutATextAreThisMachines) {
  EXPECT_EQ(entropies_of_text({{record_of("")}}).unigram, entropies_here().unigram);
  EXPECT_GT(entropies_here().unigram, entropies_here().bigram);
}

TEST(TextEntropies, TwoTextsInOneComparisonAreRefused) {
  try {
    (void)entropies_of_text({{record_of(other_text, 4.5)}, {record_of(hash_of_text_here(), 3)}});
    FAIL() << "cells of two texts were compared";
  } catch (const Refused& refused) {
    EXPECT_NE(std::string(refused.error.what()).find("aaaaaaaaaaaa... (1 cells)"), std::string::npos) << refused.error.what();
  }
}

// The machine's library was updated between two runs of one command.
TEST(TextEntropies, TrainingsAreNotStartedBesideFinishedOnesOfAnotherText) {
  const thinwire::testing::TemporaryFolder folder;
  const char* const build = std::getenv("THINWIRE_BUILD_DIR");
  sweep::RunPaths paths;
  paths.out = folder.path(), paths.bin = std::string(build != nullptr ? build : ".") + "/bin";
  const auto request = [](int seed) {
    CellRequest r;
    r.program = "train_gpt", r.timed = false;
    r.parameters.set("seed", seed), r.parameters.set("layers", 1), r.parameters.set("hidden", 16), r.parameters.set("heads", 2), r.parameters.set("seq", 16), r.parameters.set("steps", 1);
    return r;
  };
  const auto finish = [&](const CellRequest& r, const std::string& corpus) {
    results::CellRecord record = record_of(corpus);
    record.program = r.program, record.ranks = r.ranks, record.link = r.link, record.parameters = r.parameters;
    record.cell_id = results::cell_id(r.program, r.ranks, r.link, r.parameters);
    record.rows.front().cell_id = record.cell_id;
    results::write_cell_record(results::record_path(paths.out, record.cell_id), record);
  };
  const std::vector<CellRequest> both = {request(1), request(2)};
  std::filesystem::create_directories(paths.out + "/cells");
  finish(both[0], other_text);
  EXPECT_THROW((void)CellRunner(paths, sweep::IfCodeChanged::keep).run(both), Refused);
  EXPECT_FALSE(std::filesystem::exists(results::record_path(paths.out, results::cell_id("train_gpt", both[1].ranks, both[1].link, both[1].parameters))));
  EXPECT_THROW((void)CellRunner(paths, sweep::IfCodeChanged::keep).run(std::span(both).last(1)), Refused) << "a race's new entrant has runs of its own alone";
  finish(both[1], other_text);
  EXPECT_EQ(CellRunner(paths, sweep::IfCodeChanged::keep).run(both).size(), 2u) << "nothing is left to be run: they are one comparison";
}

}  // namespace
}  // namespace thinwire::claims
