// labels: unit
// The functions of nn that stand where models had loops of their own, so that one call serves the host and devices: what they promise, on the
// host. Their CUDA implementations are held against them elsewhere (tests/support/nn_placement_cases.h).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/layernorm.h"
#include "kernels/nn/optimizer.h"
#include "kernels/nn/device/placed_tokens.h"
#include "kernels/nn/softmax.h"
#include "kernels/nn/sums.h"

namespace thinwire::nn {
namespace {

constexpr std::uint64_t seed = 20261121;

template <typename T = float>
std::vector<T> normal(std::int64_t count, const char* name) {
  const Random random(seed, name);
  std::vector<T> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random.normal(i));
  return v;
}

TEST(PlacedFunctions, AddedRowsRepeatWithTheirPeriodAndTheGradientCollectsThem) {
  constexpr std::int64_t rows = 11, columns = 5;
  for (std::int64_t period : {1, 3, 20})
    for (std::int64_t first : {0, 2}) {
      SCOPED_TRACE("period " + std::to_string(period) + ", first " + std::to_string(first));
      const auto x = normal(period * columns, "x"), y = normal(rows * columns, "y");
      auto sum = y, gradient = x, expected_sum = y, expected_gradient = x;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto at = static_cast<std::size_t>(r * columns + c), of = static_cast<std::size_t>((first + r) % period * columns + c);
          expected_sum[at] += x[of];
          expected_gradient[of] += y[at];
        }
      add_rows<float>(rows, columns, period, first, x.data(), sum.data());
      add_rows_gradient<float>(rows, columns, period, first, y.data(), gradient.data());
      EXPECT_EQ(sum, expected_sum);
      EXPECT_EQ(gradient, expected_gradient) << "sums run in the order of the rows";
    }
}

TEST(PlacedFunctions, CopiedRowsLeaveWhatLiesBetweenThemAlone) {
  const std::vector<float> from = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> to(11, -1);
  copy_rows<float>(3, 2, from.data(), 3, to.data(), 4);
  EXPECT_EQ(to, (std::vector<float>{1, 2, -1, -1, 4, 5, -1, -1, 7, 8, -1}));
}

TEST(PlacedFunctions, DropoutOfSomeColumnsDropsWhatDropoutOfAllDrops) {
  constexpr std::int64_t rows = 7, all = 30, first_column = 11, columns = 9, first_row = 4;
  const DropoutKey key{.seed = 3, .name = "grid", .step = 5};
  const auto x = normal((first_row + rows) * all, "x");
  std::vector<float> whole(x.size()), part(rows * columns), mine;
  dropout<float>(static_cast<std::int64_t>(x.size()), 0.4, key, 0, x.data(), whole.data());
  std::vector<float> expected;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>((first_row + r) * all + first_column + c);
      mine.push_back(x[at]);
      expected.push_back(whole[at]);
    }
  dropout_rows<float>(rows, columns, all, 0.4, key, first_row * all + first_column, mine.data(), part.data());
  EXPECT_EQ(part, expected);
  dropout_rows<float>(rows, columns, all, 0.0, key, 0, mine.data(), part.data());
  EXPECT_EQ(part, mine);
  EXPECT_THROW(dropout_rows<float>(rows, columns, all, 1.0, key, 0, mine.data(), part.data()), UsageError);
}

TEST(PlacedFunctions, StatisticsThatAreReducedGiveTheLossesAndGradientsOfGatheredOnes) {
  // Three ranks: the second has padding behind its columns, the third nothing but padding.
  constexpr std::int64_t rows = 4, columns = 6, vocab = 10;
  const std::vector<std::int64_t> valid = {6, 4, 0};
  const std::vector<std::int32_t> targets = {0, 9, 5, 6};
  std::vector<std::vector<double>> logits, statistics;
  std::vector<double> gathered, maxima(rows, -INFINITY), sums(2 * rows, 0);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    logits.push_back(normal<double>(rows * columns, rank == 0 ? "first" : "second"));
    statistics.emplace_back(3 * rows);
    softmax_statistics<double>(rows, columns, valid[rank], static_cast<std::int64_t>(rank) * columns, vocab, logits[rank].data(), targets.data(),
                               statistics[rank].data());
    gathered.insert(gathered.end(), statistics[rank].begin(), statistics[rank].end());
    std::vector<double> own(rows);
    take_maxima<double>(rows, statistics[rank].data(), own.data());
    for (std::size_t r = 0; r < rows; ++r) maxima[r] = std::max(maxima[r], own[r]);
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    std::vector<double> own(2 * rows);
    rescale_sums<double>(rows, valid[rank], statistics[rank].data(), maxima.data(), own.data());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const auto first = static_cast<std::int64_t>(rank) * columns;
    auto a = logits[rank], b = logits[rank];
    std::vector<double> losses(rows), same(rows), joined(3 * rows);
    split_cross_entropy<double>(rows, columns, valid[rank], first, 3, gathered.data(), targets.data(), 0.5, a.data(), losses.data());
    join_statistics<double>(rows, maxima.data(), sums.data(), joined.data());
    split_cross_entropy<double>(rows, columns, valid[rank], first, 1, joined.data(), targets.data(), 0.5, b.data(), same.data());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
    for (std::size_t r = 0; r < rows; ++r) EXPECT_NEAR(losses[r], same[r], 1e-12);
  }
}

