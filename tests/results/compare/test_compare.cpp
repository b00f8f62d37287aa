// labels: unit
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/random.h"
#include "core/statistics.h"
#include "results/compare/compare.h"
#include "results/compare/compare_statistics.h"
#include "results/hdf5/hdf5.h"
#include "results/record.h"
#include "support/temporary_folder.h"

namespace thinwire::results {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

constexpr std::uint64_t seed = 20260101;

/// A made-up file: cells of 100 us whose times scatter by `noise` within a run and by `spread` between runs.
struct Made {
  int cells = 60, repetitions = 20, ranks = 2;
  double noise = 0.03, spread = 0.01;
  double outliers = 0;              ///< share of repetitions that take ten times as long
  std::vector<double> effect = {};  ///< factor of the first cells
  double machine = 1;               ///< factor of everything, baselines included
  std::uint64_t run = 0;
  std::string codec = "topk:fraction=0.1";
  std::int64_t row_seed = 1;
};

CollectedFile make(const Made& made) {
  CollectedFile file{"made.h5", "", {}, {}, {}};
  const Random random(seed, mix_stream(17, made.run));
  std::uint64_t next = 0;
  for (int c = 0; c < made.cells; ++c) {
    CellRow row;
    row.cell_id = "cell" + std::to_string(c) + "seed" + std::to_string(made.row_seed);
    row.program = "bench_activation";
    row.traffic = "tp_forward";
    row.codec = made.codec;
    row.link = c % 2 == 0 ? "shm" : "netns:1gbit";
    row.tensor = "t" + std::to_string(c);
    row.seed = made.row_seed;
    row.link_bytes = 1000;
    row.relative_l2 = 0.25;
    file.cells.push_back(row);
    const double factor =
        static_cast<std::size_t>(c) < made.effect.size() ? made.effect[static_cast<std::size_t>(c)] : 1;
    const double run = made.machine * std::exp(made.spread * random.normal(next++));
    for (int repetition = 0; repetition < made.repetitions; ++repetition) {
      // What disturbs a lap disturbs the baseline's lap beside it.
      const double outlier = random.uniform(4 * next++) < made.outliers ? 10 : 1;
      const double lap = run * std::exp(made.noise * random.normal(next++)) * outlier;
      for (int rank = 0; rank < made.ranks; ++rank) {
        const double share = rank == 0 ? 1 : 0.5;  // the slowest rank decides
        file.samples.push_back(
            {row.cell_id, row.traffic, rank, repetition, 0, 0, 0, 100 * share * factor * lap, 0});
        file.samples.push_back({row.cell_id, row.traffic, rank, repetition, 0, 0, 0, 200 * share * lap, 1});
      }
    }
  }
  return file;
}

CompareOptions with(auto change) {
  CompareOptions options;
  change(options);
  return options;
}

TEST(CompareStatistics, StudentsDistributionHasItsTabulatedValues) {
  EXPECT_NEAR(student_two_sided(12.7062, 1), 0.05, 1e-6);
  EXPECT_NEAR(student_two_sided(2.22814, 10), 0.05, 1e-6);
  EXPECT_NEAR(student_two_sided(-2.75, 30), 0.01, 1e-5);
  EXPECT_NEAR(student_two_sided(1.959964, 1e7), 0.05, 1e-6);
  for (const double degrees : {0.7, 1.0, 4.3, 25.0, 1000.0})
    for (const double p : {0.5, 0.05, 1e-4, 1e-6})
      EXPECT_NEAR(student_two_sided(student_quantile(p, degrees), degrees) / p, 1, 1e-6)
          << degrees << " " << p;
}

TEST(CompareStatistics, ScaleIsUnbiasedFromTwoValuesOn) {
  const Random random(seed, "scale");
  std::uint64_t next = 0;
  for (const std::size_t n : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20}) {
    double sum = 0;
    constexpr int trials = 40000;
    std::vector<double> values(n);
    for (int i = 0; i < trials; ++i) {
      for (double& value : values) value = random.normal(next++);
      sum += robust_scale(values) * robust_scale(values);
    }
    EXPECT_NEAR(sum / trials, 1, 0.04) << n << " values, seed " << seed;
  }
  EXPECT_EQ(robust_scale(std::vector<double>{3}), 0);
}

