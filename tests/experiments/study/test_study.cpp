// labels: unit
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "experiments/study/estimate.h"
#include "experiments/study/expand.h"
#include "experiments/study/saved_study.h"
#include "experiments/study/selection.h"
#include "results/files/tuned_products.h"
#include "results/provenance.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire::sweep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

const std::string head = "[study]\nname = \"s\"\n";

std::vector<PlannedCell> cells_of(const std::string& text) {
  const TemporaryFolder folder;
  return expand(read_study(folder.write("s.toml", text)));
}

std::string usage_error(const std::string& text) {
  return message_of<UsageError>([&] { cells_of(text); });
}

std::vector<std::string> values_of(const std::vector<PlannedCell>& cells, const std::string& name) {
  std::vector<std::string> values;
  for (const PlannedCell& cell : cells) values.push_back(cell.parameters.text(name));
  return values;
}

TEST(Study, AxesCrossInTheOrderOfTheFileAndZippedOnesGoTogether) {
  const auto cells = cells_of(head + R"(
[[grid]]
program = "p"
[grid.axes]
z = [1, 2]
a = ["x", "y"]
[[grid.zip]]
method = ["A", "B"]
codec = ["c:1", "c:2"]
)");
  ASSERT_EQ(cells.size(), 8u);
  EXPECT_EQ(values_of(cells, "z"), (std::vector<std::string>{"1", "1", "1", "1", "2", "2", "2", "2"}));
  EXPECT_EQ(values_of(cells, "a"), (std::vector<std::string>{"x", "x", "y", "y", "x", "x", "y", "y"}));
  EXPECT_EQ(values_of(cells, "method"), (std::vector<std::string>{"A", "B", "A", "B", "A", "B", "A", "B"}));
  for (const PlannedCell& cell : cells)
    EXPECT_EQ(cell.parameters.text("codec"), cell.parameters.text("method") == "A" ? "c:1" : "c:2");
}

std::vector<PlannedCell> shipped(const std::string& study, const std::string& where) {
  return filter(expand(read_study(testing::source_folder() + "/experiments/studies/" + study + ".toml")), where);
}

TEST(Study, TheActivationGridOfThePaperHas168CellsOnFourRanksAndAThirdOfThemOnOtherLinks) {
  const auto cells = shipped("quick", "program=bench_activation");
  const auto shape_of = [](const PlannedCell& cell) {
    std::string text;
    for (const char* name : {"method", "tp", "pp", "batch", "seq"}) text += cell.parameters.text(name) + " ";
    return text;
  };
  std::set<std::string> whole;
  for (const PlannedCell& cell : filter(cells, "link=netns:1gbit")) {
    const bool largest = cell.parameters.integer("batch") == 32 && cell.parameters.integer("seq") == 512;
    EXPECT_EQ(cell.parameters.integer("repetitions"), largest ? 3 : 5);
    whole.insert(shape_of(cell));
  }
  EXPECT_EQ(whole.size(), 168u);
  for (const char* link : {"shm", "netns:100mbit"}) {
    std::set<std::string> third, layouts, shapes;
    std::map<std::string, int> of_method;
    for (const PlannedCell& cell : filter(cells, std::string("link=") + link)) {
      third.insert(shape_of(cell));
      layouts.insert(cell.parameters.text("tp") + "x" + cell.parameters.text("pp"));
      shapes.insert(cell.parameters.text("batch") + "x" + cell.parameters.text("seq"));
      ++of_method[cell.parameters.text("method")];
    }
    EXPECT_EQ(third.size(), 56u) << link;
    EXPECT_TRUE(std::includes(whole.begin(), whole.end(), third.begin(), third.end())) << link << ": a cell without its partner at 1 Gbit/s";
    EXPECT_EQ(layouts.size(), 3u);
    EXPECT_EQ(shapes.size(), 4u);
    EXPECT_EQ(of_method.size(), 14u);
    for (const auto& [method, count] : of_method) EXPECT_EQ(count, 4) << method;  // all methods on the same cells
  }
  for (const PlannedCell& cell : cells) EXPECT_EQ(cell.ranks, 4);
}

