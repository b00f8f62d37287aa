// low_bandwidth_pipeline.C12a: what TAH-Quant's transform of a tile with one outlier is worth: tiles of 64 normal numbers over their largest, one of them +-A, at 3 bits.
#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/claims/activation_compression/cells/sent.h"
#include "experiments/claims/context.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr std::int64_t tiles = 4000, width = 64;

Floats tiles_with(float outlier) {
  Floats x = normal_numbers(tiles * width, "tiles");
  const Random random(12, "outliers");
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::span<float> tile(x.data() + t * width, static_cast<std::size_t>(width));
    float largest = 0;
    for (const float v : tile) largest = std::max(largest, std::abs(v));
    for (float& v : tile) v /= largest;
    const auto n = static_cast<std::uint64_t>(t);
    tile[random.below(2 * n, static_cast<std::uint64_t>(width))] = random.below(2 * n + 1, 2) == 0 ? outlier : -outlier;
  }
  return x;
}

Finding measure(JudgeContext&) {
  Finding found;
  Table table{"square error without over with the transform", {"outlier", "ratio", "page"}, {}};
  double apart = 0;
  for (const auto& [outlier, page] : {std::pair{2.0f, 2.5}, std::pair{4.0f, 7.0}, std::pair{8.0f, 24.0}}) {
    const Floats x = tiles_with(outlier);
    const auto error = [&](const std::string& rotate) { return square_error(send("tah:low=3,high=3,rotate=" + rotate, x, Shape{tiles, width}).decoded, x); };
    const double ratio = error("false") / error("true");
    apart = std::max(apart, std::abs(ratio / page - 1));
    table.rows.push_back({"A = " + std::to_string(static_cast<int>(outlier)), {double{outlier}, ratio, page}});
  }
  found.measures = {{"|ratio / page's - 1|, most", apart, no_number, no_number, 0.1, "", "apart"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim({.id = "low_bandwidth_pipeline.C12a",
                                        .statement = "In tiles with one outlier the rotation lowers the square error 2.5, 7.0 and 24 times for an outlier of 2, 4 and 8 times the others' largest.",
                                        .provenance = "derived",
                                        .basis = Basis::exact,
                                        .rule = {.settings = {{"tiles", "4000 of 64 normal numbers over their largest, a random one set to +-A, A = 2, 4, 8"}, {"codec", "tah:low=3,high=3, rotate=false and true"}},
                                                 .quantities = {{"apart", "square error without over that with the transform, over 2.5, 7.0, 24: largest distance from 1"}},
                                                 .constants = {{"share", 0.1, "of the page's ratio"}},
                                                 .clauses = {{Verdict::pass, "apart <= share"}},
                                                 .otherwise = Verdict::fail},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
