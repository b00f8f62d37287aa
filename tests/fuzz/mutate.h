// Inputs like given ones, from random numbers alone: the same seed and number give the same input everywhere.
#pragma once

#include <string>
#include <vector>

#include "core/random.h"

namespace thinwire::fuzz {

/// Number `i` of the inputs that `random` makes of `corpus`, which is not empty: one of them with one to eight changes (bits, bytes, numbers at the ends of their ranges, runs
/// that are cut, doubled or moved, pieces of another input). `first_line_stays`: none of them in the first line. At most `longest` bytes.
std::string mutated(const std::vector<std::string>& corpus, const Random& random, std::uint64_t i, bool first_line_stays, std::size_t longest = 1 << 16);

}  // namespace thinwire::fuzz
