// labels: unit
// What the claims program computes itself and keeps: computed once, refused when damaged, and where other sources computed it, what --if-code-changed says.
#include "experiments/claims/kept/kept.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/claims/source_hash.h"
#include "results/collect.h"
#include "results/files/files.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::message_of;
using sweep::IfCodeChanged;

const std::vector<std::string> sources = {"experiments/claims/kept/kept.cpp"}, others = {"experiments/claims/kept/kept.cpp", "experiments/claims/kept/kept.h"};

class KeptNumbers : public ::testing::Test {
 protected:
  /// 1 for those of the first computation, 2 for those of the second.
  double numbers(CellRunner& cells, const std::vector<std::string>& computed_by, int format = 1) {
    const JudgeContext context{Profile::smoke, folder.path(), cells};
    return kept_numbers(context, "some", format, "a count", [&] { return ++calls, Numbers{{"x", {0.1, static_cast<double>(calls)}}}; }, computed_by).at("x").at(1);
  }
  double numbers(IfCodeChanged if_changed, const std::vector<std::string>& computed_by, int format = 1) {
    CellRunner cells = runner(if_changed);
    return numbers(cells, computed_by, format);
  }
  CellRunner runner(IfCodeChanged if_changed) { return {{folder.path(), folder.path(), "", std::make_shared<sweep::Machine>()}, if_changed}; }
  std::string path() const { return folder.path() + "/claims.numbers_probe/some.json"; }

  const thinwire::testing::TemporaryFolder folder;
  int calls = 0;
};

TEST_F(KeptNumbers, AreComputedOnceAndRefusedWhenDamaged) {
  EXPECT_EQ(numbers(IfCodeChanged::error, sources), 1);
  EXPECT_EQ(numbers(IfCodeChanged::error, sources), 1);
  EXPECT_EQ(numbers(IfCodeChanged::redo, sources), 1) << "the same sources would compute the same";
  EXPECT_EQ(numbers(IfCodeChanged::error, sources, 2), 2) << "of another format";
  for (const char* damage : {"{", "[]", R"({"format": 2})"}) {
    std::ofstream(path()) << damage;
    EXPECT_NE(message_of<CorruptData>([&] { (void)numbers(IfCodeChanged::keep, sources, 2); }).find("some.json"), std::string::npos) << damage;
  }
}

TEST_F(KeptNumbers, OfOtherSourcesAreRefusedKeptOrComputedAgain) {
  EXPECT_EQ(numbers(IfCodeChanged::error, others), 1);
  try {
    (void)numbers(IfCodeChanged::error, sources);
    ADD_FAILURE() << "other sources computed them";
  } catch (const Refused& refused) {
    EXPECT_NE(std::string(refused.error.what()).find("--if-code-changed redo"), std::string::npos) << refused.error.what();
    EXPECT_NE(std::string(refused.error.what()).find(path()), std::string::npos) << refused.error.what();
  }
  EXPECT_EQ(numbers(IfCodeChanged::keep, sources), 1);
  EXPECT_EQ(numbers(IfCodeChanged::redo, sources), 2);
  EXPECT_EQ(numbers(IfCodeChanged::error, sources), 2) << "those of now are kept";
}

TEST_F(KeptNumbers, OfAnotherTextAreNotComputedBesideFinishedOnes) {
  (void)numbers(IfCodeChanged::error, sources);
  nlohmann::json kept = nlohmann::json::parse(results::read_file(path()));
  kept["text"] = std::string(64, 'a');
  std::ofstream(path()) << kept;
  EXPECT_EQ(numbers(IfCodeChanged::error, sources), 1) << "what is kept stands";
  CellRunner cells = runner(IfCodeChanged::error);
  const JudgeContext context{Profile::smoke, folder.path(), cells};
  EXPECT_THROW((void)kept_numbers(context, "next", 1, "a count", [] { return Numbers{{"x", {1}}}; }, sources), Refused);
  EXPECT_EQ(numbers(IfCodeChanged::redo, others), 2) << "alone it is computed again, with the text of now";
  EXPECT_EQ(kept_numbers(context, "next", 1, "a count", [] { return Numbers{{"x", {1}}}; }, sources).at("x").at(0), 1);
}

TEST_F(KeptNumbers, WithoutAHashOfTheirSourcesAreOtherOnes) {
  (void)numbers(IfCodeChanged::error, sources);
  nlohmann::json kept = nlohmann::json::parse(results::read_file(path()));
  kept.erase("code");
  std::ofstream(path()) << kept;
  EXPECT_THROW((void)numbers(IfCodeChanged::error, sources), Refused);
  // Committed verdicts are judged again beside their collected files.
  CellRunner cells = runner(IfCodeChanged::error);
  cells.answer_from(results::collect(folder.path()).path);
  EXPECT_EQ(numbers(cells, sources), 1) << "judged again, what is kept stands as collected cells do";
}

TEST_F(KeptNumbers, ArePlannedAsARunWouldComputeThem) {
  const auto planned = [&](IfCodeChanged if_changed) {
    CellRunner cells = runner(if_changed);
    PlannedWork work;
    cells.only_plan(work);
    try {
      (void)numbers(cells, sources);
    } catch (const PlanEnds&) {
    }
    return work;
  };
  EXPECT_EQ(planned(IfCodeChanged::error).elsewhere, std::vector<std::string>{"a count"});
  (void)numbers(IfCodeChanged::error, others);
  const PlannedWork undecided = planned(IfCodeChanged::error), again = planned(IfCodeChanged::redo), as_they_are = planned(IfCodeChanged::keep);
  EXPECT_EQ(undecided.other_build, std::set<std::string>{path()});
  EXPECT_TRUE(undecided.elsewhere.empty());
  EXPECT_EQ(again.elsewhere, std::vector<std::string>{"a count"});
  EXPECT_TRUE(again.other_build.empty() && as_they_are.other_build.empty() && as_they_are.elsewhere.empty());
  EXPECT_EQ(calls, 1) << "a plan computes nothing";
}

TEST_F(KeptNumbers, NameSourcesThatAreThere) {
  EXPECT_THROW((void)numbers(IfCodeChanged::error, {"experiments/claims/kept/lost.cpp"}), std::logic_error);
  EXPECT_EQ(hash_of_sources({others[1], others[0]}), hash_of_sources(others)) << "their order says nothing";
}

}  // namespace
}  // namespace thinwire::claims