TEST(Study, QuickTimesTheStepOfFourPlansAndLeavesLossesToTheRace) {
  std::set<std::string> plans;
  for (const PlannedCell& cell : shipped("quick", "program=train_gpt")) {
    plans.insert(cell.parameters.text("plan"));
    EXPECT_EQ(cell.parameters.text("compute"), "timed");
    EXPECT_EQ(cell.link, "netns:1gbit");
  }
  EXPECT_EQ(plans, (std::set<std::string>{"dense", "all", "sharded", "sharded, 8 and 4 bits"}));
}

TEST(Study, TrainingComparesNinePlansRealForLossesAndTimedOnLinks) {
  const auto cells = shipped("standard", "program=train_gpt");
  for (const char* link : {"shm", "netns:100mbit", "netns:1gbit"}) {
    const auto of_link = filter(cells, std::string("link=") + link);
    const bool timed = link != std::string("shm");
    const auto plans = values_of(of_link, "plan");
    EXPECT_EQ(of_link.size(), 9u) << link;
    EXPECT_EQ(std::set<std::string>(plans.begin(), plans.end()).size(), 9u) << link;
    for (const PlannedCell& cell : of_link) {
      EXPECT_EQ(cell.ranks, 8);
      EXPECT_EQ(cell.parameters.text("compute"), timed ? "timed" : "real");
      EXPECT_GE(cell.parameters.integer("steps"), 20);
      EXPECT_FALSE(cell.parameters.has("capture"));
    }
  }
  // One plan alone per traffic class, one that compresses all of them, and one for what shards exchange.
  std::map<std::string, int> compressed;
  for (const PlannedCell& cell : filter(cells, "link=shm"))
    for (const auto& [name, value] : cell.parameters.values())
      if (name.starts_with("compress.") && results::to_text(value) != "none") {
        ++compressed[cell.parameters.text("plan")];
        if (cell.parameters.text("plan") != "all" && cell.parameters.integer("zero-stage") == 0) {
          EXPECT_EQ(name, "compress." + cell.parameters.text("plan"));
        }
      }
  EXPECT_EQ(compressed, (std::map<std::string, int>{{"all", 5},
                                                    {"tp_forward", 1},
                                                    {"pp_forward", 1},
                                                    {"pp_backward", 1},
                                                    {"dp_gradient", 1},
                                                    {"embedding", 1},
                                                    {"sharded, 8 and 4 bits", 2}}));
}

TEST(Study, EveryShippedStudyExpandsToDistinctCells) {
  const std::string source = testing::source_folder();
  for (const char* name : {"smoke", "quick", "standard", "full"}) {
    const auto cells = expand(read_study(source + "/experiments/studies/" + name + ".toml"));
    std::set<std::string> ids;
    for (const PlannedCell& cell : cells) ids.insert(cell.cell_id);
    EXPECT_EQ(ids.size(), cells.size()) << name;
    EXPECT_GT(cells.size(), 10u) << name;
  }
}

TEST(Study, OneGridMayBeSpelledAtTheTopOfTheFile) {
  const auto cells = cells_of(
      "[study]\nname = \"s\"\nprogram = \"p\"\nranks = \"tp*pp\"\nlink = [\"shm\", "
      "\"netns:1gbit\"]\n[parameters]\npp = 2\n[axes]\ntp = [1, 2]\n");
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells[0].ranks, 2);
  EXPECT_EQ(cells[1].ranks, 4);
  EXPECT_EQ(cells[3].link, "netns:1gbit");
  EXPECT_FALSE(cells[0].parameters.has("link"));
}

