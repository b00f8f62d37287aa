// labels: unit
// A study that goes on after its text has changed says so with the first cell of the new one.
#include <gtest/gtest.h>

#include "experiments/study/texts.h"

namespace thinwire::sweep {
namespace {

struct Played {
  std::vector<PlannedCell> cells;
  std::vector<CellState> states;

  PlannedCell& add(const std::string& program, const std::string& text, results::RecordState record = results::RecordState::finished) {
    CellState& state = states.emplace_back();
    state.record = record, state.text = text;
    PlannedCell& cell = cells.emplace_back();
    cell.cell_id = "c" + std::to_string(cells.size()), cell.program = program;
    return cell;
  }
};

TEST(Texts, AreCountedByProgramAndOnlyOfWhatIsFinishedAndNamesOne) {
  Played played;
  played.add("train_gpt", "aa"), played.add("train_gpt", "aa"), played.add("train_gpt", "bb"), played.add("bench_codec", "cc");
  played.add("train_gpt", ""), played.add("train_gpt", "dd", results::RecordState::damaged);
  const Texts texts = texts_of(played.cells, played.states);
  EXPECT_EQ(texts, (Texts{{"train_gpt", {{"aa", 2}, {"bb", 1}}}, {"bench_codec", {{"cc", 1}}}}));
  EXPECT_EQ(to_words(texts.at("train_gpt")), "aa... (2 cells), bb... (1 cell)");
}

TEST(TextWatch, WarnsOnceOfAProgramWhoseStandingCellsAreAllOfOtherTexts) {
  Played played;
  played.add("train_gpt", "aa");
  const PlannedCell next = played.add("train_gpt", "", results::RecordState::missing), other = played.add("bench_codec", "", results::RecordState::missing);
  TextWatch watch(played.cells, played.states, std::vector{next, other});
  EXPECT_EQ(watch.measured(next, "aa"), "");
  EXPECT_EQ(watch.measured(next, ""), "") << "one that failed";
  EXPECT_EQ(watch.measured(other, "bb"), "") << "nothing of that program stands";
  const std::string warning = watch.measured(next, "bb");
  EXPECT_NE(warning.find("aa... (1 cell)"), std::string::npos) << warning;
  EXPECT_NE(warning.find("bb..."), std::string::npos) << warning;
  EXPECT_EQ(watch.measured(next, "bb"), "") << "said";
}

TEST(TextWatch, SaysNothingOfCellsThatRunAgainOrOfAStudyOfSeveralTexts) {
  Played played;
  const PlannedCell again = played.add("train_gpt", "aa");
  TextWatch anew(played.cells, played.states, std::vector{again});
  EXPECT_EQ(anew.measured(again, "bb"), "") << "it does not stand";
  played.add("train_gpt", "bb");
  const PlannedCell next = played.add("train_gpt", "", results::RecordState::missing);
  TextWatch both(played.cells, played.states, std::vector{next});
  EXPECT_EQ(both.measured(next, "bb"), "") << "cells of this text stand, too";
}

}  // namespace
}  // namespace thinwire::sweep
