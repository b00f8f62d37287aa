// labels: unit
// timeout: 120
// Kernels of nn against scalar f64 references, closed forms and finite differences in f64. Shapes include 1,
// primes and non-multiples of every vector length and block.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/nn/attention/attention.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "kernels/nn/layernorm.h"
#include "kernels/nn/optimizer.h"
#include "kernels/nn/softmax.h"

namespace thinwire::nn {
namespace {

constexpr std::uint64_t seed = 20240611;

// One table of tolerances: relative to the largest reference value.
template <typename T>
constexpr double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
constexpr double finite_difference_tolerance = 2e-7;

template <typename T>
std::vector<T> normal(std::int64_t count, const char* name, double deviation = 1.0) {
  const Random random(seed, name);
  std::vector<T> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(deviation * random.normal(i));
  return v;
}

template <typename T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double relative,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 1e-30;
  for (double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], relative * largest)
        << what << " at " << i << ", seed " << seed;
}

/// Compares `analytic` with central differences of `loss` in x, element by element.
void expect_gradient(std::vector<double>& x, const std::vector<double>& analytic,
                     const std::function<double()>& loss, const std::string& what) {
  std::vector<double> numeric(x.size());
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + step;
    const double up = loss();
    x[i] = kept - step;
    const double down = loss();
    x[i] = kept;
    numeric[i] = (up - down) / (2 * step);
  }
  expect_near(analytic, numeric, finite_difference_tolerance, what);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

template <typename T>
struct NnKernels : testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(NnKernels, Types);

double reference_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TYPED_TEST(NnKernels, GemmEqualsTheTripleLoopForEveryTransposeAndStride) {
  using T = TypeParam;
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {7, 5, 3}, {17, 33, 29}, {64, 31, 128}})
    for (Transpose ta : {Transpose::no, Transpose::yes})
      for (Transpose tb : {Transpose::no, Transpose::yes}) {
        const int lda = (ta == Transpose::yes ? m : k) + 2, ldb = (tb == Transpose::yes ? k : n) + 3,
                  ldc = n + 1;
        const auto a = normal<T>(lda * (ta == Transpose::yes ? k : m), "a"),
                   b = normal<T>(ldb * (tb == Transpose::yes ? n : k), "b");
        auto c = normal<T>(m * ldc, "c");
        std::vector<double> expected(c.begin(), c.end());
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int l = 0; l < k; ++l)
              sum += static_cast<double>(
                         a[static_cast<std::size_t>(ta == Transpose::yes ? l * lda + i : i * lda + l)]) *
                     static_cast<double>(
                         b[static_cast<std::size_t>(tb == Transpose::yes ? j * ldb + l : l * ldb + j)]);
            expected[static_cast<std::size_t>(i * ldc + j)] =
                0.5 * sum - 2.0 * expected[static_cast<std::size_t>(i * ldc + j)];
          }
        gemm<T>(ta, tb, m, n, k, T(0.5), a.data(), lda, b.data(), ldb, T(-2), c.data(), ldc);
        expect_near(c, expected, tolerance<T>, "gemm");  // elements between the rows of C stay as they were
      }
}

TEST(NnGemm, Bf16RoundsOperandsAndSumsInF32) {
  if (!detail::onednn_has_bf16())
    GTEST_SKIP() << "oneDNN has no bf16 product on this processor (needs AVX-512)";
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {7, 5, 3}, {33, 64, 127}})
    for (Transpose ta : {Transpose::no, Transpose::yes})
      for (Transpose tb : {Transpose::no, Transpose::yes})
        for (float beta : {0.0f, 1.0f}) {
          const auto to_bf16 = [](const std::vector<float>& v) {
            std::vector<BFloat16> r;
            for (float x : v) r.push_back(to_bfloat16(x));
            return r;
          };
          const auto a = to_bf16(normal<float>(m * k, "a16")), b = to_bf16(normal<float>(k * n, "b16"));
          auto c = normal<float>(m * n, "c16");
          std::vector<double> expected(c.begin(), c.end());
          for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
              double sum = 0;
              for (int l = 0; l < k; ++l)
                sum +=
                    double{
                        to_float(a[static_cast<std::size_t>(ta == Transpose::yes ? l * m + i : i * k + l)])} *
                    double{
                        to_float(b[static_cast<std::size_t>(tb == Transpose::yes ? j * k + l : l * n + j)])};
              expected[static_cast<std::size_t>(i * n + j)] =
                  sum + beta * expected[static_cast<std::size_t>(i * n + j)];
            }
          detail::gemm_bf16(ta, tb, m, n, k, a.data(), b.data(), {c.data(), beta});
          expect_near(c, expected, tolerance<float>, "bf16 gemm");
        }
}