TEST(Study, ExclusionsAndOverridesApplyWhereAllTheirConditionsHold) {
  const auto cells = cells_of(head + R"(
[[grid]]
program = "p"
link = ["shm", "netns:1gbit"]
repetitions = 9
[grid.axes]
batch = [8, 32]
seq = [128, 512]
[[grid.exclude]]
batch = 32
seq = [512, 1024]
[[grid.override]]
when = {link = "netns:1gbit", batch = 8}
set = {repetitions = 3}
)");
  EXPECT_EQ(cells.size(), 6u);
  for (const PlannedCell& cell : cells) {
    EXPECT_FALSE(cell.parameters.integer("batch") == 32 && cell.parameters.integer("seq") == 512);
    EXPECT_EQ(cell.parameters.integer("repetitions"),
              cell.link == "netns:1gbit" && cell.parameters.integer("batch") == 8 ? 3 : 9);
  }
}

TEST(Study, DefaultsIncludesAndSetsAreShared) {
  const TemporaryFolder folder;
  folder.write("sets.toml", "[parameters]\nseed = 1\n[sets.two]\na = [1, 2]\nb = [3, 4]\n");
  const auto study = folder.write(
      "s.toml",
      "include = \"sets.toml\"\n" + head +
          "[parameters]\ncapture = \"c.h5\"\n[[grid]]\nprogram = \"p\"\n[[grid.zip]]\nuse = \"two\"\n"
          "[[grid]]\nprogram = \"q\"\nwithout = [\"capture\"]\n[grid.parameters]\nseed = 7\n");
  const auto cells = expand(read_study(study));
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[1].parameters.canonical_json(), R"({"a":2,"b":4,"capture":"c.h5","seed":1})");
  EXPECT_EQ(cells[2].parameters.canonical_json(), R"({"seed":7})");
  folder.write("sets.toml", "include = \"s.toml\"\n");
  EXPECT_NE(message_of<UsageError>([&] { read_study(study); }).find("includes itself"), std::string::npos);
}

TEST(Study, ACellNamedByTwoGridsAppearsOnce) {
  const std::string grid = "[[grid]]\nprogram = \"p\"\n[grid.axes]\na = [1, 2]\n";
  EXPECT_EQ(cells_of(head + grid + grid).size(), 2u);
  // Threads do not tell cells apart: with others they would be measured once, and by chance.
  const auto with = [&](const char* threads) { return "[[grid]]\nname = \"g" + std::string(threads) + "\"\nprogram = \"p\"\nomp_threads = " + threads + "\n[grid.axes]\na = [1, 2]\n"; };
  EXPECT_EQ(cells_of(head + with("2") + with("2")).size(), 2u);
  const std::string message = message_of<UsageError>([&] { cells_of(head + with("1") + with("2")); });
  EXPECT_NE(message.find("`g2` has a cell that `g1` has with other omp_threads (2, not 1)"), std::string::npos) << message;
}