TEST(CompareStatistics, ShiftIsTheMedianDifferenceAndItsOwnMirror) {
  const std::vector<double> a = {1, 2, 30}, b = {2, 4, 5, 6};
  EXPECT_EQ(shift_between(a, b), 1.5);  // -28 -26 -25 -24 0 1 2 3 3 4 4 5, sorted by hand
  EXPECT_EQ(shift_between(b, a), -shift_between(a, b));
  EXPECT_TRUE(std::isnan(shift_between({}, a)));
  EXPECT_EQ(centre_of(std::vector<double>{1, 2, 9}), 3.5);  // 1 1.5 2 5 5.5 9
}

TEST(CompareStatistics, AdjustmentIsBenjaminiAndHochbergs) {
  const std::vector<double> adjusted = adjust_for_many(std::vector<double>{0.01, 0.04, 0.03, 0.9});
  EXPECT_NEAR(adjusted[0], 0.04, 1e-12);
  EXPECT_NEAR(adjusted[1], 0.04 * 4 / 3, 1e-12);
  EXPECT_NEAR(adjusted[2], 0.04 * 4 / 3, 1e-12);
  EXPECT_NEAR(adjusted[3], 0.9, 1e-12);
  EXPECT_TRUE(adjust_for_many({}).empty());
}

TEST(Compare, AFileAgainstItselfIsTheSameThroughout) {
  CollectedFile file = make({.noise = 0.8, .outliers = 0.1});
  file.cells[3].status = "SKIPPED";
  file.cells[4].status = "MISTRUSTED";
  const Comparison comparison = compare({file}, {file}, {});
  EXPECT_EQ(comparison.count(Verdict::same), 60);
  EXPECT_FALSE(comparison.any_worse());
}

TEST(Compare, SwappedSidesGiveTheMirroredVerdicts) {
  std::vector<double> effects;
  for (int i = 0; i < 30; ++i) effects.push_back(i % 3 == 0 ? 1.3 : i % 3 == 1 ? 0.7 : 1.04);
  CollectedFile a = make({.run = 1}), b = make({.effect = effects, .run = 2});
  a.cells.erase(a.cells.begin() + 40);
  b.cells.erase(b.cells.begin() + 50);
  b.cells[41].link_bytes += 1;
  const Comparison forward = compare({a}, {b}, {}), backward = compare({b}, {a}, {});
  std::map<std::string, const ComparedCell*> of;
  for (const ComparedCell& cell : backward.cells) of[cell.key.cell_id] = &cell;
  const std::map<Verdict, Verdict> mirror = {{Verdict::faster, Verdict::slower},
                                             {Verdict::slower, Verdict::faster},
                                             {Verdict::only_in_a, Verdict::only_in_b},
                                             {Verdict::only_in_b, Verdict::only_in_a}};
  for (const ComparedCell& cell : forward.cells) {
    const auto expected = mirror.find(cell.verdict);
    EXPECT_EQ(of[cell.key.cell_id]->verdict, expected == mirror.end() ? cell.verdict : expected->second);
    if (std::isfinite(cell.change)) {
      EXPECT_NEAR((1 + cell.change) * (1 + of[cell.key.cell_id]->change), 1, 1e-12);
    }
  }
  EXPECT_GE(forward.count(Verdict::slower), 9);
  EXPECT_GE(forward.count(Verdict::faster), 9);
}

// The promise: where nothing changed, the chance that any of the cells is called faster or slower is the
// error rate.
TEST(Compare, WhereNothingChangedAVerdictIsAsRareAsPromised) {
  for (const double outliers : {0.0, 0.05}) {
    int wrong = 0;
    constexpr int trials = 200;
    for (int i = 0; i < trials; ++i) {
      const CollectedFile a = make({.cells = 24,
                                    .repetitions = 10,
                                    .ranks = 1,
                                    .spread = 0.04,
                                    .outliers = outliers,
                                    .run = static_cast<std::uint64_t>(2 * i)}),
                          b = make({.cells = 24,
                                    .repetitions = 7,
                                    .ranks = 1,
                                    .spread = 0.04,
                                    .outliers = outliers,
                                    .run = static_cast<std::uint64_t>(2 * i + 1)});
      const Comparison comparison = compare({a}, {b}, with([](CompareOptions& o) { o.threshold = 0; }));
      wrong += comparison.count(Verdict::faster) + comparison.count(Verdict::slower) > 0;
    }
    EXPECT_LE(wrong, 21) << "of " << trials << " with outliers " << outliers << ", seed "
                         << seed;  // 99.9 % quantile of the binomial at 5 %
  }
}

