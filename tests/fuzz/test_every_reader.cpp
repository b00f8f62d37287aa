// labels: unit
// timeout: 1200
// first: yes
// joined: no
// Every fuzz target on its seeds, its corpus and inputs made of them, so many by number and not by time. What a run of minutes is: scripts/fuzz.sh, which uses this
// program where there is no libFuzzer:
//   THINWIRE_FUZZ_TARGET  that target alone         THINWIRE_FUZZ_COUNT    mutated inputs of each target (a quarter of its own number)
//   THINWIRE_TEST_SEED    of the mutations (1)      THINWIRE_FUZZ_SECONDS  instead of a number: until so much time is over
//   THINWIRE_FUZZ_KEEP    folder for inputs that go wrong (fuzz-findings)
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/clock.h"
#include "core/error.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/run_inputs.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::fuzz {
namespace {

using thinwire::testing::TemporaryFolder;

std::string setting(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : otherwise;
}

std::vector<Target> chosen_targets() {
  if (const std::string name = setting("THINWIRE_FUZZ_TARGET", ""); !name.empty()) return {target(name)};
  return targets();
}

std::string keep_folder() {
  return setting("THINWIRE_FUZZ_KEEP", "fuzz-findings");
}

/// Name and content of the committed inputs, by name.
std::vector<std::pair<std::string, std::string>> corpus_of(const Target& target) {
  std::vector<std::pair<std::string, std::string>> inputs;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(setting("THINWIRE_SOURCE_DIR", ".") + "/tests/fuzz/corpus/" + target.name, none))
    inputs.emplace_back(entry.path().filename(), TemporaryFolder::read(entry.path()));
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

std::optional<std::string> at(const std::vector<std::string>& inputs, std::uint64_t i) {
  return i < inputs.size() ? std::optional(inputs[i]) : std::nullopt;
}

void expect_nothing_found(const Report& report) {
  for (const std::string& finding : report.findings) ADD_FAILURE() << finding;
}

TEST(EveryReader, AcceptsItsSeeds) {
  EXPECT_FALSE(targets().empty());
  for (const Target& target : chosen_targets()) {
    const std::vector<std::string> seeds = target.seeds();
    EXPECT_FALSE(seeds.empty()) << target.name << " has nothing to begin with";
    const Report report = run_inputs(
        target, [&](std::uint64_t i) { return at(seeds, i); }, keep_folder());
    expect_nothing_found(report);
    EXPECT_EQ(report.refused, 0u) << target.name << " refuses seeds of its own: its inputs do not get behind the first check";
  }
}

TEST(EveryReader, GivesAResultOrAnErrorOnEveryInputOfItsCorpus) {
  for (const Target& target : chosen_targets()) {
    std::vector<std::string> inputs;
    for (const auto& [name, input] : corpus_of(target)) inputs.push_back(input);
    expect_nothing_found(run_inputs(
        target, [&](std::uint64_t i) { return at(inputs, i); }, keep_folder()));
  }
}

TEST(EveryReader, GivesAResultOrAnErrorOnMutatedInputs) {
  const std::uint64_t seed = std::stoull(setting("THINWIRE_TEST_SEED", "1")), count = std::stoull(setting("THINWIRE_FUZZ_COUNT", "0"));
  const double seconds = std::stod(setting("THINWIRE_FUZZ_SECONDS", "0"));
  for (const Target& target : chosen_targets()) {
    std::vector<std::string> corpus = target.seeds();
    for (auto& [name, input] : corpus_of(target)) corpus.push_back(std::move(input));
    const Random random(seed, target.name);
    const Stopwatch watch;
    const Report report = run_inputs(
        target,
        [&](std::uint64_t i) -> std::optional<std::string> {
          if (seconds > 0 ? watch.seconds() > seconds : i >= (count > 0 ? count : target.inputs / 4)) return std::nullopt;
          return mutated(corpus, random, i, target.first_line_stays);
        },
        keep_folder());
    expect_nothing_found(report);
    std::printf("%-18s seed %llu: %7llu read, %7llu refused, %5.2f s\n", target.name.c_str(), static_cast<unsigned long long>(seed), static_cast<unsigned long long>(report.read),
                static_cast<unsigned long long>(report.refused), watch.seconds());
  }
}

// ---- of what the above stands on ----

TEST(Mutations, AreTheSameForASeedAndANumberAndLeaveTheFirstLine) {
  const std::vector<std::string> corpus = {"topk fair 0 4\nabcdefgh", "head\n" + std::string(300, 'x')};
  const Random random(7, "mutations"), other(8, "mutations");
  std::size_t differ = 0, changed = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::string text = mutated(corpus, random, i, true);
    ASSERT_EQ(text, mutated(corpus, random, i, true));
    const std::string head(split_first_line(text).first);
    ASSERT_TRUE(head == "topk fair 0 4" || head == "head") << head;
    ASSERT_EQ(text[head.size()], '\n');
    differ += text != mutated(corpus, other, i, true);
    changed += text != corpus[0] && text != corpus[1];
    ASSERT_LE(mutated(corpus, random, i, false, 16).size(), 16u);
  }
  EXPECT_GT(differ, 450u);
  EXPECT_GT(changed, 450u);
  EXPECT_NO_THROW(mutated({""}, random, 3, true));
}