TEST(Study, SeedsPairTheCellsThatDifferInOtherAxes) {
  const std::string grid = "[[grid]]\nprogram = \"p\"\n";
  const std::string axes = "[grid.axes]\ncodec = [\"none\", \"cast\"]\nbatch = [1, 2, 3]\n";
  const auto cells = cells_of(head + "[parameters]\nseed = 9\n" + grid + "seeds = [4, 7]\n" + axes);
  ASSERT_EQ(cells.size(), 12u);
  // Every combination of the other axes meets every seed, and whole passes come one after the other.
  std::map<std::string, std::set<std::string>> seeds;
  for (const PlannedCell& cell : cells)
    seeds[cell.parameters.text("codec") + cell.parameters.text("batch")].insert(cell.parameters.text("seed"));
  EXPECT_EQ(seeds.size(), 6u);
  for (const auto& [rest, met] : seeds) EXPECT_EQ(met, (std::set<std::string>{"4", "7"})) << rest;
  for (std::size_t i = 0; i < cells.size(); ++i) EXPECT_EQ(cells[i].parameters.integer("seed"), i < 6 ? 4 : 7);
  EXPECT_EQ(values_of(cells_of(head + grid + "repeat = {seeds = 3}\n"), "seed"), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(values_of(cells_of(head + grid + "repeat = {seeds = 2, first = 5}\n"), "seed"), (std::vector<std::string>{"5", "6"}));
}

TEST(Study, NeedsAndTagsOfACellAreNoPartOfItsIdentity) {
  const std::string plain = "[[grid]]\nprogram = \"p\"\n[grid.axes]\ntp = [1, 2]\n";
  const std::string said =
      "[[grid]]\nprogram = \"p\"\nminutes = 3\nmemory_gib = 0.5\ntags = [\"slow\", \"paper\"]\n[grid.axes]\ntp = [1, 2]\n"
      "[[grid.override]]\nwhen = {tp = 2}\nset = {minutes = 7.5}\n";
  const auto without = cells_of(head + plain), with = cells_of(head + said);
  ASSERT_EQ(with.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(with[i].cell_id, without[i].cell_id);
    EXPECT_EQ(with[i].memory_gib, 0.5);
    EXPECT_EQ(without[i].minutes, 0);
    EXPECT_EQ(with[i].tags, (std::vector<std::string>{"slow", "paper"}));
  }
  EXPECT_EQ(with[0].minutes, 3);
  EXPECT_EQ(with[1].minutes, 7.5);
  // A cell that two grids name carries the tags of both.
  const auto both = cells_of(head + said + "[[grid]]\nprogram = \"p\"\ntags = \"third\"\n[grid.parameters]\ntp = 2\n");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].tags, (std::vector<std::string>{"slow", "paper", "third"}));
  EXPECT_EQ(filter(both, "tag=third").size(), 1u);
  EXPECT_EQ(filter(both, "tag!=third and tag=sl*").size(), 1u);
  EXPECT_NE(message_of<UsageError>([&] { filter(both, "tag=papre"); }).find("`paper`"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { filter(without, "tag=paper"); }).find("no cell has `tag`"), std::string::npos);
}