TEST(Compare, AChangeOfTenPercentIsFoundWhereRunsAgree) {
  int found = 0, falsely = 0;
  constexpr int trials = 20, changed = 10;
  for (int i = 0; i < trials; ++i) {
    const CollectedFile a = make({.cells = 120, .run = static_cast<std::uint64_t>(1000 + 2 * i)}),
                        b = make({.cells = 120,
                                  .effect = std::vector<double>(changed, 1.1),
                                  .run = static_cast<std::uint64_t>(1001 + 2 * i)});
    const Comparison comparison = compare({a}, {b}, {});
    for (std::size_t c = 0; c < comparison.cells.size(); ++c) {
      found += c < changed && comparison.cells[c].verdict == Verdict::slower;
      falsely += c >= changed && (comparison.cells[c].verdict == Verdict::slower ||
                                  comparison.cells[c].verdict == Verdict::faster);
    }
  }
  EXPECT_GE(found, trials * changed * 9 / 10) << "of " << trials * changed << ", seed " << seed;
  EXPECT_LE(falsely, trials) << "seed " << seed;
}

TEST(Compare, WhereRunsDisagreeOneOfEachDecidesNothingAndSixDo) {
  const auto runs = [](std::uint64_t first, double effect) {
    std::vector<CollectedFile> files;
    for (std::uint64_t i = 0; i < 6; ++i)
      files.push_back(
          make({.cells = 30, .spread = 0.08, .effect = std::vector<double>(8, effect), .run = first + i}));
    return files;
  };
  const std::vector<CollectedFile> a = runs(2000, 1), b = runs(2100, 1.3);
  const Comparison one = compare({a[0]}, {b[0]}, {}), six = compare(a, b, {});
  EXPECT_LE(one.count(Verdict::slower), 4);
  EXPECT_GE(six.count(Verdict::slower), 7);
  EXPECT_LE(six.count(Verdict::slower), 9);
  EXPECT_EQ(six.count(Verdict::faster), 0);
  EXPECT_EQ(six.cells[0].pairs, 6);
  EXPECT_NE(six.groups[0].source.find("repeated runs"), std::string::npos);
  EXPECT_NEAR(six.groups[0].run_spread, 0.08, 0.03);
}

TEST(Compare, TheBaselineTakesOutWhatTheMachineDid) {
  const CollectedFile a = make({.run = 1}), b = make({.machine = 1.4, .run = 2});
  EXPECT_GE(compare({a}, {b}, {}).count(Verdict::slower), 55);
  const Comparison comparison =
      compare({a}, {b}, with([](CompareOptions& o) { o.metric = Metric::speedup; }));
  EXPECT_EQ(comparison.count(Verdict::same), 60);
  EXPECT_NEAR(comparison.cells[0].a_us, 0.5, 1e-9);
}

TEST(Compare, AKnownSpreadIsTakenAndUncertainCellsAreCalledSo) {
  const CollectedFile a = make({.cells = 3, .run = 1}), b = make({.cells = 3, .effect = {1.1}, .run = 2});
  EXPECT_EQ(compare({a}, {b}, with([](CompareOptions& o) { o.run_spread = 0.01; })).cells[0].verdict,
            Verdict::slower);
  EXPECT_EQ(compare({a}, {b}, with([](CompareOptions& o) { o.run_spread = 0.2; })).cells[0].verdict,
            Verdict::undecided);
  EXPECT_NE(compare({a}, {b}, {}).groups[0].source.find("assumed"), std::string::npos);
}

