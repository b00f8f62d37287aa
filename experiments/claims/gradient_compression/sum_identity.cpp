// gradient_compression.C26: EF-SGD's iterate less what its residual holds is the iterate of plain SGD under the same gradients: x_t - e_t = x_0 - sum of lr g. The wrapper
// `+ef` around several codecs; x and the sum in float64. The control is the same codec without the wrapper.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

const Shape shape{32, 100};
constexpr int steps = 1000;
constexpr double learning_rate = 0.01;
const std::vector<std::string> codecs = {"sign:scale=l1", "sign:scale=l2,scope=row", "topk:fraction=0.05,values=f32", "group:bits=2,range=full", "quantize:bits=2"};

/// Relative L2 of x_t - e_t from SGD's iterate after all steps; the residual e_t is what the next message adds to a gradient of 0.
double distance(const std::string& codec) {
  LocalRanks rank(codec, 1);
  const auto n = static_cast<std::size_t>(shape.elements());
  Doubles x(n, 0.0), plain(n, 0.0);
  for (int step = 0; step < steps; ++step) {
    Floats p = normal_numbers(shape.elements(), static_cast<std::uint64_t>(step), "gradient");
    for (float& v : p) v = static_cast<float>(learning_rate * double{v});
    for (std::size_t i = 0; i < n; ++i) plain[i] -= double{p[i]};
    const Floats applied = rank.reduce({std::move(p)}, shape, step).sum;
    for (std::size_t i = 0; i < n; ++i) x[i] -= double{applied[i]};
  }
  const Floats held = rank.reduce({Floats(n, 0.0f)}, shape, steps).given.front();
  Floats corrected(n);
  for (std::size_t i = 0; i < n; ++i) corrected[i] = static_cast<float>(x[i] - double{held[i]});
  return relative_l2(corrected, plain);
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("1000 steps of five codecs in this process (seconds)");
  Table table{"x_t - e_t against SGD's iterate, relative L2", {"with +ef", "without"}, {}};
  double with = 0, without = INFINITY;
  for (const std::string& codec : codecs) {
    const double kept = distance(codec + "+ef"), dropped = distance(codec);
    table.rows.push_back({codec, {kept, dropped}});
    with = std::max(with, kept), without = std::min(without, dropped);
  }
  Finding f;
  f.measures = {{"relative L2 of x_t - e_t from SGD's iterate, the largest of codecs", with, no_number, no_number, 1e-6, "", "with"},
                {"control: the same without a residual, the least", without, no_number, no_number, 1e-2, "", "without"}};
  f.tables = {std::move(table)};
  return f;
}

std::string list_of_codecs() {
  std::string list;
  for (const std::string& codec : codecs) list += (list.empty() ? "" : "; ") + codec;
  return list;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C26",
     .statement = "EF-SGD's iterate less its residual is the SGD iterate of the same gradients.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codecs", list_of_codecs()}, {"gradients", "32 x 100, standard normal, new in each step"}, {"steps", std::to_string(steps)}, {"learning rate", "0.01"}},
              .quantities = {{"with", "relative L2 of x_t - e_t from the iterate of SGD after all steps, the largest of the codecs with +ef"}, {"without", "the same of the codecs alone, the least"}},
              .constants = {{"same", 1e-6, "relative L2: rounding of f32"}, {"far", 1e-2, "relative L2"}},
              .clauses = {{Verdict::invalid, "without <= far"}, {Verdict::pass, "with <= same"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
