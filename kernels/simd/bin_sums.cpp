#include "kernels/simd/bin_sums.h"

#include <algorithm>
#include <cstring>

#include "core/simd_targets.h"

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

/// `sums` has kEach of every value of a byte, `counts` one; of the second table both lie `table` and 256 further.
template <std::size_t kEach>
void AddToBytes(const float* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT packed, std::size_t bytes, double* HWY_RESTRICT sums, std::uint32_t* HWY_RESTRICT counts, std::size_t table) {
  const hn::CappedTag<double, kEach> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  const auto add = [&](std::size_t i, double* HWY_RESTRICT to, std::uint32_t* HWY_RESTRICT count) HWY_ATTR {
    const std::size_t byte = packed[i];
    for (std::size_t k = 0; k < kEach; k += lanes) {
      double* const sum = to + kEach * byte + k;
      hn::StoreU(hn::Add(hn::LoadU(d, sum), hn::PromoteTo(d, hn::LoadU(df, x + kEach * i + k))), d, sum);
    }
    ++count[byte];
  };
  std::size_t i = 0;
  for (; i + 2 <= bytes; i += 2) {
    if (kEach * i % 16 == 0) FetchFarAhead(x + kEach * i);
    add(i, sums, counts);
    add(i + 1, sums + table, counts + 256);
  }
  if (i < bytes) add(i, sums, counts);
}

void AddPacked(const float* x, const std::uint8_t* packed, std::size_t bytes, std::size_t each, double* sums, std::uint32_t* counts, std::size_t table) {
  if (each == 4) return AddToBytes<4>(x, packed, bytes, sums, counts, table);
  AddToBytes<2>(x, packed, bytes, sums, counts, table);
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(MomentsOf);
HWY_EXPORT(AddToBins);
HWY_EXPORT(AddPacked);

Moments moments(const float* x, std::size_t n) {
  double sums[32], squares[32];
  HWY_DYNAMIC_DISPATCH(MomentsOf)(x, n, sums, squares);
  Moments all;
  for (int k = 0; k < 32; ++k) all.sum += sums[k], all.squares += squares[k];
  return all;
}
void add_to_bins(const float* x, const std::uint8_t* codes, std::size_t n, Bin* bins, std::size_t count) { HWY_DYNAMIC_DISPATCH(AddToBins)(x, codes, n, bins, count); }

PackedBinSums::PackedBinSums(int bits) : bits_(bits), each_(static_cast<std::size_t>(8 / bits)) {
  for (double* const table : sums_) std::fill(table, table + 256 * each_, 0.0);
}

void PackedBinSums::add(const float* x, std::size_t n, const std::uint8_t* packed) {
  const std::size_t bytes = n / each_;
  HWY_DYNAMIC_DISPATCH(AddPacked)(x, packed, bytes, each_, sums_[0], counts_[0], sums_[1] - sums_[0]);
  for (std::size_t i = bytes * each_; i < n; ++i) {
    Bin& bin = rest_[code_of(packed[bytes], i % each_)];
    bin.sum += double{x[i]}, bin.count += 1;
  }
}

void PackedBinSums::add_to(Bin* bins) const {
  for (std::size_t k = 0; k < each_; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      Bin& bin = bins[code_of(byte, k)];
      bin.sum += sums_[0][byte * each_ + k] + sums_[1][byte * each_ + k];
      bin.count += static_cast<double>(counts_[0][byte] + counts_[1][byte]);
    }
  for (std::size_t b = 0; b < std::size_t{1} << bits_; ++b) bins[b].sum += rest_[b].sum, bins[b].count += rest_[b].count;
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
