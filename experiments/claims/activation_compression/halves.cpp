// activation_compression.C26a: SWARM's two codecs both halve f16: a bottleneck of half the width exactly, 8-bit codes in blocks with what their released form sends besides: an f32 for each
// block of 4096, a code book of 256 f32 and two lengths of 8 bytes. How many steps they take C26b asks.
#include <algorithm>
#include <cmath>

#include "experiments/claims/activation_compression/cells/sent.h"
#include "experiments/claims/context.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

Finding measure(JudgeContext&) {
  Finding found;
  Table table{"payload over f16", {"elements", "bottleneck", "8 bits", "formula"}, {}};
  double bottleneck = 0, blocks = 0;
  for (const Shape& shape : {Shape{64, 128}, Shape{512, 256}, Shape{1024, 1024}}) {
    const Floats x = normal_numbers(shape.elements(), "activation");
    const auto n = static_cast<double>(shape.elements());
    const auto ratio = [&](const std::string& codec) { return static_cast<double>(send(codec, x, shape, Form::released).payload.size()) / (2 * n); };
    const double half = static_cast<double>(send("autoencoder:fraction=0.5,init=xavier", x, shape).payload.size()) / (2 * n), eight = ratio("blockwise8"), formula = 0.5 + 4.0 / 8192 + 1040 / (2 * n);
    bottleneck = std::max(bottleneck, std::abs(half - 0.5)), blocks = std::max(blocks, std::abs(eight - formula) * 2 * n);
    table.rows.push_back({shape.to_string(), {n, half, eight, formula}});
  }
  found.measures = {{"|bottleneck / f16 - 0.5|, most", bottleneck, no_number, no_number, 0, "", "bottleneck"}, {"|8 bits in blocks - formula|, most", blocks, no_number, no_number, 0, "bytes", "blocks"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim({.id = "activation_compression.C26a",
                                        .statement = "8 bits and a bottleneck of half the width both halve f16 traffic.",
                                        .provenance = "recollected (SWARM, weak); derived (bytes)",
                                        .basis = Basis::exact,
                                        .rule = {.settings = {{"bottleneck", "autoencoder:fraction=0.5, f16 on the wire"}, {"8 bits", "blockwise8, released form"}, {"shapes", "64 x 128, 512 x 256, 1024 x 1024"}},
                                                 .quantities = {{"bottleneck", "payload over that of f16, largest distance from 0.5"},
                                                                {"blocks", "payload, largest distance from 2 n (0.5 + 4/8192 + 1040 / (2 n)) bytes for n elements"}},
                                                 .constants = {{"byte", 0.5, "bytes"}},
                                                 .clauses = {{Verdict::pass, "bottleneck == 0 && blocks < byte"}},
                                                 .otherwise = Verdict::fail},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
