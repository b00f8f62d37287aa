// labels: unit
// What subspace networks' codec stands on (docs/papers/low_bandwidth_pipeline.md, "Subspace networks"): orthonormal bases, the page's worked example, and the table
// that both ends know.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/half.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/wrappers/row_subspace.h"
#include "kernels/codec/wrappers/token_table.h"

namespace thinwire {
namespace {

using Floats = std::vector<float>;
using Tokens = std::vector<std::int32_t>;

TEST(RowSubspace, RandomBasesAreOrthonormalAndASmallerOneLiesInALargerOne) {
  for (const auto& [columns, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {2, 1}, {2, 2}, {7, 3}, {13, 13}, {61, 60}, {96, 15}, {512, 80}, {997, 31}, {1024, 160}, {257, 257}}) {
    SCOPED_TRACE(std::to_string(columns) + " columns, " + std::to_string(width) + " of them");
    const RowSubspace subspace = RowSubspace::random(columns, width, 3);
    const std::span<const float> u = subspace.basis();
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (std::int64_t c = 0; c < columns; ++c) dot += double{u[static_cast<std::size_t>(c * width + i)]} * u[static_cast<std::size_t>(c * width + j)];
        ASSERT_NEAR(dot, i == j ? 1 : 0, 1e-6) << i << ", " << j;
      }
    const std::int64_t fewer = (width + 1) / 2;
    const RowSubspace smaller = RowSubspace::random(columns, fewer, 3);
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t j = 0; j < fewer; ++j) ASSERT_NEAR(smaller.basis()[static_cast<std::size_t>(c * fewer + j)], u[static_cast<std::size_t>(c * width + j)], 1e-6);
  }
  EXPECT_FALSE(std::ranges::equal(RowSubspace::random(32, 4, 3).basis(), RowSubspace::random(32, 4, 4).basis())) << "another seed";
}

// The page's worked example: U, F, x and the gradient as they stand there, and the payload to the byte.
TEST(RowSubspace, FollowsTheWorkedExample) {
  RowSubspace subspace(4, 2, {.5f, .5f, .5f, -.5f, .5f, .5f, .5f, -.5f});
  const std::vector<BFloat16> known = {to_bfloat16(1), to_bfloat16(0), to_bfloat16(0), to_bfloat16(0)};
  const BFloat16* const row = known.data();
  const Floats x = {1.5f, 1.5f, .5f, 1.5f}, gradient = {1, 2, 3, 4};
  Floats code(2), back(4);
  subspace.project(ConstTensorView(x.data(), Shape{1, 4}), {&row, 1}, TensorView(code.data(), Shape{1, 2}));
  EXPECT_EQ(code, (Floats{2, -1}));
  CodecStack bf16 = make_codec("cast:to=bf16");
  std::vector<std::byte> payload(4);
  bf16.codec->encode(ConstTensorView(code.data(), Shape{1, 2}), {}, payload);
  EXPECT_EQ(payload, (std::vector<std::byte>{std::byte{0x00}, std::byte{0x40}, std::byte{0x80}, std::byte{0xbf}}));
  subspace.expand(ConstTensorView(code.data(), Shape{1, 2}), {&row, 1}, false, TensorView(back.data(), Shape{1, 4}));
  EXPECT_EQ(back, x);
  subspace.expand(ConstTensorView(code.data(), Shape{1, 2}), {&row, 1}, true, TensorView(back.data(), Shape{1, 4}));
  EXPECT_EQ(back, (Floats{3, 3, 1, 3})) << "added";
  subspace.project(ConstTensorView(gradient.data(), Shape{1, 4}), {}, TensorView(code.data(), Shape{1, 2}));
  EXPECT_EQ(code, (Floats{5, -1}));
  subspace.expand(ConstTensorView(code.data(), Shape{1, 2}), {}, false, TensorView(back.data(), Shape{1, 4}));
  EXPECT_EQ(back, (Floats{2, 3, 2, 3}));
}

TEST(TokenTable, HasARowOfNormalNumbersForEachTokenWhateverCameBefore) {
  constexpr std::int64_t columns = 64;
  TokenTable table(columns, 2.0, 5), other(columns, 2.0, 5), narrow(columns, 1.0, 5), stranger(columns, 2.0, 6);
  Tokens all(1000);
  for (std::size_t t = 0; t < all.size(); ++t) all[t] = static_cast<std::int32_t>(t * 50);
  std::vector<const BFloat16*> rows(all.size()), reversed(all.size()), few(1);
  table.rows_of(all, rows);
  const Tokens back(all.rbegin(), all.rend());
  other.rows_of(Tokens{all[500]}, few);
  other.rows_of(back, reversed);
  double sum = 0, squares = 0;
  for (std::size_t t = 0; t < all.size(); ++t)
    for (std::int64_t c = 0; c < columns; ++c) {
      const float value = to_float(rows[t][c]);
      ASSERT_EQ(rows[t][c].bits, reversed[all.size() - 1 - t][c].bits) << "token " << all[t] << ", column " << c;
      sum += value, squares += double{value} * value;
    }
  const double n = 1000.0 * columns;
  EXPECT_NEAR(sum / n, 0, 5 * 2 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 4, 5 * 4 * std::sqrt(2 / n));
  narrow.rows_of(Tokens{7}, few);
  const float half = to_float(few[0][3]);
  table.rows_of(Tokens{7}, few);
  EXPECT_EQ(to_float(few[0][3]), 2 * half) << "a power of two scales exactly";
  const std::uint16_t bits = few[0][3].bits;
  stranger.rows_of(Tokens{7}, few);
  EXPECT_NE(few[0][3].bits, bits);
  EXPECT_THROW(table.rows_of(Tokens{-1}, few), UsageError);
  EXPECT_THROW(table.rows_of(Tokens{1 << 24}, few), UsageError);
}

}  // namespace
}  // namespace thinwire
