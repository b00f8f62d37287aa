// A training that diverged: its loss, a gradient or a weight is no number any more.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"

namespace thinwire {

/// How the text of every Diverged begins, also where another program reads it in a log: a claim tells a divergence, which is a result of its arm, from a defect.
inline constexpr std::string_view diverged_mark = "Training diverged: ";

/// Not a defect of the program, and not to be tried again: the same configuration diverges again.
struct Diverged : RuntimeFailure {
  explicit Diverged(const std::string& message) : RuntimeFailure(std::string(diverged_mark) + message) {}
};

}  // namespace thinwire