TEST(PlacedFunctions, NormalisationOfWholeRowsIsThatInHalvesBitForBit) {
  constexpr std::int64_t rows = 5, columns = 37;
  const auto x = normal(rows * columns, "x"), dy = normal(rows * columns, "dy"), gamma = normal(columns, "gamma"), beta = normal(columns, "beta");
  std::vector<float> y[2], mean[2], rstd[2], dx[2], dgamma[2], dbeta[2];
  for (int whole = 0; whole < 2; ++whole) {
    y[whole].resize(x.size()), mean[whole].resize(rows), rstd[whole].resize(rows);
    dx[whole] = dy, dgamma[whole] = gamma, dbeta[whole] = beta;
    std::vector<float> sums(2 * rows);
    row_moments<float>(rows, columns, x.data(), sums.data());
    normalise<float>(rows, columns, columns, x.data(), whole ? nullptr : sums.data(), gamma.data(), beta.data(), y[whole].data(), mean[whole].data(),
                     rstd[whole].data());
    gradient_moments<float>(rows, columns, x.data(), dy.data(), gamma.data(), mean[whole].data(), rstd[whole].data(), sums.data());
    normalise_backward<float>(rows, columns, columns, x.data(), dy.data(), gamma.data(), mean[whole].data(), rstd[whole].data(),
                              whole ? nullptr : sums.data(), true, dx[whole].data(), dgamma[whole].data(), dbeta[whole].data());
  }
  EXPECT_EQ(y[0], y[1]);
  EXPECT_EQ(mean[0], mean[1]);
  EXPECT_EQ(rstd[0], rstd[1]);
  EXPECT_EQ(dx[0], dx[1]);
  EXPECT_EQ(dgamma[0], dgamma[1]);
}

TEST(PlacedFunctions, TotalsAreTheLoopsTheyReplaceBitForBit) {
  const auto losses = normal(1031, "losses");
  double total = 0;
  for (float loss : losses) total += static_cast<double>(loss);
  const double share = 1.0 / 7;
  double mean = 0, weighted = 0.25;
  add_total<float, double>(1031, losses.data(), 1.0, 1031.0, &mean);
  EXPECT_EQ(mean, total / 1031.0);
  add_total<double, double>(1, &mean, share, 1.0, &weighted);
  EXPECT_EQ(weighted, 0.25 + share * mean);
  float narrow = 0;
  add_total<float, float>(1031, losses.data(), share, 1.0, &narrow);
  EXPECT_EQ(narrow, static_cast<float>(total * share));

  double squares = 0.5;
  add_sum_of_squares<float>(1031, losses.data(), &squares);
  EXPECT_EQ(squares, 0.5 + sum_of_squares<float>(1031, losses.data()));
}

TEST(PlacedFunctions, ClippedAdamWIsAdamWWithTheClippingFactor) {
  const auto g = normal(100, "gradient");
  const double squares = sum_of_squares<float>(100, g.data());
  for (double max_norm : {0.5 * std::sqrt(squares), 2 * std::sqrt(squares)}) {
    auto w = normal(100, "weight"), other = w;
    std::vector<float> m(100), v(100), other_m(100), other_v(100);
    clipped_adamw_step<float>({}, 0.1, 1e-2, 3, max_norm, &squares, 100, g.data(), w.data(), m.data(), v.data());
    adamw_step<float>({}, 0.1, 1e-2, 3, clip_factor(std::sqrt(squares), max_norm), 100, g.data(), other.data(), other_m.data(), other_v.data());
    EXPECT_EQ(w, other);
    EXPECT_EQ(v, other_v);
  }
}

TEST(PlacedFunctions, OnTheHostTokensStayWhereTheyAreAndNothingIsAskedOfADevice) {
  const std::vector<std::int32_t> list = {1, 2, 3};
  PlacedTokens tokens;
  EXPECT_EQ(tokens.set(list), list.data());
  PlacedTokens moved = std::move(tokens);
  EXPECT_EQ(moved.data(), list.data());
  EXPECT_NO_THROW(check_device_status());
}

}  // namespace
}  // namespace thinwire::nn
