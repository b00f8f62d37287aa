#include "kernels/simd/philox.h"

#include <array>
#include <cstring>

#include "core/random.h"
#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/philox.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
void Blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks, std::uint32_t* HWY_RESTRICT words) {
  const Random random(seed, stream);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::array<std::uint32_t, 4> block = random.block(first + b);
    std::memcpy(words + 4 * b, block.data(), sizeof block);
  }
}
#else
using U64 = hn::ScalableTag<std::uint64_t>;

/// A generator's state for as many counters as a vector has 64-bit lanes: each word is the low half of its lane, and what products leave in the high half is
/// never looked at.
struct Counters {
  hn::Vec<U64> c0, c1, c2, c3;
};

HWY_INLINE hn::Vec<U64> Product(hn::Vec<U64> word, std::uint32_t factor) {
  const U64 d;
  const hn::Repartition<std::uint32_t, U64> words;
  return hn::MulEven(hn::BitCast(words, word), hn::BitCast(words, hn::Set(d, factor)));
}

/// Halves trade places: shuffles have a port of their own where products and shifts share one.
HWY_INLINE hn::Vec<U64> HighHalf(hn::Vec<U64> v) {
  const U64 d;
  const hn::Repartition<std::uint32_t, U64> words;
  return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(words, v)));
}

HWY_INLINE void Step(Counters& c, std::uint32_t key0, std::uint32_t key1) {
  const U64 d;
  const auto a = Product(c.c0, 0xD2511F53u), b = Product(c.c2, 0xCD9E8D57u);
  c.c0 = hn::Xor3(HighHalf(b), c.c1, hn::Set(d, key0));
  c.c1 = b;
  c.c2 = hn::Xor3(HighHalf(a), c.c3, hn::Set(d, key1));
  c.c3 = a;
}

void Blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks, std::uint32_t* HWY_RESTRICT words) {
  const U64 d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t at_once = 4;  // independent chains hide the latency of the products; a loop over them that the compiler kept would keep them in memory
  std::array<std::uint32_t, 4 * 8 * at_once> rest;  // eight lanes are the most on any target here
  const auto low = hn::Set(d, 0xffffffffu);
  for (std::size_t begin = 0; begin < blocks; begin += at_once * lanes) {
    const auto counters = [&](std::size_t k) HWY_ATTR {
      const auto index = hn::Iota(d, first + begin + k * lanes);
      return Counters{index, hn::ShiftRight<32>(index), hn::Set(d, stream), hn::Set(d, stream >> 32)};
    };
    Counters c0 = counters(0), c1 = counters(1), c2 = counters(2), c3 = counters(3);
    auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      Step(c0, key0, key1), Step(c1, key0, key1), Step(c2, key0, key1), Step(c3, key0, key1);
      key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    const bool whole = begin + at_once * lanes <= blocks;
    std::uint32_t* const to = whole ? words + 4 * begin : rest.data();
    const auto store = [&](const Counters& c, std::size_t k) HWY_ATTR {
      const auto words01 = hn::Or(hn::And(c.c0, low), hn::ShiftLeft<32>(c.c1)), words23 = hn::Or(hn::And(c.c2, low), hn::ShiftLeft<32>(c.c3));
      hn::StoreInterleaved2(words01, words23, d, reinterpret_cast<std::uint64_t*>(to + 4 * k * lanes));
    };
    store(c0, 0), store(c1, 1), store(c2, 2), store(c3, 3);
    if (!whole) std::memcpy(words + 4 * begin, rest.data(), 4 * (blocks - begin) * sizeof(std::uint32_t));
  }
}
#endif

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(Blocks);

void philox_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks, std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(Blocks)(seed, stream, first, blocks, words);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
