// labels: unit
// Every metric: by hand, against numpy on drawn rows (metrics_oracle.py), and where it is undefined.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <sstream>

#include "core/error.h"
#include "models/metrics/metric.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire {
namespace {

using Values = std::vector<double>;

}  // namespace

TEST(Metrics, AreThoseOfTheClosedForms) {
  const Values wanted{1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, predicted{1, 1, 1, 1, 0, 0, 1, 0, 0, 0};  // TP 4, FN 2, FP 1, TN 3
  EXPECT_DOUBLE_EQ(metric_value("accuracy", predicted, wanted), 0.7);
  EXPECT_DOUBLE_EQ(metric_value("f1", predicted, wanted), 8.0 / 11);
  EXPECT_DOUBLE_EQ(metric_value("f1_micro", predicted, wanted), 0.7);
  EXPECT_DOUBLE_EQ(metric_value("matthews", predicted, wanted), (4 * 3 - 1 * 2) / std::sqrt(5.0 * 6 * 4 * 5));
}

TEST(Metrics, CorrelationsAreOneOfLinesAndOfRisingCurves) {
  const Values x{1, 2, 3, 4, 5};
  const Values line{7, 9, 11, 13, 15}, falling{5, 4, 3, 2, 1}, curve{1, 8, 27, 64, 125};
  EXPECT_DOUBLE_EQ(metric_value("pearson", line, x), 1);
  EXPECT_DOUBLE_EQ(metric_value("pearson", falling, x), -1);
  EXPECT_DOUBLE_EQ(metric_value("spearman", curve, x), 1);
  EXPECT_LT(metric_value("pearson", curve, x), 0.95);
}

TEST(Metrics, EqualValuesShareTheMeanOfTheirRanks) {
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: sum of d^2 = 0.5; r = 4.5 / sqrt(4.5 * 5).
  EXPECT_DOUBLE_EQ(metric_value("spearman", Values{0.1, 0.4, 0.4, 9}, Values{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5));
}

TEST(Metrics, AConstantPredictionShowsNothing) {
  const Values wanted{0.5, 1, 2, 0.1}, constant(4, 0.1), classes{1, 0, 1, 0}, ones(4, 1), zeros(4, 0);
  EXPECT_EQ(metric_value("pearson", constant, wanted), 0);
  EXPECT_EQ(metric_value("spearman", constant, wanted), 0);
  EXPECT_EQ(metric_value("matthews", ones, classes), 0);
  EXPECT_EQ(metric_value("f1", zeros, classes), 0);
  EXPECT_EQ(metric_value("f1", zeros, zeros), 0);
}

TEST(Metrics, AgreeWithNumpyOnDrawnRows) {
  std::mt19937_64 random(7);
  std::string input;
  std::vector<double> ours;
  std::vector<std::string> what;
  for (const Metric& metric : metrics())
    for (const std::size_t rows : {5, 64, 1999}) {
      const bool scores = metric.name == "pearson" || metric.name == "spearman";
      const std::uint64_t values = scores ? 40 : metric.name == "f1_micro" || metric.name == "accuracy" ? 3 : 2;
      Values predicted{1, 0, 1}, wanted{1, 1, 0};  // both classes on both sides, one of them right
      for (std::size_t i = predicted.size(); i < rows; ++i) {
        wanted.push_back(static_cast<double>(random() % values));
        predicted.push_back(random() % 3 == 0 ? static_cast<double>(random() % values) : wanted.back());
      }
      if (scores)
        for (double& p : predicted) p = p * 0.125 + 1e6;  // a mean far from 0
      std::ostringstream line;
      line.precision(17);
      line << metric.name;
      for (const double p : predicted) line << ' ' << p;
      line << " |";
      for (const double w : wanted) line << ' ' << w;
      input += line.str() + "\n";
      ours.push_back(metric_value(metric.name, predicted, wanted));
      what.push_back(metric.name + " of " + std::to_string(rows) + " rows");
    }
  const testing::TemporaryFolder folder;
  const std::string command = "/usr/bin/python3 " + testing::source_folder() + "/tests/models/metrics/metrics_oracle.py < " +
                              folder.write("cases", input) + " > " + (folder / "values");
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::istringstream values(folder.read(folder / "values"));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    double numpy = std::numeric_limits<double>::quiet_NaN();
    values >> numpy;
    EXPECT_NEAR(ours[i], numpy, 1e-12) << what[i];
  }
  EXPECT_GE(ours.size(), 18u);
}

TEST(Metrics, RefuseAnUnknownNameAndADivergedModel) {
  const Values two{0, 1}, broken{0, std::nan("")};
  EXPECT_NE(testing::message_of<UsageError>([&] { metric_value("f2", two, two); }).find("f1, f1_micro, matthews"), std::string::npos);
  EXPECT_NE(testing::message_of<RuntimeFailure>([&] { metric_value("spearman", broken, two); }).find("prediction 1 is nan"), std::string::npos);
}

}  // namespace thinwire
