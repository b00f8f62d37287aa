#include "kernels/simd/bin_sums.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/bin_sums.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/fetch-inl.h"

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
        FetchAhead(x + i);
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

/// Of four bins each has a sum for every element of 32, too: masks instead of an address per element. Counts are exact in any order.
constexpr std::size_t four = 4;

void AddToFourBins(const float* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT codes, std::size_t n, Bin* HWY_RESTRICT bins) {
  const hn::CappedTag<double, 16> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::Rebind<std::uint8_t, decltype(d)> dcodes;
  const hn::Rebind<std::uint32_t, decltype(d)> dwords;
  const hn::RebindToUnsigned<decltype(d)> du;
  const std::size_t lanes = hn::Lanes(d);
  double sums[four][sums_apart] = {};
  std::size_t counts[four] = {};
  const std::size_t whole = n / sums_apart * sums_apart;
  for (std::size_t begin = 0; begin < whole; begin += stripe) {
    const std::size_t end = std::min(whole, begin + stripe);
    for (std::size_t k = 0; k < sums_apart; k += lanes) {
      auto sum0 = hn::LoadU(d, sums[0] + k), sum1 = hn::LoadU(d, sums[1] + k), sum2 = hn::LoadU(d, sums[2] + k), sum3 = hn::LoadU(d, sums[3] + k);
      std::size_t count1 = 0, count2 = 0, count3 = 0;
      for (std::size_t i = begin + k; i < end; i += sums_apart) {
        if (k == 0) FetchFarAhead(x + i), FetchFarAhead(x + i + sums_apart / 2);
        const auto value = hn::PromoteTo(d, hn::LoadU(df, x + i));
        const auto code = hn::PromoteTo(du, hn::PromoteTo(dwords, hn::LoadU(dcodes, codes + i)));
        const auto in0 = hn::Eq(code, hn::Zero(du)), in1 = hn::Eq(code, hn::Set(du, 1)), in2 = hn::Eq(code, hn::Set(du, 2)), in3 = hn::Eq(code, hn::Set(du, 3));
        sum0 = hn::Add(sum0, hn::IfThenElseZero(hn::RebindMask(d, in0), value));
        sum1 = hn::Add(sum1, hn::IfThenElseZero(hn::RebindMask(d, in1), value));
        sum2 = hn::Add(sum2, hn::IfThenElseZero(hn::RebindMask(d, in2), value));
        sum3 = hn::Add(sum3, hn::IfThenElseZero(hn::RebindMask(d, in3), value));
        count1 += hn::CountTrue(du, in1), count2 += hn::CountTrue(du, in2), count3 += hn::CountTrue(du, in3);
      }
      hn::StoreU(sum0, d, sums[0] + k), hn::StoreU(sum1, d, sums[1] + k), hn::StoreU(sum2, d, sums[2] + k), hn::StoreU(sum3, d, sums[3] + k);
      counts[1] += count1, counts[2] += count2, counts[3] += count3;
    }
  }
  counts[0] = whole - counts[1] - counts[2] - counts[3];
  for (std::size_t i = whole; i < n; ++i) sums[codes[i]][i - whole] += double{x[i]}, ++counts[codes[i]];
  for (std::size_t b = 0; b < four; ++b) {
    bins[b].count += static_cast<double>(counts[b]);
    for (std::size_t k = 0; k < sums_apart; ++k) bins[b].sum += sums[b][k];
  }
}

/// Neighbours go to bins apart, so that equal codes in a row do not wait for each other's sum.
constexpr std::size_t apart = 4;

void AddToBins(const float* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT codes, std::size_t n, Bin* HWY_RESTRICT bins, std::size_t count) {
  alignas(64) Bin own[apart * 256];
  std::fill(own, own + apart * count, Bin{});
  const auto add = [&](std::size_t i) {
    Bin& bin = own[i % apart * count + codes[i]];
    bin.sum += double{x[i]}, bin.count += 1;
  };
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<double, 2> d;  // a bin is one vector
  const hn::Rebind<float, decltype(d)> df;
  const auto one = hn::Set(d, 1.0);
  const auto add_to = [d](Bin& bin, hn::Vec<decltype(d)> value_and_one) HWY_ATTR { hn::Store(hn::Add(hn::Load(d, &bin.sum), value_and_one), d, &bin.sum); };
  Bin *const own1 = own + count, *const own2 = own1 + count, *const own3 = own2 + count;
  for (; i + apart <= n; i += apart) {
    if (i % 16 == 0) FetchFarAhead(x + i);
    const auto first = hn::PromoteTo(d, hn::LoadU(df, x + i)), second = hn::PromoteTo(d, hn::LoadU(df, x + i + 2));
    add_to(own[codes[i]], hn::InterleaveLower(d, first, one));
    add_to(own1[codes[i + 1]], hn::InterleaveUpper(d, first, one));
    add_to(own2[codes[i + 2]], hn::InterleaveLower(d, second, one));
    add_to(own3[codes[i + 3]], hn::InterleaveUpper(d, second, one));
  }
#endif
  for (; i < n; ++i) add(i);
  for (std::size_t b = 0; b < count; ++b)
    for (std::size_t k = 0; k < apart; ++k) bins[b].sum += own[k * count + b].sum, bins[b].count += own[k * count + b].count;
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(MomentsOf);
HWY_EXPORT(AddToFourBins);
HWY_EXPORT(AddToBins);

Moments moments(const float* x, std::size_t n) {
  double sums[32], squares[32];
  HWY_DYNAMIC_DISPATCH(MomentsOf)(x, n, sums, squares);
  Moments all;
  for (int k = 0; k < 32; ++k) all.sum += sums[k], all.squares += squares[k];
  return all;
}
void add_to_bins(const float* x, const std::uint8_t* codes, std::size_t n, Bin* bins, std::size_t count) {
  if (count == 4)
    HWY_DYNAMIC_DISPATCH(AddToFourBins)(x, codes, n, bins);
  else
    HWY_DYNAMIC_DISPATCH(AddToBins)(x, codes, n, bins, count);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
