// labels: unit
// Claims of a measured basis whose numbers the claims program computes itself name the sources that do, and their rules' hashes cover these.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include "core/error.h"
#include "experiments/claims/registry.h"
#include "results/files/files.h"
#include "support/temporary_folder.h"
#include "thinwire_version.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::message_of;

/// Of a measured basis, computed in this process, without Claim::computed_by; and why.
const std::map<std::string, std::string>& exceptions() {
  // Their verdicts are committed with the numbers that they are from (results/reference/cpu-2-cores/optimus_cc/optimus_cc.boundary_probe). Another hash would make them verdicts by a former rule until the
  // probe is run again; name its sources then.
  static const std::string committed = "committed verdicts of the boundary probe";
  static const std::map<std::string, std::string> all = {{"optimus_cc.C10", committed}, {"optimus_cc.C11", committed}, {"optimus_cc.C16a", committed}, {"optimus_cc.C16b", committed}};
  return all;
}
const std::set<std::string> excepted_files = {"experiments/claims/optimus_cc/cells/boundary_probe.cpp"};

using Files = std::set<std::string>;

std::string text_of_source(const std::string& path) {
  return results::read_file(std::string(THINWIRE_SOURCE_FOLDER) + "/" + path);
}

bool exists(const std::string& path) {
  return std::filesystem::exists(std::string(THINWIRE_SOURCE_FOLDER) + "/" + path);
}

/// Whether it belongs to a page, not to what all claims share.
bool is_of_a_page(const std::string& path) {
  constexpr std::string_view root = "experiments/claims/";
  if (!path.starts_with(root)) return false;
  const std::string rest = path.substr(root.size());
  return rest.find('/') != std::string::npos && !rest.starts_with("rule/") && !rest.starts_with("kept/");
}

/// Sources of pages that these files include, those behind the headers, and so on; with the files themselves.
Files reached_from(const std::string& source) {
  static const std::regex include("#include \"(experiments/claims/[^\"]+)\"");
  Files all = {source};
  std::vector<std::string> next = {source};
  while (!next.empty()) {
    const std::string text = text_of_source(next.back());
    next.pop_back();
    for (std::sregex_iterator at(text.begin(), text.end(), include), end; at != end; ++at) {
      const std::string header = (*at)[1];
      const std::string behind = header.substr(0, header.rfind('.')) + ".cpp";
      for (const std::string& file : {header, behind})
        if (is_of_a_page(file) && exists(file) && all.insert(file).second) next.push_back(file);
    }
  }
  return all;
}

/// Whether this text computes what would otherwise be measured in cells.
bool computes(const std::string& text) {
  constexpr std::array marks = {"kept_numbers(", "kept_json(", "about_to_compute(", "about_to_calculate("};
  return std::ranges::any_of(marks, [&](const char* mark) { return text.find(mark) != std::string::npos; });
}

Claim trained_here() {
  Claim claim;
  claim.id = "x.C1", claim.statement = "s", claim.basis = Basis::training;
  claim.source = "a.cpp";
  claim.measure = [](JudgeContext&) { return Finding{}; };
  return claim;
}

TEST(ComputedBy, TheHashOfARuleCoversTheNamedSourcesAndItsOwn) {
  const SourceHashes hashes = {{"a.cpp", "1"}, {"cells/b.cpp", "2"}, {"cells/b.h", "3"}, {"cells/c.cpp", "4"}};
  Claim claim = trained_here();
  const std::string bare = rule_hash(claim, hashes);
  claim.computed_by = {"cells/b.cpp", "cells/b.h"};
  const std::string named = rule_hash(claim, hashes);
  EXPECT_NE(named, bare);
  for (const char* file : {"a.cpp", "cells/b.cpp", "cells/b.h"}) {
    SourceHashes changed = hashes;
    changed[file] = "9";
    EXPECT_NE(rule_hash(claim, changed), named) << file;
  }
  SourceHashes other = hashes;
  other["cells/c.cpp"] = "9";
  EXPECT_EQ(rule_hash(claim, other), named) << "of a file that it does not name";
  claim.computed_by = {"cells/b.h", "cells/b.cpp"};
  EXPECT_EQ(rule_hash(claim, hashes), named) << "in another order";
  claim.computed_by.push_back("cells/lost.cpp");
  EXPECT_THROW((void)rule_hash(claim, hashes), std::logic_error);
}

