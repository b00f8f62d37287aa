// gaussian: independent standard normal numbers. log_normal: sign * exp(sigma * normal), heavy-tailed magnitudes.
#include <cmath>

#include "models/data/generated/generators.h"

namespace thinwire {
namespace {

const bool gaussian = register_generator({.kind = "gaussian", .summary = "independent standard normal", .generate = [](const Generator&, const Shape&, const Draws& draws, std::span<float> to) {
                                            fill_normal(draws.values(), to);
                                          }});

// A larger sigma: exp(sigma * normal) leaves f16.
const bool log_normal = register_generator({.kind = "log_normal",
                                            .summary = "random sign times exp(sigma * normal)",
                                            .parameters = {{"sigma", {2.0, 0, 5}}},
                                            .generate = [](const Generator& g, const Shape&, const Draws& draws, std::span<float> to) {
                                              const Random choice = draws.choices();
                                              fill_normal(draws.values(), to, g.at("sigma"));
                                              for (std::size_t i = 0; i < to.size(); ++i) to[i] = (choice.bits32(i) & 1u ? -1.0f : 1.0f) * std::exp(to[i]);
                                            }});

}  // namespace
}  // namespace thinwire