TEST(Study, WrittenBackAsOneFileItHasTheSameCellsInTheSameOrder) {
  const std::string source = testing::source_folder();
  const TemporaryFolder folder;
  std::vector<std::string> paths = {folder.write(
      "odd.toml", "[study]\nname = \"odd\"\ndescription = \"a \\\"b\\\" \\\\ \\n c\"\n" + std::string(R"(
[[grid]]
program = "p"
ranks = "2*dp"
timeout = 0.5
minutes = 0.25
tags = ["a", "b"]
seeds = [3, 1]
link = ["netns:1gbit", "shm"]
[grid.parameters]
"compress.tp_forward" = "topk:fraction=0.1"
text = '$(x) "quoted" \\ {[#]}'
truth = true
small = 1e-7
[grid.axes]
zeta = [2, 1]
dp = [2, 1]
[[grid.zip]]
m = ["B", "A"]
c = [1.5, 2]
[[grid.exclude]]
zeta = 1
m = ["A", "none"]
[[grid.override]]
when = {link = "shm"}
set = {small = 2.5, minutes = 9}
)"))};
  for (const char* name : {"smoke", "quick", "standard", "full"})
    paths.push_back(source + "/experiments/studies/" + name + ".toml");
  for (const std::string& path : paths) {
    const Study study = read_study(path);
    const Study back = read_study(folder.write("back.toml", to_toml(study)));
    EXPECT_EQ(back.name, study.name);
    EXPECT_EQ(back.description, study.description);
    EXPECT_EQ(to_toml(back), to_toml(study));
    const auto before = expand(study), after = expand(back);
    ASSERT_EQ(before.size(), after.size()) << path;
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(before[i].cell_id, after[i].cell_id) << path << " cell " << i;
      EXPECT_EQ(before[i].minutes, after[i].minutes);
      EXPECT_EQ(before[i].timeout, after[i].timeout);
      EXPECT_EQ(before[i].tags, after[i].tags);
    }
  }
}

TEST(SavedStudy, IsFoundAgainAndOneOfSeveralHasToBeNamed) {
  const TemporaryFolder folder;
  EXPECT_THROW(find_saved_study(folder.path() + "/none"), UsageError);
  EXPECT_THROW(find_saved_study(folder.path()), UsageError);
  Study study = read_study(folder.write("s.toml", head + "[[grid]]\nprogram = \"p\"\n[grid.axes]\na = [1, 2]\n"));
  apply_setting(study, "a=7");
  save_study(study, folder.path());
  const auto cells = expand(read_study(find_saved_study(folder.path())));
  EXPECT_EQ(values_of(cells, "a"), (std::vector<std::string>{"7"}));
  study.name = "other";
  save_study(study, folder.path());
  const std::string said = message_of<UsageError>([&] { find_saved_study(folder.path()); });
  EXPECT_NE(said.find("other.study.toml"), std::string::npos) << said;
}

TEST(Study, MistakesNameLineAndNearestName) {
  struct Case {
    std::string text, says;
  };
  const std::string grid = head + "[[grid]]\nprogram = \"p\"\n";
  const Case cases[] = {
      {grid + "timeuot = 3\n", "did you mean `timeout`"},
      {grid + "timeuot = 3\n", "s.toml:5"},
      {head + "[girds]\nx = 1\n", "did you mean `grid`"},
      {head, "no grid"},
      {"[[grid]]\nprogram = \"p\"\n", "name"},
      {"[study]\nname = \"a/b\"\n[[grid]]\nprogram = \"p\"\n", "file names"},
      {head + "[[grid]]\nname = \"x\"\n", "program"},
      {head + "[[grid]]\nprogram = \"../sh\"\n", "plain name"},
      {grid + "[grid.axes]\na = []\n", "empty"},
      {grid + "[grid.axes]\na = [1, 2, 1]\n", "same value twice"},
      {grid + "[grid.axes]\na = [1, 2, 1.0]\n", "same value twice"},
      {grid + "[grid.axes]\na = [1]\na = [2]\n", "s.toml:7"},
      {grid + "[grid.parameters]\na = 1\n[grid.axes]\na = [2]\n", "given twice"},
      {grid + "[grid.axes]\na = [2]\n[[grid.zip]]\na = [1]\n", "given twice"},
      {grid + "[[grid.zip]]\na = [1, 2]\nb = [1]\n", "has 1 values"},
      {grid + "[[grid.zip]]\nuse = \"none\"\n", "no set"},
      {grid + "[grid.axes]\na = [[1]]\n", "must be text"},
      {grid + "[grid.axes]\na = [2]\n[[grid.exclude]]\nb = 1\n", "no cell of the grid"},
      {grid + "[grid.axes]\na = [2]\n[[grid.exclude]]\na = 2\n", "leave no cell"},
      {grid + "link = \"wifi\"\n", "unknown link"},
      {grid + "timeout = -1\n", "positive"},
      {grid + "ranks = 3\n[grid.parameters]\ntp = 2\npp = 2\n", "needs 4 ranks, but ranks is 3"},
      {grid + "ranks = \"tp*qp\"\n[grid.parameters]\ntp = 2\npp = 2\n", "did you mean"},
      {grid + "ranks = 0\n", "0 ranks"},
      {grid + "ranks = 2\n[grid.axes]\nranks = [2]\n", "keep one"},
      {grid + "[grid.parameters]\nx = nan\n", "finite"},
      {grid + "x = [", "s.toml:"},
      {grid + "minuets = 3\n", "did you mean `minutes`"},
      {grid + "memory_gb = 3\n", "did you mean `memory_gib`"},
      {grid + "seed = [1]\n", "did you mean `seeds`"},
      {grid + "tag = \"x\"\n", "did you mean `tags`"},
      {grid + "repeat = {sedes = 3}\n", "did you mean `seeds`"},
      {grid + "repeat = {seeds = 0}\n", "1 to 10000"},
      {grid + "repeat = {seeds = 2}\nseeds = [1]\n", "keep one"},
      {grid + "seeds = [1, 2, 1]\n", "same value twice"},
      {grid + "seeds = [0.5]\n", "whole numbers"},
      {grid + "seeds = []\n", "empty"},
      {grid + "seeds = [1]\n[grid.parameters]\nseed = 1\n", "given twice"},
      {grid + "minutes = 0\n", "positive"},
      {grid + "minutes = \"long\"\n", "positive"},
      {grid + "tags = [\"a b\"]\n", "without blanks"},
      {head + "minutes = 3\n[[grid]]\nprogram = \"p\"\n", "would reach no grid"},
  };
  for (const Case& c : cases)
    EXPECT_NE(usage_error(c.text).find(c.says), std::string::npos)
        << c.text << "\nsays: " << usage_error(c.text);
  EXPECT_THROW(read_study("/nonexistent/s.toml"), EnvironmentError);
}

TEST(Study, SettingsReplaceAnAxisAndUnknownOnesAreRefused) {
  const TemporaryFolder folder;
  Study study = read_study(folder.write(
      "s.toml", head + "[[grid]]\nprogram = \"p\"\nlink = [\"shm\", \"netns:1gbit\"]\n[grid.axes]\nbatch = "
                       "[8, 32]\n[[grid.zip]]\nm = [1, 2]\nc = [3, 4]\n"));
  apply_setting(study, "batch=64");
  apply_setting(study, "link=shm");
  const auto cells = expand(study);
  EXPECT_EQ(values_of(cells, "batch"), (std::vector<std::string>{"64", "64"}));
  EXPECT_NE(message_of<UsageError>([&] { apply_setting(study, "bacth=1"); }).find("`batch`"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { apply_setting(study, "m=1"); }).find("--where"), std::string::npos);
  EXPECT_THROW(apply_setting(study, "batch"), UsageError);
}

TEST(Filter, KeepsCellsForWhichEveryClauseHolds) {
  const auto cells =
      cells_of(head +
               "[[grid]]\nprogram = \"p\"\nlink = [\"shm\", \"netns:1gbit\"]\n[grid.axes]\ntp = [1, 2, "
               "4]\ncodec = [\"topk:fraction=0.1\", \"topk:fraction=0.2+ef\", \"none\"]\n");
  EXPECT_EQ(filter(cells, "").size(), 18u);
  EXPECT_EQ(filter(cells, "codec=topk and tp=4").size(), 4u);
  EXPECT_EQ(filter(cells, "codec=*+ef and link=netns").size(), 3u);
  EXPECT_EQ(filter(cells, "codec!=none and ranks=2").size(), 4u);
  EXPECT_EQ(filter(cells, "cell_id=" + cells[5].cell_id.substr(0, 16)).size(), 1u);
  EXPECT_NE(message_of<UsageError>([&] { filter(cells, "codek=topk"); }).find("`codec`"), std::string::npos);
  EXPECT_THROW(filter(cells, "codec"), UsageError);
}

TEST(Launches, CellsThatShareProgramRanksAndLinkStartTogether) {
  const auto cells = cells_of(head +
                              "[[grid]]\nprogram = \"p\"\nlink = [\"shm\", \"netns:1gbit\"]\n[grid.axes]\ntp "
                              "= [1, 2]\na = [1, 2, 3]\n");
  const auto launches = group_into_launches(cells);
  ASSERT_EQ(launches.size(), 4u);
  for (const Launch& launch : launches) {
    EXPECT_EQ(launch.cells.size(), 3u);
    for (const PlannedCell& cell : launch.cells)
      EXPECT_TRUE(cell.link == launch.link && cell.ranks == launch.ranks);
  }
}

TEST(Launches, AShuffleKeepsEveryCellAndItsSeedDecidesTheOrder) {
  const auto cells =
      cells_of(head + "[[grid]]\nprogram = \"p\"\n[grid.axes]\ntp = [1, 2, 4, 8]\na = [1, 2, 3, 4, 5, 6, 7]\n");
  const auto order = [&](std::uint64_t seed) {
    auto launches = group_into_launches(cells);
    shuffle(launches, seed);
    std::vector<std::string> ids;
    for (const Launch& launch : launches)
      for (const PlannedCell& cell : launch.cells) {
        EXPECT_EQ(cell.ranks, launch.ranks);
        ids.push_back(cell.cell_id);
      }
    return ids;
  };
  const auto first = order(1);
  EXPECT_EQ(first, order(1));
  EXPECT_NE(first, order(2));
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), cells.size());
}