TEST(Compare, StatusBytesAndErrorComeBeforeTimes) {
  const CollectedFile a = make({});
  CollectedFile b = a;
  b.cells[0].status = "WRONG";
  b.cells[0].reason = "differs from the sum";
  b.cells[1].payload_bytes = 5;
  b.cells[2].relative_l2 = 0.26;
  b.cells[3].relative_l2 = 0.2501;  // within 1 %
  b.cells[4].relative_l2 = 0.2;
  const Comparison comparison = compare({a}, {b}, {});
  EXPECT_EQ(comparison.cells[0].verdict, Verdict::status_differs);
  EXPECT_TRUE(comparison.cells[0].worse);
  EXPECT_NE(comparison.cells[0].note.find("differs from the sum"), std::string::npos);
  EXPECT_EQ(comparison.cells[1].verdict, Verdict::bytes_differ);
  EXPECT_EQ(comparison.cells[1].time, Verdict::same);
  EXPECT_TRUE(comparison.cells[1].worse);
  EXPECT_EQ(comparison.cells[2].verdict, Verdict::error_differs);
  EXPECT_TRUE(comparison.cells[2].worse);
  EXPECT_EQ(comparison.cells[3].verdict, Verdict::same);
  EXPECT_EQ(comparison.cells[4].verdict, Verdict::error_differs);
  EXPECT_FALSE(comparison.cells[4].worse);
  EXPECT_FALSE(compare({b}, {a}, {}).cells[0].worse);
}

TEST(Compare, TheWorstOfSeveralRunsDecides) {
  const CollectedFile good = make({});
  CollectedFile bad = good;
  bad.cells[0].link_bytes = 1001;
  bad.cells[1].relative_l2 = 0.5;
  bad.cells[2].status = "MISTRUSTED";
  bad.cells[3].status = "WRONG";
  bad.cells[4].link_bytes = 999;  // fewer bytes are a difference, not a loss
  bad.samples[0].total_us *= 2;   // or the times of cell 0 would be identical
  for (auto& sample : bad.samples)
    if (sample.cell_id == bad.cells[2].cell_id) sample.total_us *= 2;
  for (const std::vector<CollectedFile>& b : {std::vector{good, bad}, std::vector{bad, good}}) {
    const Comparison comparison = compare({good, good}, b, {});
    EXPECT_EQ(comparison.cells[0].verdict, Verdict::bytes_differ);
    EXPECT_TRUE(comparison.cells[0].worse);
    EXPECT_NE(comparison.cells[0].note.find("1001"), std::string::npos);
    EXPECT_EQ(comparison.cells[1].verdict, Verdict::error_differs);
    EXPECT_TRUE(comparison.cells[1].worse);
    EXPECT_EQ(comparison.cells[2].verdict, Verdict::undecided);
    EXPECT_EQ(comparison.cells[2].status_b, "MISTRUSTED");
    EXPECT_EQ(comparison.cells[2].note, "link MISTRUSTED in B");
    EXPECT_EQ(comparison.cells[3].verdict, Verdict::status_differs);
    EXPECT_TRUE(comparison.cells[3].worse);
    EXPECT_EQ(comparison.cells[4].verdict, Verdict::bytes_differ);
    EXPECT_FALSE(comparison.cells[4].worse);
    EXPECT_EQ(comparison.cells[5].verdict, Verdict::same);
  }
}