TEST(NnGemm, Bf16OnAProcessorWithoutAmxIsRefusedWithTheReason) {
  const auto a = normal<float>(6, "a"), b = normal<float>(6, "b");
  std::vector<float> c(4);
  const auto run = [&] {
    gemm(ComputeType::bf16, Transpose::no, Transpose::no, 2, 2, 3, 1.0f, a.data(), 3, b.data(), 2, 0.0f,
         c.data(), 2);
  };
  if (why_no_bf16_gemm().empty()) {
    run();
    EXPECT_NEAR(c[0], a[0] * b[0] + a[1] * b[2] + a[2] * b[4], 0.03);
  } else {
    EXPECT_THROW(run(), UsageError);
  }
}

TYPED_TEST(NnKernels, GeluEqualsItsFormulaFarIntoBothTails) {
  using T = TypeParam;
  std::vector<T> x = normal<T>(1009, "gelu", 3.0);
  x[0] = 0, x[1] = T(-60), x[2] = T(60), x[3] = T(-8), x[4] = T(1e-20);
  std::vector<double> expected;
  for (T v : x) expected.push_back(reference_gelu(static_cast<double>(v)));
  std::vector<T> y(x.size());
  gelu_forward<T>(static_cast<std::int64_t>(x.size()), x.data(), y.data());
  expect_near(y, expected, tolerance<T> / 10, "gelu");
}

TEST(NnGradients, GeluAgreesWithFiniteDifferences) {
  auto x = normal<double>(131, "x", 2.0);
  const auto dy = normal<double>(131, "dy");
  std::vector<double> y(x.size()), dx(x.size());
  gelu_backward<double>(131, x.data(), dy.data(), dx.data());
  expect_gradient(
      x, dx, [&] { return gelu_forward<double>(131, x.data(), y.data()), dot(y, dy); }, "gelu");
}

TYPED_TEST(NnKernels, LayernormGivesRowsOfMeanZeroAndVarianceOne) {
  using T = TypeParam;
  for (const auto& [rows, columns] : {std::array{1, 2}, {3, 7}, {13, 128}, {5, 513}}) {
    auto x = normal<T>(rows * columns, "ln", 3.0);
    for (T& v : x) v += 2;
    const std::vector<T> gamma(static_cast<std::size_t>(columns), T{1}),
        beta(static_cast<std::size_t>(columns), T{0});
    std::vector<T> sums(static_cast<std::size_t>(2 * rows)), y(x.size()),
        mean(static_cast<std::size_t>(rows)), rstd(mean.size());
    row_moments<T>(rows, columns, x.data(), sums.data());
    normalise<T>(rows, columns, columns, x.data(), sums.data(), gamma.data(), beta.data(), y.data(),
                 mean.data(), rstd.data());
    for (int r = 0; r < rows; ++r) {
      double sum = 0, squares = 0;
      for (int c = 0; c < columns; ++c) {
        const double v = static_cast<double>(y[static_cast<std::size_t>(r * columns + c)]);
        sum += v, squares += v * v;
      }
      EXPECT_NEAR(sum / columns, 0, 1e-5);
      EXPECT_NEAR(squares / columns, 1, 1e-3);
    }
  }
}

