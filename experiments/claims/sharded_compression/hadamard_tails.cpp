// sharded_compression.C12a: what a Hadamard transform of blocks of 32 does to int4 in groups of 128, by the distribution of the numbers
// (docs/papers/sharded_compression.md, "Worked examples"). Gradients of a training: C12b.
#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/claims/context.h"
#include "experiments/claims/sharded_compression/cells/messages.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::size_t count = 1 << 17;
constexpr const char *plain = "group:bits=4,group=128,round=stochastic", *rotated = "group:bits=4,group=128,round=stochastic+hadamard:block=32";

struct Distribution {
  std::string name;
  double page_plain, page_rotated;
  double (*draw)(const Random& random, std::uint64_t i);
};

const std::vector<Distribution> distributions = {
    {"normal", .167, .167, [](const Random& r, std::uint64_t i) { return r.normal(i); }},
    {"Laplace", .227, .167, [](const Random& r, std::uint64_t i) {
       const double u = r.uniform(i) - 0.5 + 0x1p-25;  // in the middle of its 2^-24
       return u < 0 ? std::log(1 + 2 * u) : -std::log(1 - 2 * u);
     }},
    {"Student's t of 3 degrees", .333, .164, [](const Random& r, std::uint64_t i) {
       double squares = 0;
       for (std::uint64_t k = 1; k <= 3; ++k) squares += r.normal(4 * i + k) * r.normal(4 * i + k);
       return r.normal(4 * i) / std::sqrt(squares / 3);
     }},
    {"log-normal of 1.5, either sign", .342, .149, [](const Random& r, std::uint64_t i) { return (r.bits32(2 * count + i) & 1 ? 1 : -1) * std::exp(1.5 * r.normal(i)); }},
    {"every 256th normal number times 20", .438, .156, [](const Random& r, std::uint64_t i) { return (i % 256 == 0 ? 20 : 1) * r.normal(i); }}};

Finding measure(JudgeContext&) {
  Finding found;
  Table table{"relative error of int4, groups of 128, stochastic", {"plain", "page", "with H of 32", "page", "ratio"}, {}};
  double normal = no_number, tails = 0;
  Wire without(plain), with(rotated);
  for (const Distribution& d : distributions) {
    const Random random(12, d.name);
    Values x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(d.draw(random, i));
    const double a = relative_error(without.arrives(x, {}), x), b = relative_error(with.arrives(x, {}), x);
    table.rows.push_back({d.name, {a, d.page_plain, b, d.page_rotated, b / a}});
    if (&d == &distributions.front())
      normal = b / a;
    else
      tails = std::max(tails, b / a);
  }
  found.measures = {{"error with H over error without, normal numbers", normal, no_number, no_number, 1, "ratio", "normal"},
                    {"the same of heavier tails, the largest", tails, no_number, no_number, 0.9, "ratio", "tails"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C12a",
     .statement = "The Hadamard transform helps heavy tails only.",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule = {.settings = {{"codec", plain}, {"with the transform", rotated}, {"numbers", std::to_string(count) + " of each distribution"}},
              .quantities = {{"normal", "relative L2 error with the transform over that without, normal numbers"},
                             {"tails", "the same of Laplace, Student's t of 3 degrees, log-normal of 1.5 and outliers of 20, the largest"}},
              .constants = {{"one", 1, "no difference"}, {"band", 0.02, "ratio"}, {"helps", 0.9, "ratio: a smaller gain is not worth naming"}},
              .clauses = {{Verdict::pass, "abs(normal - one) <= band && tails <= helps"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
