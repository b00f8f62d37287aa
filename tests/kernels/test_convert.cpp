// labels: unit
// Bulk conversion on every SIMD target of this processor against the scalar functions; threads; memory rate.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/convert.h"
#include "kernels/memory_rate.h"
#include "kernels/threads.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

constexpr std::uint64_t seed = 20240502;

using testing::on_every_target;

constexpr std::size_t lengths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 101, 1000, 65537};

std::vector<float> random_patterns(std::size_t n) {
  const Random random(seed, "patterns");
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    // Half of them in the range of binary16, where rounding is not trivial; all kinds of values in the others.
    x[i] = i % 2 ? std::bit_cast<float>(random.bits32(i))
                 : std::ldexp(static_cast<float>(random.normal(i)), static_cast<int>(random.below(i, 40)) - 26);
  return x;
}

TEST(Convert, EqualsTheScalarConversionBitForBitOnEveryTarget) {
  on_every_target([] {
    for (std::size_t n : lengths) {
      const std::vector<float> x = random_patterns(n);
      std::vector<Half> h(n + 1, Half{0x1234});
      std::vector<BFloat16> b(n + 1, BFloat16{0x1234});
      convert(x, std::span(h).first(n));
      convert(x, std::span(b).first(n));
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(h[i].bits, to_half(x[i]).bits) << "x = " << x[i] << ", i = " << i << " of " << n;
        ASSERT_EQ(b[i].bits, to_bfloat16(x[i]).bits) << "x = " << x[i] << ", i = " << i << " of " << n;
      }
      ASSERT_EQ(h[n].bits, 0x1234) << "wrote past the end";
      ASSERT_EQ(b[n].bits, 0x1234) << "wrote past the end";
    }
  });
}

TEST(Convert, ExpandsAll65536PatternsExactlyOnEveryTarget) {
  std::vector<Half> h(65536);
  std::vector<BFloat16> b(65536);
  for (std::size_t i = 0; i < 65536; ++i) h[i].bits = b[i].bits = static_cast<std::uint16_t>(i);
  on_every_target([&] {
    std::vector<float> from_h(65536), from_b(65536);
    convert(h, from_h);
    convert(b, from_b);
    for (std::size_t i = 0; i < 65536; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(from_h[i]), std::bit_cast<std::uint32_t>(to_float(h[i]))) << i;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(from_b[i]), std::bit_cast<std::uint32_t>(to_float(b[i]))) << i;
    }
  });
}

TEST(Accumulate, AddsInF32AndRoundsOnceOnEveryTarget) {
  on_every_target([] {
    for (std::size_t n : lengths) {
      std::vector<Half> ah(n), xh(n);
      std::vector<BFloat16> ab(n), xb(n);
      std::vector<float> af(n), xf(n);
      const Random random(seed, "sums");
      for (std::size_t i = 0; i < n; ++i) {
        af[i] = static_cast<float>(random.normal(2 * i)) * 100;
        xf[i] = static_cast<float>(random.normal(2 * i + 1));
        ah[i] = to_half(af[i]), xh[i] = to_half(xf[i]);
        ab[i] = to_bfloat16(af[i]), xb[i] = to_bfloat16(xf[i]);
      }
      auto sum_h = ah;
      auto sum_b = ab;
      auto sum_f = af;
      accumulate(std::span(sum_h), xh);
      accumulate(std::span(sum_b), xb);
      accumulate(std::span(sum_f), xf);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(sum_h[i].bits, to_half(to_float(ah[i]) + to_float(xh[i])).bits);
        ASSERT_EQ(sum_b[i].bits, to_bfloat16(to_float(ab[i]) + to_float(xb[i])).bits);
        ASSERT_EQ(sum_f[i], af[i] + xf[i]);
      }
    }
  });
}

TEST(ByteReductions, MaximumIsUnsignedAndOrIsBitwiseOnEveryTarget) {
  on_every_target([] {
    for (std::size_t n : lengths) {
      const Random random(seed, "bytes");
      std::vector<std::uint8_t> a(n), x(n);
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = static_cast<std::uint8_t>(random.bits32(i));
        x[i] = static_cast<std::uint8_t>(random.bits32(i) >> 8);
      }
      auto greatest = a, united = a;
      maximum_into(greatest, x);
      bit_or_into(united, x);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(greatest[i], std::max(a[i], x[i]));
        ASSERT_EQ(united[i], a[i] | x[i]);
      }
    }
  });
}

TEST(Scale, MultipliesInPlaceAndAcross) {
  on_every_target([] {
    std::vector<float> x = random_patterns(101), y(101), z = x;
    scale(y, x, 0.25f);
    scale(z, z, 0.25f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float expected = x[i] * 0.25f;
      ASSERT_TRUE(y[i] == expected || (std::isnan(y[i]) && std::isnan(expected)));
      ASSERT_TRUE(z[i] == expected || (std::isnan(z[i]) && std::isnan(expected)));
    }
  });
}

TEST(ParallelRanges, CoverEveryItemOnceOnAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 8}) {
    omp_set_num_threads(threads);
    for (std::int64_t count : {0, 1, 63, 64, 65, 1000, 4097}) {
      std::vector<int> visits(static_cast<std::size_t>(count));
      parallel_ranges(count, 16, 64, [&](std::int64_t begin, std::int64_t end, int) {
        EXPECT_EQ(begin % 64, 0);
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (int v : visits) ASSERT_EQ(v, 1) << count << " items, " << threads << " threads";
    }
  }
  omp_set_num_threads(1);
}

TEST(ParallelRanges, SmallWorkStaysOnTheCallingThreadAndExceptionsArrive) {
  omp_set_num_threads(4);
  EXPECT_EQ(threads_for(default_grain), 1);
  EXPECT_EQ(threads_for(2 * default_grain), 2);
  EXPECT_EQ(threads_for(1'000 * default_grain), 4);
  EXPECT_THROW(parallel_for(10'000, 10, [](std::int64_t, std::int64_t) { throw CorruptData("x"); }), CorruptData);
  omp_set_num_threads(1);
}

TEST(MemoryRate, TimesBytesByTheClockAndTheBoundCountsBothWays) {
  const MemoryRate rate = measure_memory_rate(8 << 20, 2, 0.02);
  EXPECT_EQ(rate.threads, 2);
  EXPECT_GT(rate.gb_per_s, 0.1);    // slower than a disk: units are wrong
  EXPECT_LT(rate.gb_per_s, 2000);   // faster than any memory: nothing was copied
  EXPECT_GE(rate.best_gb_per_s, rate.gb_per_s);
  const MemoryRate ten{0, 1, 10, 10};
  EXPECT_DOUBLE_EQ(memory_bound_seconds(10'000'000'000, 10'000'000'000, ten), 1.0);  // a copy meets its own bound
}

}  // namespace
}  // namespace thinwire