TEST(Compare, TwoCodecsOfOneFilePairByWhatTheyShareAndBySeed) {
  std::vector<CollectedFile> both;
  for (const std::int64_t s : {1, 2, 3, 4})
    for (const bool slow : {false, true}) {
      CollectedFile part = make({.cells = 12,
                                 .effect = std::vector<double>(12, slow ? 1.5 : 1),
                                 .run = static_cast<std::uint64_t>(s) * 2 + slow,
                                 .codec = slow ? "quantize:bits=4" : "topk:fraction=0.1",
                                 .row_seed = s});
      for (CellRow& row : part.cells) row.cell_id += row.codec;
      for (SampleRow& sample : part.samples) sample.cell_id += part.cells[0].codec;
      both.push_back(part);
    }
  CollectedFile file = both[0];
  for (std::size_t i = 1; i < both.size(); ++i) {
    file.cells.insert(file.cells.end(), both[i].cells.begin(), both[i].cells.end());
    file.samples.insert(file.samples.end(), both[i].samples.begin(), both[i].samples.end());
  }
  CollectedFile a = file, b = file;
  select_rows(a, "codec=topk");
  select_rows(b, "codec=quantize:* and codec!=topk");
  CompareOptions options;
  options.match = key_columns();
  std::erase(options.match, "codec");
  const Comparison comparison = compare({a}, {b}, options);
  EXPECT_EQ(comparison.cells.size(), 12u);
  EXPECT_EQ(comparison.count(Verdict::slower), 12);
  EXPECT_EQ(comparison.cells[0].pairs, 4);
  EXPECT_NEAR(comparison.cells[0].change, 0.5, 0.05);
  EXPECT_NE(message_of<UsageError>([&] { compare({file}, {b}, options); }).find("differ in codec"),
            std::string::npos);
  options.match = {"tensr"};
  EXPECT_NE(message_of<UsageError>([&] { compare({a}, {b}, options); }).find("tensor"), std::string::npos);
  EXPECT_THROW(select_rows(a, "codec=none"), UsageError);
  EXPECT_THROW(select_rows(a, "codec"), UsageError);
}

TEST(Compare, CellsWithoutSamplesAreUndecided) {
  CollectedFile a = make({.cells = 2});
  a.samples.clear();
  const Comparison comparison = compare({a}, {a}, {});
  EXPECT_EQ(comparison.count(Verdict::undecided), 2);
  EXPECT_NE(comparison.cells[0].note.find("no samples"), std::string::npos);
  EXPECT_TRUE(comparison.groups.empty());
}

TEST(Compare, OutputsHoldEveryCellAndFetchNothing) {
  CollectedFile a = make({.run = 1}), b = make({.effect = std::vector<double>(5, 2), .run = 2});
  a.cells[7].reason = b.cells[7].reason = "<script>alert(1)</script>";
  a.cells[7].status = "FAILED";
  const Comparison comparison = compare({a}, {b}, {});
  const auto json = nlohmann::json::parse(as_json(comparison));
  EXPECT_EQ(json["cells"].size(), 60u);
  EXPECT_EQ(json["cells"][0]["verdict"], "slower");
  EXPECT_EQ(json["counts"]["slower"], comparison.count(Verdict::slower));
  EXPECT_TRUE(json["worse"]);
  const std::string html = as_html(comparison);
  for (const char* outside : {"http", "<script", "url(", "@import"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  std::size_t rows = 0;
  for (std::size_t at = html.find("<tr><td class"); at != std::string::npos;
       at = html.find("<tr><td class", at + 1))
    ++rows;
  EXPECT_EQ(rows, 60u);
  const std::string few = as_text(comparison, false), all = as_text(comparison, true);
  EXPECT_NE(few.find("slower"), std::string::npos);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n') - std::count(few.begin(), few.end(), '\n'),
            comparison.count(Verdict::same) + comparison.count(Verdict::undecided));
}

TEST(Compare, FilesThatCannotBeComparedAreNamed) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name) {
    const CollectedFile made = make({.cells = 2});
    write_h5_atomically(folder / name, [&](h5::File& file) {
      file.write_table("cells", to_table(std::span<const CellRow>(made.cells), cell_columns()));
      file.write_table("samples", to_table(std::span<const SampleRow>(made.samples), sample_columns()));
    });
    return folder / name;
  };
  const std::string good = write("good.h5");
  EXPECT_EQ(read_collected(good).samples.size(), make({.cells = 2}).samples.size());
  EXPECT_NE(message_of<EnvironmentError>([&] { read_collected(folder / "none.h5"); }).find("none.h5"),
            std::string::npos);
  const std::string bytes = TemporaryFolder::read(good),
                    cut = folder.write("cut.h5", bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(message_of<CorruptData>([&] { read_collected(cut); }).find("cut.h5"), std::string::npos);
  const std::string other = folder / "other.h5";
  {
    h5::File file = h5::File::create(other);
    file.set_attribute("", "schema_version", 99);
    file.close();
  }
  EXPECT_NE(message_of<CorruptData>([&] { read_collected(other); }).find("99"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::results
