// gradient_compression.C28: a majority vote sends a bit per element up and one down. Signs by protocol two_shot: each rank is the server of its part; it adds signs that it got and
// sends the sign of the sum, which is the vote. Our other form sums counts as a dense reduction, a byte per element each way. Both must vote alike (the control).
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr std::int64_t rows = 240, elements = rows * 1024;
const std::vector<int> all_ranks = {2, 3, 4, 8};

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int ranks : all_ranks) {
    const std::string name = std::to_string(ranks) + " ranks, ";
    all.push_back({name + "signs to servers and back", reduction_request(ranks, rows, "sign:scale=none", {{"protocol", "two_shot"}})});
    all.push_back({name + "counts", reduction_request(ranks, rows, "sign:scale=none,vote=majority", {{"protocol", "rounds"}})});
  }
  return all;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Table table{"bits per element that a rank sends, its own part not counted", {"ranks", "signs, both ways", "counts, both ways", "cosine to the dense sum, signs", "the same, counts"}, {}};
  double off = 0, apart = 0, least_counts = INFINITY;
  for (std::size_t i = 0; i < all_ranks.size(); ++i) {
    const results::CellRow &signs = records[2 * i].rows.front(), &counts = records[2 * i + 1].rows.front();
    // Of n elements a rank sends n (N - 1)/N up, and as many down.
    const double ranks = all_ranks[i], each_way = static_cast<double>(elements) * (ranks - 1) / ranks;
    const auto bits = [&](const results::CellRow& row) { return 8 * static_cast<double>(row.link_bytes) / each_way; };
    off = std::max(off, std::abs(static_cast<double>(signs.link_bytes) - 2 * each_way / 8));
    apart = std::max(apart, std::abs(signs.cosine - counts.cosine));
    least_counts = std::min(least_counts, bits(counts));
    table.rows.push_back({"", {ranks, bits(signs), bits(counts), signs.cosine, counts.cosine}});
  }
  Finding f;
  f.measures = {{"bytes of a rank from n/8 up and n/8 down, its own part not counted, the largest distance", off, no_number, no_number, 0, "bytes", "off"},
                {"control: difference of the two forms' cosine to the dense sum", apart, no_number, no_number, 1e-9, "", "apart"},
                {"bits per element both ways where counts are summed, the least", least_counts, no_number, no_number, 16, "bits"}};
  f.tables = {std::move(table)};
  f.note = "one bit each way needs servers that vote: the owners of parts in two_shot; summed as counts the vote sends eight bits each way";
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C28",
     .statement = "Majority vote sends one bit each way.",
     .provenance = "read: abstract of signSGD",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"off", "bytes that a rank sends, counted, less n/8 up and n/8 down times (N - 1)/N, signs by protocol two_shot, the largest distance of all ranks; whole bytes, no padding"},
                                                        {"apart", "cosine of the result to the dense sum: signs by two_shot against counts, the largest difference"}},
                                         .constants = {{"same", 1e-9, "cosine: the same vote"}},
                                         .clauses = {{Verdict::invalid, "apart > same"}, {Verdict::confirmed, "off == 0"}},
                                         .otherwise = Verdict::not_reproduced},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