TEST(NnGradients, LayernormAgreesWithFiniteDifferencesInInputScaleAndShift) {
  constexpr int rows = 3, columns = 11;
  auto x = normal<double>(rows * columns, "x"), gamma = normal<double>(columns, "gamma"),
       beta = normal<double>(columns, "beta");
  const auto dy = normal<double>(rows * columns, "dy");
  std::vector<double> sums(2 * rows), y(x.size()), mean(rows), rstd(rows), dx(x.size(), 0.0),
      dgamma(columns, 0.0), dbeta(columns, 0.0);
  const auto loss = [&] {
    row_moments<double>(rows, columns, x.data(), sums.data());
    normalise<double>(rows, columns, columns, x.data(), sums.data(), gamma.data(), beta.data(), y.data(),
                      mean.data(), rstd.data());
    return dot(y, dy);
  };
  loss();
  gradient_moments<double>(rows, columns, x.data(), dy.data(), gamma.data(), mean.data(), rstd.data(),
                           sums.data());
  normalise_backward<double>(rows, columns, columns, x.data(), dy.data(), gamma.data(), mean.data(),
                             rstd.data(), sums.data(), false, dx.data(), dgamma.data(), dbeta.data());
  expect_gradient(x, dx, loss, "dx");
  expect_gradient(gamma, dgamma, loss, "dgamma");
  expect_gradient(beta, dbeta, loss, "dbeta");
}

TEST(NnLayernorm, SplitHiddenAxisWithSummedMomentsGivesTheSameRows) {
  // What a 2-D layout does: each part computes its sums, the sums are added, each part normalises itself.
  constexpr int rows = 4, columns = 12, half = 6;
  const auto x = normal<double>(rows * columns, "x"), gamma = normal<double>(columns, "g"),
             beta = normal<double>(columns, "b");
  std::vector<double> sums(2 * rows), y(x.size()), mean(rows), rstd(rows);
  row_moments<double>(rows, columns, x.data(), sums.data());
  normalise<double>(rows, columns, columns, x.data(), sums.data(), gamma.data(), beta.data(), y.data(),
                    mean.data(), rstd.data());
  std::vector<double> part_x[2], part_sums[2], total(2 * rows, 0.0);
  for (int p = 0; p < 2; ++p) {
    for (int r = 0; r < rows; ++r)
      part_x[p].insert(part_x[p].end(), x.begin() + r * columns + p * half,
                       x.begin() + r * columns + (p + 1) * half);
    part_sums[p].resize(2 * rows);
    row_moments<double>(rows, half, part_x[p].data(), part_sums[p].data());
    for (int i = 0; i < 2 * rows; ++i)
      total[static_cast<std::size_t>(i)] += part_sums[p][static_cast<std::size_t>(i)];
  }
  for (int p = 0; p < 2; ++p) {
    std::vector<double> part_y(rows * half);
    normalise<double>(rows, half, columns, part_x[p].data(), total.data(), gamma.data() + p * half,
                      beta.data() + p * half, part_y.data(), mean.data(), rstd.data());
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < half; ++c)
        EXPECT_NEAR(part_y[static_cast<std::size_t>(r * half + c)],
                    y[static_cast<std::size_t>(r * columns + p * half + c)], 1e-12);
  }
}

namespace {
/// Attention written from its definition in f64: softmax over keys not after the query.
std::vector<double> reference_attention(const AttentionShape& s, const std::vector<double>& qkv) {
  std::vector<double> out(static_cast<std::size_t>(s.batch * s.seq * s.hidden()));
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t which, std::int64_t c) {
    return qkv[static_cast<std::size_t>((((b * s.seq + t) * s.heads + h) * 3 + which) * s.head_size + c)];
  };
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t q = 0; q < s.seq; ++q) {
        std::vector<double> weight(static_cast<std::size_t>(q + 1));
        double total = 0;
        for (std::int64_t k = 0; k <= q; ++k) {
          double score = 0;
          for (std::int64_t c = 0; c < s.head_size; ++c) score += at(b, q, h, 0, c) * at(b, k, h, 1, c);
          total += weight[static_cast<std::size_t>(k)] =
              std::exp(score / std::sqrt(static_cast<double>(s.head_size)));
        }
        for (std::int64_t k = 0; k <= q; ++k)
          for (std::int64_t c = 0; c < s.head_size; ++c)
            out[static_cast<std::size_t>(((b * s.seq + q) * s.heads + h) * s.head_size + c)] +=
                weight[static_cast<std::size_t>(k)] / total * at(b, k, h, 2, c);
      }
  return out;
}
}  // namespace

