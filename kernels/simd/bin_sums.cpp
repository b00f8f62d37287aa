#include "kernels/simd/bin_sums.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/bin_sums.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t sums_apart = 32;  ///< element i goes to sum i % 32, whatever a vector holds: that is what fixes the order
constexpr std::size_t stripe = 4096;    ///< 16 KiB of x: vectors that hold few of the 32 sums go over it several times

void MomentsOf(const float* HWY_RESTRICT x, std::size_t n, double* HWY_RESTRICT sums, double* HWY_RESTRICT squares) {
  const hn::CappedTag<double, 16> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  std::fill(sums, sums + sums_apart, 0.0);
  std::fill(squares, squares + sums_apart, 0.0);
  const std::size_t whole = n / sums_apart * sums_apart;
  for (std::size_t begin = 0; begin < whole; begin += stripe) {
    const std::size_t end = std::min(whole, begin + stripe);
    for (std::size_t k = 0; k < sums_apart; k += 2 * lanes) {
      auto sum0 = hn::LoadU(d, sums + k), sum1 = hn::LoadU(d, sums + k + lanes);
      auto square0 = hn::LoadU(d, squares + k), square1 = hn::LoadU(d, squares + k + lanes);
      for (std::size_t i = begin + k; i < end; i += sums_apart) {
        hwy::Prefetch(x + i + stripe);
        const auto a = hn::PromoteTo(d, hn::LoadU(df, x + i)), b = hn::PromoteTo(d, hn::LoadU(df, x + i + lanes));
        sum0 = hn::Add(sum0, a), sum1 = hn::Add(sum1, b);
        square0 = hn::MulAdd(a, a, square0), square1 = hn::MulAdd(b, b, square1);  // a * a is exact: fused or not is the same
      }
      hn::StoreU(sum0, d, sums + k), hn::StoreU(sum1, d, sums + k + lanes);
      hn::StoreU(square0, d, squares + k), hn::StoreU(square1, d, squares + k + lanes);
    }
  }
  for (std::size_t i = whole; i < n; ++i) sums[i - whole] += double{x[i]}, squares[i - whole] += double{x[i]} * double{x[i]};
}

/// Neighbours go to bins apart, so that equal codes in a row do not wait for each other's sum.
constexpr std::size_t apart = 4;

void AddToBins(const float* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT codes, std::size_t n, Bin* HWY_RESTRICT bins, std::size_t count) {
#if HWY_TARGET == HWY_SCALAR
  const hn::CappedTag<double, 1> d;
#else
  const hn::FixedTag<double, 2> d;  // a bin is one vector of two
#endif
  alignas(64) Bin own[apart * 256];
  std::fill(own, own + apart * count, Bin{});
  double* const flat = &own[0].sum;
  const auto add = [&](std::size_t bin, float value) HWY_ATTR {
    double* const at = flat + 2 * bin;
#if HWY_TARGET == HWY_SCALAR
    at[0] += double{value}, at[1] += 1;
    (void)d;
#else
    hn::Store(hn::Add(hn::Load(d, at), hn::InsertLane(hn::Set(d, 1.0), 0, double{value})), d, at);
#endif
  };
  std::size_t i = 0;
  for (; i + apart <= n; i += apart) {
    std::uint8_t four[apart];
    std::memcpy(four, codes + i, sizeof four);
    for (std::size_t k = 0; k < apart; ++k) add(k * count + four[k], x[i + k]);
  }
  for (; i < n; ++i) add(i % apart * count + codes[i], x[i]);
  for (std::size_t b = 0; b < count; ++b)
    for (std::size_t k = 0; k < apart; ++k) bins[b].sum += own[k * count + b].sum, bins[b].count += own[k * count + b].count;
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(MomentsOf);
HWY_EXPORT(AddToBins);

Moments moments(const float* x, std::size_t n) {
  double sums[32], squares[32];
  HWY_DYNAMIC_DISPATCH(MomentsOf)(x, n, sums, squares);
  Moments all;
  for (int k = 0; k < 32; ++k) all.sum += sums[k], all.squares += squares[k];
  return all;
}
void add_to_bins(const float* x, const std::uint8_t* codes, std::size_t n, Bin* bins, std::size_t count) { HWY_DYNAMIC_DISPATCH(AddToBins)(x, codes, n, bins, count); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
