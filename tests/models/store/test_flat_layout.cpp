// Where parameters lie in flat ones: the page's worked example, who is with whom, each element once.
#include <gtest/gtest.h>

#include <numeric>

#include "models/store/flat_layout.h"

namespace thinwire {
namespace {

const std::vector<FlatUnit> model = {{"embedding", -1}, {"layer0", 0}, {"layer1", 1}, {"head", 2}};

/// A tied table, and of each layer two matrices and a vector.
std::vector<FlatCandidate> candidates() {
  return {{"token", 530, true, false, {0, 3}},        {"position", 160, true, false, {0}},     {"layer0.norm", 10, false, false, {1}}, {"layer0.small", 300, true, false, {1}},
          {"layer0.large", 1200, true, false, {1}}, {"layer1.norm", 10, false, false, {2}}, {"layer1.small", 300, true, false, {2}}, {"layer1.large", 1200, true, false, {2}},
          {"head.norm", 10, false, false, {3}}};
}

std::vector<std::string> names(const FlatParameter& flat, const std::vector<FlatCandidate>& of) {
  std::vector<std::string> list;
  for (const FlatParameter::Member& m : flat.members) list.push_back(of[m.candidate].name);
  return list;
}
using Names = std::vector<std::string>;

// docs/papers/sharded_compression.md, "Worked examples": shapes (5,3), (7), (4,4) over 4 ranks.
TEST(FlatLayout, HasThePagesWorkedExample) {
  const std::vector<FlatCandidate> three = {{"a", 15, true, false, {0}}, {"b", 7, false, false, {0}}, {"c", 16, true, false, {0}}};
  const auto starts = [](const FlatParameter& flat) {
    std::vector<std::int64_t> list;
    for (const FlatParameter::Member& m : flat.members) list.push_back(m.first);
    return list;
  };
  const FlatParameter packed = flat_parameters(three, {{"layer0", 0}}, {.shards = 4}).at(0);
  EXPECT_EQ(starts(packed), (std::vector<std::int64_t>{0, 15, 22}));
  EXPECT_EQ(packed.shard, 10);
  EXPECT_EQ(packed.padding(), 2);
  const FlatParameter aligned = flat_parameters(three, {{"layer0", 0}}, {.shards = 4, .alignment = 8}).at(0);
  EXPECT_EQ(starts(aligned), (std::vector<std::int64_t>{0, 16, 24}));
  EXPECT_EQ(aligned.elements(), 40);
  EXPECT_EQ(aligned.padding(), 2);
}

TEST(FlatLayout, AUnitIsOneAndATiedTableIsReadByTwo) {
  const auto all = candidates();
  const auto flats = flat_parameters(all, model, {.shards = 2});
  ASSERT_EQ(flats.size(), 4u);
  EXPECT_EQ(names(flats[0], all), (Names{"token", "position"}));
  EXPECT_EQ(flats[0].readers, (std::vector<int>{0, 3}));
  EXPECT_EQ(names(flats[1], all), (Names{"layer0.norm", "layer0.small", "layer0.large"}));
  EXPECT_EQ(flats[1].name, "layer0.flat");
  EXPECT_EQ(names(flats[3], all), (Names{"head.norm"}));
  EXPECT_EQ(flats[3].readers, (std::vector<int>{3}));
}

// TAGC: what is large enough is wrapped, the rest stays in the root.
TEST(FlatLayout, BySizeLargeMatricesAreAloneAndTheRestIsOne) {
  const auto all = candidates();
  const auto flats = flat_parameters(all, model, {.shards = 2, .alone_from = 500});
  ASSERT_EQ(flats.size(), 4u);
  EXPECT_EQ(names(flats[0], all), (Names{"position", "layer0.norm", "layer0.small", "layer1.norm", "layer1.small", "head.norm"}));
  EXPECT_EQ(flats[0].name, "rest from embedding.flat");
  EXPECT_EQ(flats[0].readers, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(names(flats[1], all), (Names{"token"}));
  EXPECT_EQ(flats[1].readers, (std::vector<int>{0, 3}));
  EXPECT_EQ(names(flats[2], all), (Names{"layer0.large"}));
  EXPECT_EQ(flats[3].name, "layer1.large.flat");
}

// Chunks of an interleaved pipeline are not gathered together.
TEST(FlatLayout, TheRestOfEachChunkIsItsOwn) {
  const std::vector<FlatUnit> chunks = {{"layer0", 0}, {"layer1", 1}, {"layer4", 4}, {"layer5", 5}};
  const std::vector<FlatCandidate> all = {{"a", 8, true, false, {0}}, {"b", 8, true, false, {1}}, {"c", 8, true, false, {2}}, {"d", 8, true, false, {3}}};
  const auto flats = flat_parameters(all, chunks, {.shards = 2, .alone_from = 9});
  ASSERT_EQ(flats.size(), 2u);
  EXPECT_EQ(names(flats[0], all), (Names{"a", "b"}));
  EXPECT_EQ(names(flats[1], all), (Names{"c", "d"}));
  EXPECT_EQ(flats[1].name, "rest from layer4.flat");
}

// What `layers` of a rule goes by: the layers of a model name no root, whatever layer its chunk begins with.
TEST(FlatLayout, ARootIsNoLayersOnWhateverStage) {
  const std::vector<FlatUnit> stage = {{"layer2", 2}, {"layer3", 3}};
  const std::vector<FlatCandidate> all = {{"norm", 8, false, false, {0}}, {"large", 90, true, false, {0}}, {"small", 8, true, false, {1}}, {"larger", 99, true, false, {1}}};
  const auto layers = [&](std::int64_t alone_from) {
    std::vector<int> list;
    for (const FlatParameter& flat : flat_parameters(all, stage, {.shards = 2, .alone_from = alone_from})) list.push_back(flat.rule_layer);
    return list;
  };
  EXPECT_EQ(layers(50), (std::vector<int>{-1, 2, 3})) << "the root, and what is alone";
  EXPECT_EQ(layers(0), (std::vector<int>{2, 3})) << "units";
}

TEST(FlatLayout, EveryElementHasOnePlaceWhateverDivides) {
  const auto all = candidates();
  for (const int shards : {1, 2, 3, 4, 7})
    for (const std::int64_t alignment : {1, 2, 4})
      for (const std::int64_t alone : {0, 301, 100000}) {
        std::vector<int> placed(all.size(), 0);
        for (const FlatParameter& flat : flat_parameters(all, model, {shards, alone, alignment})) {
          std::int64_t end = 0, members = 0;
          for (const FlatParameter::Member& m : flat.members) {
            EXPECT_GE(m.first, end);
            EXPECT_EQ(m.first % alignment, 0);
            EXPECT_LT(m.first - end, alignment);
            EXPECT_EQ(m.elements, all[m.candidate].elements);
            end = m.end(), members += m.elements;
            ++placed[m.candidate];
          }
          EXPECT_GE(flat.elements(), end);
          EXPECT_LT(flat.elements() - end, shards);
          EXPECT_EQ(flat.padding(), flat.elements() - members);
        }
        EXPECT_EQ(placed, std::vector<int>(all.size(), 1)) << shards << alignment << alone;
      }
}

}  // namespace
}  // namespace thinwire