TYPED_TEST(NnKernels, AttentionEqualsItsDefinitionAcrossBlockBorders) {
  using T = TypeParam;
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 1}, {2, 7, 3, 5}, {1, 64, 2, 8}, {2, 65, 1, 16}, {1, 131, 2, 4}}) {
    const auto qkv = normal<T>(s.batch * s.seq * 3 * s.hidden(), "qkv");
    std::vector<T> context(static_cast<std::size_t>(s.batch * s.seq * s.hidden())),
        lse(static_cast<std::size_t>(s.batch * s.heads * s.seq));
    attention_forward<T>(s, qkv.data(), context.data(), lse.data());
    expect_near(context, reference_attention(s, {qkv.begin(), qkv.end()}), tolerance<T>,
                "seq " + std::to_string(s.seq));
  }
}

TEST(NnGradients, AttentionAgreesWithFiniteDifferencesOfItsDefinition) {
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 2}, {2, 5, 2, 3}, {1, 67, 1, 2}}) {
    auto qkv = normal<double>(s.batch * s.seq * 3 * s.hidden(), "qkv");
    const auto dout = normal<double>(s.batch * s.seq * s.hidden(), "dout");
    std::vector<double> context(dout.size()), lse(static_cast<std::size_t>(s.batch * s.heads * s.seq)),
        dqkv(qkv.size());
    attention_forward<double>(s, qkv.data(), context.data(), lse.data());
    attention_backward<double>(s, qkv.data(), context.data(), lse.data(), dout.data(), dqkv.data());
    expect_gradient(
        qkv, dqkv, [&] { return dot(reference_attention(s, qkv), dout); },
        "dqkv, seq " + std::to_string(s.seq));
  }
}

namespace {
/// Slices that make up a sequence.
using Slices = std::vector<std::int64_t>;

/// Attention of whole sequences, computed slice by slice: context and dqkv as if in one go.
template <typename T>
struct Sliced {
  std::vector<T> context, dqkv;
  Sliced(const AttentionShape& s, const Slices& slices, const std::vector<T>& qkv, const std::vector<T>& dout)
      : context(dout.size()), dqkv(qkv.size()) {
    const std::int64_t h = s.hidden();
    // Values that nobody may read: keys behind a slice, sums that the last slice begins.
    std::vector<T> cache(static_cast<std::size_t>(s.batch * s.seq * 2 * h), T(NAN)), dcache = cache;
    struct Part {
      AttentionSlice slice;
      std::vector<T> qkv, context, lse;
    };
    std::vector<Part> parts;
    std::int64_t first = 0;
    for (const std::int64_t tokens : slices) {
      Part p{{s.batch, tokens, first, s.seq, s.heads, s.head_size}, move_rows(qkv, s, 3 * h, first, tokens), {}, {}};
      p.context.resize(static_cast<std::size_t>(s.batch * tokens * h));
      p.lse.resize(static_cast<std::size_t>(s.batch * s.heads * tokens));
      attention_slice_forward<T>(p.slice, p.qkv.data(), cache.data(), p.context.data(), p.lse.data());
      put_rows(p.context, s, h, first, tokens, context);
      parts.push_back(std::move(p));
      first += tokens;
    }
    for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
      const auto d = move_rows(dout, s, h, p->slice.first, p->slice.tokens);
      std::vector<T> gradient(p->qkv.size(), T(NAN));
      attention_slice_backward<T>(p->slice, p->qkv.data(), cache.data(), p->context.data(), p->lse.data(), d.data(), dcache.data(),
                                  gradient.data());
      put_rows(gradient, s, 3 * h, p->slice.first, p->slice.tokens, dqkv);
    }
  }