TEST(ComputedBy, WithoutNamedSourcesTheHashOfAMeasuredClaimCoversNone) {
  EXPECT_EQ(rule_hash(trained_here(), {{"a.cpp", "1"}}), rule_hash(trained_here(), {}));
  Claim exact = trained_here();
  exact.basis = Basis::exact;
  EXPECT_NE(rule_hash(exact, {{"a.cpp", "1"}}), rule_hash(exact, {{"a.cpp", "2"}}));
}

TEST(ComputedBy, APathThatIsNoSourceIsRefusedAtRegistration) {
  Claim claim = trained_here();
  claim.id = "optimus_cc.C999";
  claim.computed_by = {"experiments/claims/kept/kept.cpp", "experiments/claims/kept/lost.cpp"};
  const std::string why = message_of<std::logic_error>([&] { register_claim(claim); });
  EXPECT_NE(why.find("optimus_cc.C999"), std::string::npos) << why;
  EXPECT_NE(why.find("experiments/claims/kept/lost.cpp"), std::string::npos) << why;
  EXPECT_TRUE(std::ranges::none_of(all_claims(), [](const Claim* c) { return c->id == "optimus_cc.C999"; }));
}

TEST(ComputedBy, SourcesAndHeadersOfAllFoldersAreHashed) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(THINWIRE_SOURCE_FOLDER) + "/experiments/claims")) {
    const std::string path = std::filesystem::relative(entry.path(), THINWIRE_SOURCE_FOLDER);
    EXPECT_TRUE(!(path.ends_with(".cpp") || path.ends_with(".h")) || source_hashes().contains(path)) << path;
  }
}

// What computes the numbers of a claim that is registered as measured would else change and show nowhere.
TEST(ComputedBy, AClaimWhoseCodeComputesHereIsHashedWithIt) {
  for (const Claim* claim : all_claims()) {
    if (is_computed(claim->basis) || !claim->computed_by.empty() || exceptions().contains(claim->id)) continue;
    for (const std::string& file : reached_from(claim->source))
      EXPECT_FALSE(computes(text_of_source(file))) << claim->id << " has the basis " << name_of(claim->basis) << ", and " << file << " computes in this process: name what does in computed_by";
  }
}

// A claim may be registered by a function of another file, whose code then says nothing of it.
TEST(ComputedBy, EachFileThatComputesHereIsInTheHashOfAClaim) {
  Files hashed = excepted_files;
  for (const Claim* claim : all_claims()) {
    if (!is_computed(claim->basis) && claim->computed_by.empty()) continue;
    hashed.insert(claim->source);
    hashed.insert(claim->computed_by.begin(), claim->computed_by.end());
  }
  int found = 0;
  for (const auto& [path, hash] : source_hashes()) {
    if (!is_of_a_page(path) || !computes(text_of_source(path))) continue;
    ++found;
    EXPECT_TRUE(hashed.contains(path)) << path << " computes in this process, and no claim is hashed with it";
  }
  EXPECT_GE(found, 15) << "of the pages' files";
}

TEST(ComputedBy, NamesAllSourcesOfPagesThatAClaimReaches) {
  int naming = 0;
  for (const Claim* claim : all_claims()) {
    if (claim->computed_by.empty()) continue;
    ++naming;
    Files reached = reached_from(claim->source);
    reached.erase(claim->source);
    EXPECT_EQ(Files(claim->computed_by.begin(), claim->computed_by.end()), reached) << claim->id;
  }
  EXPECT_GE(naming, 9);
}

TEST(ComputedBy, ExceptionsAreStillNeeded) {
  for (const auto& [id, why] : exceptions()) {
    const std::vector<const Claim*> found = claims_named(id);
    ASSERT_EQ(found.size(), 1u) << id;
    EXPECT_TRUE(!is_computed(found[0]->basis) && found[0]->computed_by.empty()) << id << " needs none: " << why;
    EXPECT_TRUE(std::ranges::any_of(reached_from(found[0]->source), [](const std::string& file) { return excepted_files.contains(file); })) << id << " reaches no file that computes";
  }
}

}  // namespace
}  // namespace thinwire::claims
