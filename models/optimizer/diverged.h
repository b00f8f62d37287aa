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

/// Runs a part of a training. A tensor that its codec cannot send (NotRepresentable) is no defect of the codec: the training that made it diverged. `where` ends the message.
template <class Body>
auto naming_divergence(const Body& body, const std::string& where = {}) {
  try {
    return body();
  } catch (const NotRepresentable& error) {
    throw Diverged(error.what() + where);
  }
}

}  // namespace thinwire
