// labels: unit
// Which codec for which link, on rows whose times and sizes are made up, so that the answer is known.
#include "bench/codec/codec_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace thinwire::bench {
namespace {

// One megabyte of f32 and a codec with these numbers.
results::CellRow row(const std::string& codec, double ratio, double vnmse, double codec_us) {
  results::CellRow r;
  r.codec = codec;
  r.dense_bytes = 1'000'000;
  r.payload_bytes = static_cast<std::int64_t>(1e6 / ratio);
  r.ratio = ratio;
  r.vnmse = vnmse;
  r.encode_us = r.decode_us = codec_us / 2;
  return r;
}

const std::vector<results::CellRow>& rows() {
  static const std::vector<results::CellRow> all = [] {
    std::vector<results::CellRow> r = {row("none", 1, 0, 1e6), row("quick", 2, 1e-7, 20), row("middle", 10, 1e-3, 300), row("slow", 40, 9e-3, 5'000), row("wild", 500, 0.9, 1)};
    r.push_back(row("broken", 1000, 0, 1));
    r.back().status = "SKIPPED";
    return r;
  }();
  return all;
}

// A dense megabyte takes 8000 us / (Gbit/s).
TEST(CodecChoice, MessageTimeIsEncodeBytesOverBandwidthAndDecode) {
  EXPECT_DOUBLE_EQ(message_us_per_byte(rows()[2], 10) * 1e6, 300 + 80);
  EXPECT_DOUBLE_EQ(message_us_per_byte(rows()[0], 10) * 1e6, 800) << "the identity needs no codec, whatever its copy takes";
  results::CellRow half = rows()[2];  // measured on half of the tensor: the same per byte
  half.dense_bytes /= 2, half.payload_bytes /= 2, half.encode_us /= 2, half.decode_us /= 2;
  EXPECT_DOUBLE_EQ(message_us_per_byte(half, 10), message_us_per_byte(rows()[2], 10));
  EXPECT_TRUE(std::isnan(message_us_per_byte(results::CellRow{}, 10))) << "not timed";
}

TEST(CodecChoice, EachLinkGetsTheQuickestOfTheTolerable) {
  ChoiceRules rules;
  rules.links_gbps = {0.1, 10, 100, 1000};
  const auto choices = choose_for_links(rows(), rules);
  ASSERT_EQ(choices.size(), 4u);
  // 0.1 Gbit/s: dense 80000; slow 5000 + 2000; middle 300 + 8000. The wild one would take 161, and is not tolerable; the broken one has no result.
  EXPECT_EQ(choices[0].row->codec, "slow");
  EXPECT_DOUBLE_EQ(choices[0].us_per_byte * 1e6, 7000);
  EXPECT_DOUBLE_EQ(choices[0].dense_us_per_byte * 1e6, 80'000);
  EXPECT_EQ(choices[1].row->codec, "middle");  // 380; quick 420; dense 800
  EXPECT_EQ(choices[2].row->codec, "quick");   // 60; dense 80
  EXPECT_EQ(choices[3].row, nullptr);          // quick 24, dense 8: no codec pays
  EXPECT_DOUBLE_EQ(choices[3].us_per_byte * 1e6, 24);
  rules.max_vnmse = 1;
  for (const LinkChoice& choice : choose_for_links(rows(), rules)) EXPECT_EQ(choice.row->codec, "wild");
  rules.max_vnmse = 1e-9;
  for (const LinkChoice& choice : choose_for_links(rows(), rules)) EXPECT_EQ(choice.row, nullptr);
}

TEST(CodecChoice, RanksTheTolerableByRatioAndTheOthersByError) {
  std::vector<results::CellRow> all = rows();
  all.push_back(row("worse", 600, 1.1, 1));
  all.push_back(row("nan", 600, std::nan(""), 1));
  std::vector<std::string> names;
  for (const results::CellRow* r : ranked(all, tolerable_vnmse)) names.push_back(r->codec);
  EXPECT_EQ(names, (std::vector<std::string>{"slow", "middle", "quick", "none", "wild", "worse"}));
}

TEST(CodecChoice, RulesComeFromTheCommandLineAndNonsenseIsRefused) {
  EXPECT_EQ(choice_rules({}).max_vnmse, tolerable_vnmse);
  const ChoiceRules rules = choice_rules({{"max-vnmse", "0.2"}, {"links", "0.5,8"}});
  EXPECT_EQ(rules.max_vnmse, 0.2);
  EXPECT_EQ(rules.links_gbps, (std::vector<double>{0.5, 8}));
  for (const char* links : {"", "fast", "1,,2", "1,-2", "0", "inf", "nan"}) EXPECT_THROW(choice_rules({{"links", links}}), UsageError) << links;
  for (const char* limit : {"", "0", "-1", "nan", "1e"}) EXPECT_THROW(choice_rules({{"max-vnmse", limit}}), UsageError) << limit;
}

std::string printed(std::span<const results::CellRow> some) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* to = open_memstream(&text, &size);
  print_choice(to, some, ChoiceRules{});
  std::fclose(to);
  const std::string result(text, size);
  std::free(text);
  return result;
}

TEST(CodecChoice, TheTablesSayWhatIsLeftOutAndWhatWasNotTimed) {
  const std::string all = printed(rows());
  EXPECT_LT(all.find("slow"), all.find("middle"));
  EXPECT_LT(all.find("# Above that error"), all.find("wild"));
  EXPECT_NE(all.find("1 of 6 codecs have no result"), std::string::npos) << all;
  EXPECT_NE(all.find("Which codec for which link"), std::string::npos);
  std::vector<results::CellRow> checked = rows();
  for (auto& r : checked) r.encode_us = r.decode_us = results::not_measured;
  EXPECT_EQ(printed(checked).find("Which codec for which link"), std::string::npos) << "--check times nothing";
  EXPECT_EQ(printed({}), "");
}

}  // namespace
}  // namespace thinwire::bench