 private:
  /// Rows [first, first + tokens) of every sequence.
  static std::vector<T> move_rows(const std::vector<T>& all, const AttentionShape& s, std::int64_t columns, std::int64_t first, std::int64_t tokens) {
    std::vector<T> part;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const auto begin = all.begin() + (b * s.seq + first) * columns;
      part.insert(part.end(), begin, begin + tokens * columns);
    }
    return part;
  }
  static void put_rows(const std::vector<T>& part, const AttentionShape& s, std::int64_t columns, std::int64_t first, std::int64_t tokens,
                       std::vector<T>& all) {
    for (std::int64_t b = 0; b < s.batch; ++b)
      std::copy_n(part.begin() + b * tokens * columns, tokens * columns, all.begin() + (b * s.seq + first) * columns);
  }
};
}  // namespace

TYPED_TEST(NnKernels, AttentionBySlicesEqualsAttentionInOneGoForwardAndBackward) {
  using T = TypeParam;
  const std::vector<std::pair<AttentionShape, std::vector<Slices>>> cases = {
      {{1, 1, 1, 1}, {{1}}},
      {{2, 7, 3, 5}, {{7}, {1, 1, 1, 1, 1, 1, 1}, {3, 4}, {4, 2, 1}, {1, 5, 1}}},
      {{3, 64, 2, 8}, {{16, 16, 16, 16}, {63, 1}}},
      {{2, 131, 2, 4}, {{64, 67}, {1, 129, 1}, {65, 33, 33}, {100, 31}}},
  };
  for (const auto& [s, list] : cases) {
    const auto qkv = normal<double>(s.batch * s.seq * 3 * s.hidden(), "qkv"), dout = normal<double>(s.batch * s.seq * s.hidden(), "dout");
    std::vector<double> context(dout.size()), lse(static_cast<std::size_t>(s.batch * s.heads * s.seq)), dqkv(qkv.size());
    attention_forward<double>(s, qkv.data(), context.data(), lse.data());
    attention_backward<double>(s, qkv.data(), context.data(), lse.data(), dout.data(), dqkv.data());
    for (const Slices& slices : list) {
      const Sliced<T> sliced(s, slices, {qkv.begin(), qkv.end()}, {dout.begin(), dout.end()});
      const std::string what = std::to_string(slices.size()) + " slices of seq " + std::to_string(s.seq);
      expect_near(sliced.context, context, tolerance<T>, "context, " + what);
      expect_near(sliced.dqkv, dqkv, tolerance<T>, "dqkv, " + what);
    }
  }
}

TYPED_TEST(NnKernels, CrossEntropyOfEqualLogitsIsTheLogOfTheVocabulary) {
  using T = TypeParam;
  for (int vocab : {1, 2, 17, 256}) {
    std::vector<T> logits(static_cast<std::size_t>(3 * vocab), T(7)), losses(3);
    const std::vector<std::int32_t> targets = {0, vocab - 1, vocab / 2};
    cross_entropy<T>(3, vocab, logits.data(), targets.data(), T{1}, losses.data());
    for (T loss : losses) EXPECT_NEAR(static_cast<double>(loss), std::log(vocab), 1e-5);
  }
}

TEST(NnGradients, CrossEntropyAgreesWithFiniteDifferences) {
  constexpr int rows = 3, vocab = 13;
  auto logits = normal<double>(rows * vocab, "logits", 2.0);
  const std::vector<std::int32_t> targets = {0, 12, 5};
  std::vector<double> gradient = logits, losses(rows);
  cross_entropy<double>(rows, vocab, gradient.data(), targets.data(), 0.25, losses.data());
  expect_gradient(
      logits, gradient,
      [&] {
        auto work = logits;
        cross_entropy<double>(rows, vocab, work.data(), targets.data(), 1.0, losses.data());
        return 0.25 * (losses[0] + losses[1] + losses[2]);
      },
      "logits");
}

