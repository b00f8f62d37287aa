// labels: unit
// What a link's name says of it before anything goes over it.
#include "results/link_kind.h"

#include <gtest/gtest.h>

namespace thinwire::results {
namespace {

TEST(LinkKinds, ALinkIsOfTheKindThatItsNameBeginsWith) {
  for (const auto& [link, kind] : {std::pair{"shm", "shm"}, {"none", "none"}, {"fabric", "fabric"}, {"netns:100mbit", "netns"}, {"emulated:1gbit,latency=2ms", "emulated"}}) {
    ASSERT_NE(kind_of_link(link), nullptr) << link;
    EXPECT_EQ(kind_of_link(link)->name, kind);
  }
}

TEST(LinkKinds, OtherNamesAreOfNone) {
  for (const char* link : {"", "netns", "emulated", "shm:fast", "netns2:1gbit", "infiniband", ":", "none:"}) EXPECT_EQ(kind_of_link(link), nullptr) << link;
}

TEST(LinkKinds, WhatNobodyCanBuildIsToldBeforeAnythingRuns) {
  for (const char* link : {"shm", "none", "fabric", "netns:100mbit", "netns:2.5gbit", "emulated:anything"}) EXPECT_EQ(wrong_with_link(link), "") << link;
  for (const char* link : {"100mbit", "netns", "netns:", "netns:foo", "netns:1gb", "netns:-1gbit", "netns:01gbit", "netns:1gbit,latency=1ms"}) EXPECT_NE(wrong_with_link(link), "") << link;
}

TEST(LinkKinds, EveryKindIsFoundByItsOwnNameAndNamedInMessages) {
  for (const LinkKind& kind : link_kinds()) {
    EXPECT_EQ(kind_of_link(std::string(kind.name) + (kind.named ? ":x" : "")), &kind);
    EXPECT_NE(link_forms().find(kind.form), std::string::npos) << link_forms();
  }
}

TEST(LinkKinds, OnlyTheLabsBytesAndThoseOfARealFabricAreTheKernels) {
  EXPECT_FALSE(kind_of_link("shm")->by_kernel);
  EXPECT_FALSE(kind_of_link("emulated:1gbit")->by_kernel);
  EXPECT_TRUE(kind_of_link("netns:1gbit")->by_kernel);
  EXPECT_TRUE(kind_of_link("fabric")->by_kernel);
  for (const LinkKind& kind : link_kinds()) EXPECT_EQ(kind.in_lab, kind.name == "netns");
}

}  // namespace
}  // namespace thinwire::results
