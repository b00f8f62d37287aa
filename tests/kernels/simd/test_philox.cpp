// labels: unit
// Many blocks of the generator at once against one at a time, on every SIMD target of this processor.
#include "kernels/simd/philox.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/random.h"
#include "support/simd_targets.h"

namespace thinwire::simd {
namespace {

TEST(Philox, BlocksAreThoseOfTheGenerator) {
  // Streams and seeds that fill both words; first blocks about where the low word of the counter overflows.
  for (const std::uint64_t seed : {std::uint64_t{7}, std::uint64_t{0xfedcba9876543210}})
    for (const std::uint64_t stream : {std::uint64_t{0}, std::uint64_t{0x123456789abcdef0}})
      for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{0xffffffed}})
        for (const std::size_t blocks : {0, 1, 3, 8, 31, 32, 33, 100}) {
          const Random random(seed, stream);
          testing::on_every_simd_target([&] {
            std::vector<std::uint32_t> words(4 * blocks + 1, 42);
            philox_blocks(seed, stream, first, blocks, words.data());
            for (std::size_t b = 0; b < blocks; ++b)
              for (std::size_t k = 0; k < 4; ++k) ASSERT_EQ(words[4 * b + k], random.block(first + b)[k]) << "block " << first << " + " << b << " of " << blocks;
            ASSERT_EQ(words.back(), 42u) << "nothing is written behind the end";
          });
        }
}

}  // namespace
}  // namespace thinwire::simd