TEST(NnCrossEntropy, ATargetOutsideTheVocabularyIsRefused) {
  std::vector<float> logits(8, 0.0f), losses(2);
  for (std::int32_t bad : {-1, 4}) {
    const std::vector<std::int32_t> targets = {1, bad};
    EXPECT_THROW(cross_entropy<float>(2, 4, logits.data(), targets.data(), 1.0f, losses.data()), CorruptData);
  }
}

TEST(NnDropout, MasksDoNotDependOnHowTheBatchIsSplit) {
  const DropoutKey key{7, "layer0.mlp.dropout", 3};
  constexpr std::int64_t count = 100003;
  const std::vector<float> x(count, 1.0f);
  std::vector<float> whole(count);
  dropout<float>(count, 0.1, key, 0, x.data(), whole.data());
  std::vector<float> parts(count);
  std::int64_t at = 0;
  for (std::int64_t piece : {1, 2, 3, 5, 4096, 31, 50000})
    for (int repeat = 0; repeat < 2 && at < count; ++repeat) {
      const std::int64_t n = std::min(piece, count - at);
      dropout<float>(n, 0.1, key, at, x.data() + at, parts.data() + at);
      at += n;
    }
  dropout<float>(count - at, 0.1, key, at, x.data() + at, parts.data() + at);
  EXPECT_EQ(parts, whole);
  // and do depend on step and name; the kept share and the mean are right
  std::vector<float> other(count);
  dropout<float>(count, 0.1, {7, "layer0.mlp.dropout", 4}, 0, x.data(), other.data());
  EXPECT_NE(other, whole);
  dropout<float>(count, 0.1, {7, "layer1.mlp.dropout", 3}, 0, x.data(), other.data());
  EXPECT_NE(other, whole);
  EXPECT_NEAR(std::accumulate(whole.begin(), whole.end(), 0.0) / count, 1.0, 0.005);
}

TEST(NnDropout, AnElementIsDroppedByItsOwnWordOfTheGenerator) {
  const DropoutKey key{7, "layer0.mlp.dropout", 3};
  const Random random(key.seed, mix_stream(hash_name(key.name), key.step));
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{3}, std::int64_t{0x3fffffff5}})  // the last: blocks' numbers leave 32 bits on the way
    for (const std::int64_t count : {1, 6, 1021, 5000}) {
      std::vector<double> x(static_cast<std::size_t>(count), 3.0), y(x.size());
      dropout<double>(count, 0.25, key, first, x.data(), y.data());
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(y[static_cast<std::size_t>(i)], random.bits32(static_cast<std::uint64_t>(first + i)) < 0x40000000u ? 0.0 : 4.0) << first << " + " << i << " of " << count;
    }
}

TEST(NnDropout, RateZeroCopiesAndRateOneIsRefused) {
  const std::vector<float> x = {1, 2, 3};
  std::vector<float> y(3);
  dropout<float>(3, 0.0, {1, "t", 0}, 0, x.data(), y.data());
  EXPECT_EQ(x, y);
  EXPECT_THROW(dropout<float>(3, 1.0, {1, "t", 0}, 0, x.data(), y.data()), UsageError);
  EXPECT_THROW(dropout<float>(3, -0.1, {1, "t", 0}, 0, x.data(), y.data()), UsageError);
}

