#include "kernels/simd/codes/code_stream.h"

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codes/code_stream.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
std::size_t Join(const std::uint8_t*, std::size_t, int, std::uint8_t*, const std::uint8_t*) { return 0; }
std::size_t Split(const std::uint8_t*, const std::uint8_t*, std::size_t, int, std::uint8_t*) { return 0; }
#else
// Sixteen codes at once, two groups: bytes of a group change places within 16 bytes, and no further.
using Bytes = hn::FixedTag<std::uint8_t, 16>;
using Pairs = hn::FixedTag<std::uint16_t, 8>;
using Fours = hn::FixedTag<std::uint32_t, 4>;
using Groups = hn::FixedTag<std::uint64_t, 2>;
constexpr std::ptrdiff_t room = 16;  ///< bytes of a load or a store

/// On the wire a group is its number, all bits of eight codes and the first highest, highest byte first. Places that are not filled (0x80) are zeros.
template <int kBits>
HWY_INLINE hn::Vec<Bytes> PlacesOnWire() {
  HWY_ALIGN std::uint8_t places[16];
  for (int i = 0; i < 16; ++i) places[i] = static_cast<std::uint8_t>(i < kBits ? kBits - 1 - i : i < 2 * kBits ? 8 + 2 * kBits - 1 - i : 0x80);
  return hn::Load(Bytes(), places);
}
template <int kBits>
HWY_INLINE hn::Vec<Bytes> PlacesInNumbers() {
  HWY_ALIGN std::uint8_t places[16];
  for (int i = 0; i < 16; ++i) places[i] = static_cast<std::uint8_t>(i % 8 < kBits ? i / 8 * kBits + kBits - 1 - i % 8 : 0x80);
  return hn::Load(Bytes(), places);
}

/// Halves of a lane, numbers of kWidth bits, become one number, the lower half its upper bits; and back.
template <int kWidth, class D>
HWY_INLINE hn::Vec<D> JoinHalves(D d, hn::Vec<D> v) {
  constexpr int half = 4 * sizeof(hn::TFromD<D>);
  const auto both = hn::Set(d, static_cast<hn::TFromD<D>>((std::uint64_t{1} << 2 * kWidth) - 1));
  return hn::OrAnd(hn::ShiftRight<half>(v), hn::ShiftLeft<kWidth>(v), both);
}
template <int kWidth, class D>
HWY_INLINE hn::Vec<D> SplitHalves(D d, hn::Vec<D> v) {
  constexpr int half = 4 * sizeof(hn::TFromD<D>);
  const auto upper = hn::Set(d, static_cast<hn::TFromD<D>>(((std::uint64_t{1} << kWidth) - 1) << half));
  return hn::OrAnd(hn::ShiftRight<kWidth>(v), hn::ShiftLeft<half>(v), upper);
}

template <int kBits>
std::size_t JoinAs(const std::uint8_t* HWY_RESTRICT codes, std::size_t groups, std::uint8_t* HWY_RESTRICT to, const std::uint8_t* end) {
  const Bytes bytes;
  const auto places = PlacesOnWire<kBits>();
  std::size_t g = 0;
  for (; g + 2 <= groups && end - to >= room; g += 2, to += 2 * kBits) {
    const auto pairs = JoinHalves<kBits>(Pairs(), hn::BitCast(Pairs(), hn::LoadU(bytes, codes + 8 * g)));
    const auto fours = JoinHalves<2 * kBits>(Fours(), hn::BitCast(Fours(), pairs));
    const auto numbers = JoinHalves<4 * kBits>(Groups(), hn::BitCast(Groups(), fours));
    hn::StoreU(hn::TableLookupBytesOr0(hn::BitCast(bytes, numbers), places), bytes, to);  // what is too much is overwritten by the next groups
  }
  return g;
}

template <int kBits>
std::size_t SplitAs(const std::uint8_t* HWY_RESTRICT from, const std::uint8_t* end, std::size_t groups, std::uint8_t* HWY_RESTRICT codes) {
  const Bytes bytes;
  const auto places = PlacesInNumbers<kBits>();
  std::size_t g = 0;
  for (; g + 2 <= groups && end - from >= room; g += 2, from += 2 * kBits) {
    const auto numbers = hn::BitCast(Groups(), hn::TableLookupBytesOr0(hn::LoadU(bytes, from), places));
    const auto fours = hn::BitCast(Fours(), SplitHalves<4 * kBits>(Groups(), numbers));
    const auto pairs = hn::BitCast(Pairs(), SplitHalves<2 * kBits>(Fours(), fours));
    hn::StoreU(hn::BitCast(bytes, SplitHalves<kBits>(Pairs(), pairs)), bytes, codes + 8 * g);
  }
  return g;
}

std::size_t Join(const std::uint8_t* codes, std::size_t groups, int bits, std::uint8_t* to, const std::uint8_t* end) {
  constexpr decltype(&JoinAs<1>) join[] = {JoinAs<1>, JoinAs<2>, JoinAs<3>, JoinAs<4>, JoinAs<5>, JoinAs<6>, JoinAs<7>};
  return join[bits - 1](codes, groups, to, end);
}
std::size_t Split(const std::uint8_t* from, const std::uint8_t* end, std::size_t groups, int bits, std::uint8_t* codes) {
  constexpr decltype(&SplitAs<1>) split[] = {SplitAs<1>, SplitAs<2>, SplitAs<3>, SplitAs<4>, SplitAs<5>, SplitAs<6>, SplitAs<7>};
  return split[bits - 1](from, end, groups, codes);
}
#endif

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(Join);
HWY_EXPORT(Split);

std::size_t join_codes(const std::uint8_t* codes, std::size_t groups, int bits, std::uint8_t* to, const std::uint8_t* end) { return HWY_DYNAMIC_DISPATCH(Join)(codes, groups, bits, to, end); }
std::size_t split_codes(const std::uint8_t* from, const std::uint8_t* end, std::size_t groups, int bits, std::uint8_t* codes) { return HWY_DYNAMIC_DISPATCH(Split)(from, end, groups, bits, codes); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
