// Many blocks of the generator of core/random.h at once. One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// words[4 b ... 4 b + 3] = Random(seed, stream).block(first + b), b < blocks.
void philox_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t blocks, std::uint32_t* words);

}  // namespace thinwire::simd