TYPED_TEST(NnKernels, AdamWEqualsTheScalarAlgorithmOverSeveralSteps) {
  using T = TypeParam;
  constexpr int count = 37;
  const AdamW options{0.9, 0.95, 1e-8, 0.1};
  auto w = normal<T>(count, "w");
  std::vector<T> m(count, T{0}), v(count, T{0});
  std::vector<double> rw(w.begin(), w.end()), rm(count, 0.0), rv(count, 0.0);
  for (int step = 1; step <= 5; ++step) {
    const auto g = normal<T>(count, ("g" + std::to_string(step)).c_str());
    adamw_step<T>(options, 0.1, 0.01, step, 0.5, count, g.data(), w.data(), m.data(), v.data());
    for (std::size_t i = 0; i < count; ++i) {
      const double gi = 0.5 * static_cast<double>(g[i]);
      rm[i] = 0.9 * rm[i] + 0.1 * gi;
      rv[i] = 0.95 * rv[i] + 0.05 * gi * gi;
      const double mhat = rm[i] / (1 - std::pow(0.9, step)), vhat = rv[i] / (1 - std::pow(0.95, step));
      rw[i] -= 0.01 * (mhat / (std::sqrt(vhat) + 1e-8) + 0.1 * rw[i]);
    }
    expect_near(w, rw, tolerance<T>, "weights after step " + std::to_string(step));
  }
}

TEST(NnOptimizer, CosineScheduleHasItsClosedFormAtTheMarks) {
  const CosineSchedule s{1e-3, 1e-4, 10, 110};
  EXPECT_DOUBLE_EQ(s.at(0), 1e-4);
  EXPECT_DOUBLE_EQ(s.at(4), 5e-4);
  EXPECT_DOUBLE_EQ(s.at(9), 1e-3);
  EXPECT_DOUBLE_EQ(s.at(10), 1e-3);
  EXPECT_NEAR(s.at(60), 5.5e-4, 1e-18);
  EXPECT_NEAR(s.at(35), 1e-4 + 4.5e-4 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_DOUBLE_EQ(s.at(110), 1e-4);
  EXPECT_DOUBLE_EQ(s.at(100000), 1e-4);
}

TEST(NnOptimizer, ClippingBringsTheNormToTheBoundAndLeavesSmallerOnesAlone) {
  EXPECT_DOUBLE_EQ(clip_factor(5.0, 1.0), 0.2);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(0.0, 1.0), 1.0);
}

TYPED_TEST(NnKernels, SumOfSquaresIsExactOnIntegersAndIndependentOfThreads) {
  using T = TypeParam;
  std::vector<T> x(100003);
  double expected = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(static_cast<int>(i % 13) - 6);
    expected += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  EXPECT_EQ(sum_of_squares<T>(static_cast<std::int64_t>(x.size()), x.data()), expected);
}

TYPED_TEST(NnKernels, EmbeddingBackwardAddsEachRowToItsTokenAndPosition) {
  using T = TypeParam;
  constexpr int rows = 6, columns = 5, seq = 3, vocab = 4;
  const std::vector<std::int32_t> tokens = {0, 3, 3, 1, 3, 0};
  const auto dy = normal<T>(rows * columns, "dy");
  std::vector<T> token(vocab * columns, T{0}), position(seq * columns, T{0});
  embed_backward<T>(rows, columns, seq, vocab, tokens.data(), dy.data(), token.data(), position.data());
  std::vector<double> expected_token(token.size()), expected_position(position.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      expected_token[static_cast<std::size_t>(tokens[static_cast<std::size_t>(r)] * columns + c)] +=
          static_cast<double>(dy[static_cast<std::size_t>(r * columns + c)]);
      expected_position[static_cast<std::size_t>(r % seq * columns + c)] +=
          static_cast<double>(dy[static_cast<std::size_t>(r * columns + c)]);
    }
  expect_near(token, expected_token, tolerance<T>, "token");
  expect_near(position, expected_position, tolerance<T>, "position");
  std::vector<T> y(rows * columns);
  const std::vector<std::int32_t> bad = {0, 1, 2, 3, 4, 0};
  EXPECT_THROW(embed<T>(rows, columns, seq, vocab, bad.data(), token.data(), position.data(), y.data()),
               CorruptData);
}

}  // namespace thinwire::nn
