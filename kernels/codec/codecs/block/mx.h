// Rules by which mx's largest element chooses the scale of its block; formulas: mx.cpp.
#pragma once

#include <cstdint>

namespace thinwire {

enum class MxScaleRule : std::uint8_t { floor, ceil, even, rceil };

}  // namespace thinwire
