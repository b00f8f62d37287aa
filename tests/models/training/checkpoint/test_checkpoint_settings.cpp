// labels: unit, resume
// A checkpoint of a program that did not know a setting: what it did is the setting's default, or what the option says that was done formerly.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/training/checkpoint/checkpoint_settings.h"
#include "models/training/config/train_options.h"

namespace thinwire {
namespace {

/// As write_settings leaves it, without the settings of these flags.
SettingDifferences without(const std::vector<std::string>& flags, const TrainConfig& here) {
  const h5::File file = h5::File::create_in_memory();
  const TrainConfig there;
  const h5::Group group = file.create_group("config");
  for (const TrainOption& option : train_options())
    if (std::ranges::count(flags, option.flag) == 0) group.set_attribute("", option.flag, option.get(there));
  file.set_attribute("", "corpus_sha256", "text");
  file.set_attribute("", "compresses", 0);
  return compare_settings(file, here, "text");
}

TEST(CheckpointSettings, OfAnUnknownSettingTheDefaultIsMeant) {
  EXPECT_TRUE(without({"dropout", "recompute"}, {}).rest.empty());
  TrainConfig other;
  other.model.dropout = 0.5;
  EXPECT_EQ(without({"dropout"}, other).rest, (std::vector<std::string>{"dropout is 0 there, 0.5 here"}));
}

TEST(CheckpointSettings, OfOneWhoseDefaultIsNewWhatWasDoneBeforeItIsMeant) {
  EXPECT_TRUE(without({}, {}).rest.empty());
  EXPECT_EQ(without({"flush-subnormals"}, {}).rest, (std::vector<std::string>{"flush-subnormals is false there, true here"}));
  TrainConfig as_before;
  as_before.flush_subnormals = false;
  EXPECT_TRUE(without({"flush-subnormals"}, as_before).rest.empty());
}

}  // namespace
}  // namespace thinwire