TEST(Estimates, ComeFromFinishedCellsOfTheSameProgramLinkAndRanksElseOfFewerOfTheseElseFromTheStudy) {
  const TemporaryFolder folder;
  const auto cells = cells_of(
      head + "[[grid]]\nprogram = \"p\"\nlink = [\"shm\", \"netns:1gbit\"]\nminutes = 2\n[grid.axes]\na = [1, 2]\n[[grid]]\nprogram = \"q\"\n");
  const auto shm = filter(cells, "link=shm and program=p"), netns = filter(cells, "link=netns"), q = filter(cells, "program=q");
  const Estimates nothing(cells, folder.path() + "/none");
  EXPECT_EQ(nothing.seconds_of(shm[0]), 120);
  EXPECT_EQ(nothing.seconds_of(q[0]), std::nullopt);
  // A wall clock that jumps between two lines; only `elapsed` counts.
  const auto line = [](const std::string& event, const std::string& cell, double time, double elapsed) {
    return R"({"event":")" + event + R"(","cell_id":")" + cell + R"(","time":)" + std::to_string(time) + R"(,"elapsed":)" +
           std::to_string(elapsed) + "}\n";
  };
  std::filesystem::create_directories(folder.path() + "/journal");
  folder.write("journal/0001.jsonl", line("cell_finished", shm[0].cell_id, 5000000, 6) +
                                         line("cell_finished", shm[1].cell_id, 1, 10) + line("cell_verdict", shm[1].cell_id, 1, 900));
  // A cell of another study counts where its launch says what ran; without that it does not.
  folder.write("journal/0002.jsonl", line("cell_finished", "unknown", 0, 70));
  folder.write("journal/0003.jsonl", line("cell_finished", "other study", 0, 12));
  std::filesystem::create_directories(folder.path() + "/launches");
  folder.write("launches/0003.json", R"({"program":"q","link":"shm"})");
  folder.write("journal/0004.jsonl", line("cell_finished", "on eight ranks", 0, 40));
  folder.write("launches/0004.json", R"({"program":"p","link":"shm","ranks":8})");
  const Estimates measured(cells, folder.path());
  EXPECT_EQ(measured.seconds_of(shm[1]), 5);
  PlannedCell eight = shm[1], four = shm[1];
  eight.ranks = 8;
  four.ranks = 4;
  EXPECT_EQ(measured.seconds_of(eight), 40);
  EXPECT_DOUBLE_EQ(measured.seconds_of(four).value(), 50.0 / 3);
  EXPECT_EQ(measured.seconds_of(netns[0]), 120);
  EXPECT_EQ(measured.seconds_of(q[0]), 12);
  EXPECT_DOUBLE_EQ(node_hours(shm[0], 1800, 2), 0.25);
}