// A reader that goes wrong in each way on one of the digits.
Target wrong_reader() {
  Target target{};
  target.name = "wrong";
  target.read = [](std::string_view input) {
    if (input == "2") throw CorruptData("as it should");
    if (input == "3") throw std::out_of_range("what the standard library says");
    if (input == "4") TW_ASSERT(input == "5", "an invariant that input breaks");
    if (input == "6") std::abort();
    if (input == "7") _exit(0);
  };
  return target;
}

TEST(RunInputs, TellsAndKeepsWhatThrowsAndWhatKillsAndReadsTheRest) {
  const TemporaryFolder folder;
  const Report report = run_inputs(
      wrong_reader(), [](std::uint64_t i) { return i < 8 ? std::optional(std::to_string(i)) : std::nullopt; }, folder / "keep");
  EXPECT_EQ(report.read, 3u);  // 0, 1 and 5
  EXPECT_EQ(report.refused, 1u);
  ASSERT_EQ(report.findings.size(), 4u);
  EXPECT_NE(report.findings[0].find("std::out_of_range"), std::string::npos) << report.findings[0];
  EXPECT_NE(report.findings[1].find("invariant"), std::string::npos) << report.findings[1];
  EXPECT_NE(report.findings[2].find("wrong-6"), std::string::npos) << report.findings[2];
  EXPECT_NE(report.findings[3].find("status 0"), std::string::npos) << report.findings[3];
  EXPECT_EQ(TemporaryFolder::read(folder / "keep/wrong-6"), "6");
  EXPECT_EQ(run_inputs(
                wrong_reader(), [](std::uint64_t) { return std::optional<std::string>("3"); }, folder / "keep", 2)
                .findings.size(),
            2u);
}

TEST(RunInputs, LeaveNoFolderOfAChildBehind) {
  Target target = wrong_reader();
  target.read = [](std::string_view input) { throw std::runtime_error("wrote " + as_file("x", input)); };
  const TemporaryFolder folder;
  const Report report = run_inputs(
      target, [](std::uint64_t i) { return i < 2 ? std::optional<std::string>("x") : std::nullopt; }, folder / "keep");
  ASSERT_EQ(report.findings.size(), 2u);
  for (const std::string& finding : report.findings) EXPECT_NE(finding.find("wrote " + folder_of_files() + "/x"), std::string::npos) << finding << ", and this process removes " << folder_of_files();
}

}  // namespace
}  // namespace thinwire::fuzz
