// sparse: a fraction `zeros` of exact zeros, the others standard normal. shared_sparse: every rank has its numbers at the same places, as replicas of one model
// that learn from like data nearly have; a sum over ranks is then no fuller than one of them.
#include "models/data/generated/generators.h"

namespace thinwire {
namespace {

void fill(const Generator& g, const Draws& draws, const Random& choice, std::span<float> to) {
  fill_normal(draws.values(), to);
  const auto zeros = static_cast<float>(g.at("zeros"));
  for (std::size_t i = 0; i < to.size(); ++i)
    if (choice.uniform(i) < zeros) to[i] = 0;
}

const bool sparse = register_generator({.kind = "sparse",
                                        .summary = "a fraction `zeros` of exact zeros, the others standard normal",
                                        .parameters = {{"zeros", {0.99, 0, 1}}},
                                        .generate = [](const Generator& g, const Shape&, const Draws& draws, std::span<float> to) { fill(g, draws, draws.choices(), to); }});

const bool shared_sparse = register_generator({.kind = "shared_sparse",
                                               .summary = "sparse, with zeros at the same places on every rank",
                                               .parameters = {{"zeros", {0.95, 0, 1}}},
                                               .generate = [](const Generator& g, const Shape&, const Draws& draws, std::span<float> to) { fill(g, draws, draws.shared_choices(), to); }});

}  // namespace
}  // namespace thinwire
