// integers: whole numbers from -largest to largest, equally likely. Their sums are exact in f32.
#include "models/data/generated/generators.h"

namespace thinwire {
namespace {

// Sums over 512 ranks stay below 2^24.
const bool registered = register_generator({.kind = "integers",
                                            .summary = "whole numbers from -largest to largest, equally likely: their sums are exact in f32",
                                            .parameters = {{"largest", {8, 1, 32768, true}}},
                                            .generate = [](const Generator& g, const Shape&, const Draws& draws, std::span<float> to) {
                                              const Random choice = draws.choices();
                                              const auto largest = static_cast<std::int64_t>(g.at("largest"));
                                              for (std::size_t i = 0; i < to.size(); ++i)
                                                to[i] = static_cast<float>(static_cast<std::int64_t>(choice.uniform(i) * static_cast<double>(2 * largest + 1)) - largest);
                                            }});

}  // namespace
}  // namespace thinwire
