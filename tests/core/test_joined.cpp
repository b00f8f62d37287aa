// labels: unit
// Lists of names as one text.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/joined.h"

namespace thinwire {
namespace {

using Names = std::vector<std::string>;

struct Option {
  std::string name;
  std::string_view form;
  std::string flag() const { return "--" + name; }
};

TEST(Joined, PutsSomethingBetweenNamesAndNothingAroundThem) {
  EXPECT_EQ(joined(Names{}), "");
  EXPECT_EQ(joined(Names{"a"}), "a");
  EXPECT_EQ(joined(Names{"a", "b", "c"}), "a, b, c");
}

TEST(Joined, TakesAnotherSeparator) {
  EXPECT_EQ(joined(Names{"a", "b"}, " or "), "a or b");
  EXPECT_EQ(joined(Names{"a", "b"}, ""), "ab");
}

TEST(Joined, TakesAnyRangeOfTexts) {
  EXPECT_EQ(joined(std::set<std::string>{"b", "a"}), "a, b");
  EXPECT_EQ(joined(std::array<std::string_view, 2>{"a", "b"}), "a, b");
  EXPECT_EQ(joined(std::array{"a", "b"}), "a, b");
}

TEST(Joined, AsksAProjectionForTheText) {
  const std::vector<Option> options = {{"batch", "N"}, {"out", "FILE"}};
  EXPECT_EQ(joined(options, ", ", &Option::name), "batch, out");
  EXPECT_EQ(joined(options, "|", &Option::form), "N|FILE");
  EXPECT_EQ(joined(options, " ", &Option::flag), "--batch --out");
  EXPECT_EQ(joined(std::array{&options[1], &options[0]}, ", ", &Option::name), "out, batch");
  EXPECT_EQ(joined(std::vector<int>{1, 2}, ",", [](int i) { return std::to_string(i); }), "1,2");
}

TEST(Joined, ListsTheKeysOfAMap) {
  const std::map<std::string, int> map = {{"b", 1}, {"a", 2}};
  EXPECT_EQ(joined_keys(map), "a, b");
  EXPECT_EQ(joined_keys(map, " "), "a b");
  EXPECT_EQ(joined_keys(std::map<std::string, int>{}), "");
}

TEST(Joined, ForgetsEmptyNamesAtTheFrontAlone) {
  EXPECT_EQ(joined(Names{"", "a", "", "b"}), "a, , b");
}

}  // namespace
}  // namespace thinwire