TEST(Selection, MeasuredCellsOfAnotherBuildStandOnlyWhenToldTo) {
  const TemporaryFolder folder;
  const auto cells = cells_of(head + "[[grid]]\nprogram = \"p\"\n[grid.axes]\na = [1, 2, 3, 4]\n");
  folder.write("p", "the program");
  const std::string now = results::code_of(results::hash_of_binary(folder.path() + "/p"));
  using results::RecordState;
  using results::Status;
  const std::vector<CellState> states = {{RecordState::finished, Status::ok, "", now, ""},
                                         {RecordState::finished, Status::ok, "", "0123456789abcdef", ""},
                                         {RecordState::finished, Status::failed, "", "fedcba9876543210", ""},
                                         {RecordState::missing, Status::ok, "", "", ""}};
  const auto chosen = [&](IfCodeChanged what, std::set<Status> redo) {
    return values_of(cells_to_run(cells, states, {.redo = redo, .if_code_changed = what}, folder.path(), folder.path()), "a");
  };
  const std::set<Status> failed = {Status::failed};
  EXPECT_EQ(chosen(IfCodeChanged::redo, failed), (std::vector<std::string>{"2", "3", "4"}));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(chosen(IfCodeChanged::keep, failed), (std::vector<std::string>{"3", "4"}));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("1 of 4 cells in " + folder.path() + " were measured by another build of p"), std::string::npos);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(chosen(IfCodeChanged::keep, failed), (std::vector<std::string>{"3", "4"}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "a folder is warned of once, however many batches it is asked for";
  EXPECT_NE(message_of<UsageError>([&] { chosen(IfCodeChanged::error, failed); }).find("1 of 4 cells"), std::string::npos);
  // What runs again anyway is no reason to stop.
  EXPECT_EQ(chosen(IfCodeChanged::error, {Status::ok}), (std::vector<std::string>{"1", "2", "4"}));
  // A record older than the field counts as another build's.
  const std::vector<CellState> old = {{RecordState::finished, Status::ok, "", "", ""}};
  EXPECT_THROW(cells_to_run({cells.data(), 1}, old, {}, folder.path(), "out"), UsageError);
}

TEST(Scale, TenThousandCellsAreTenThousandIdentities) {
  std::string axis;
  for (int i = 0; i < 100; ++i) axis += (i ? ", " : "") + std::to_string(i);
  std::set<std::string> ids;
  for (const PlannedCell& cell : cells_of(head + "[[grid]]\nprogram = \"p\"\n[grid.axes]\na = [" + axis + "]\nb = [" + axis + "]\n")) ids.insert(cell.cell_id);
  EXPECT_EQ(ids.size(), 10000u);
}

TEST(ProductLibrary, OfTheMachineGoesIntoTheCellsThatDoNotSayItAndSplitsLaunches) {
  const TemporaryFolder folder;
  const std::string path = folder.write("s.toml", head + R"(
[[grid]]
name = "plain"
program = "p"
link = "shm"
[grid.axes]
hidden = [1, 2]
[[grid]]
name = "says"
program = "p"
link = "shm"
[grid.parameters]
hidden = 3
[grid.axes]
product-library = ["openblas", "onednn"]
)");
  Study study = read_study(path);
  const std::vector<PlannedCell> before = expand(study);
  apply_product_library(study, "");
  const std::vector<PlannedCell> untouched = expand(study);
  ASSERT_EQ(before.size(), 4u);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(untouched[i].cell_id, before[i].cell_id);
  EXPECT_EQ(group_into_launches(before).size(), 3u) << "a process has one library";

  apply_product_library(study, "onednn:kernels=SkylakeX");
  const std::vector<PlannedCell> tuned = expand(study);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(tuned[i].parameters.text(results::product_library_parameter), "onednn:kernels=SkylakeX");
    EXPECT_NE(tuned[i].cell_id, before[i].cell_id);
  }
  for (std::size_t i = 2; i < 4; ++i) EXPECT_EQ(tuned[i].cell_id, before[i].cell_id);
  // A folder is continued with what its cells were made with, whatever the machine says then.
  const std::vector<PlannedCell> again = expand(read_study(folder.write("saved.toml", to_toml(study))));
  ASSERT_EQ(again.size(), tuned.size());
  for (std::size_t i = 0; i < tuned.size(); ++i) EXPECT_EQ(again[i].cell_id, tuned[i].cell_id);
}

}  // namespace
}  // namespace thinwire::sweep
