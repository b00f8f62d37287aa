// gradient_compression.C23a and C23b: deep gradient compression's ratios without its training. C23a: the abstract's megabytes against its own range of 270x to 600x. C23b: what one
// sender's message at a ratio of 0.001 really costs, values f32 and positions int32, counted; every rank receives those of all others.
#include <algorithm>
#include <cmath>

#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/published.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

Finding compare(const JudgeContext& context) {
  const Published published = Published::open(context, "gradient_compression.csv");
  const auto number = [&](const std::string& row, const std::string& column) { return published.read("DGC", "headline", row, column); };
  const double low = number("all models", "compression ratio, low"), high = number("all models", "compression ratio, high");
  Finding f;
  double below = INFINITY, above = 0;
  for (const char* model : {"ResNet-50", "DeepSpeech"}) {
    const double ratio = number(model, "gradient size before") / number(model, "gradient size after");
    below = std::min(below, ratio / low), above = std::max(above, ratio / high);
    f.measures.push_back({std::string("megabytes before over after, ") + model, ratio, no_number, no_number, no_number, "x"});
  }
  f.measures.push_back({"the least over the range's lower end", below, no_number, no_number, 1, "", "below"});
  f.measures.push_back({"the largest over the range's upper end", above, no_number, no_number, 1, "", "above"});
  return f;
}

constexpr std::int64_t rows = 1000;
const std::vector<int> all_ranks = {2, 4, 8};

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int ranks : all_ranks) all.push_back({std::to_string(ranks) + " ranks", reduction_request(ranks, rows, "topk:fraction=0.001,index=int32,values=f32", {{"protocol", "gather"}})});
  all.push_back({"compact positions, f16 values", reduction_request(2, rows, "topk:fraction=0.001", {{"protocol", "gather"}})});
  return all;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  const auto row_of = [&](std::size_t cell) -> const results::CellRow& { return records[cell].rows.front(); };
  const auto per_sender = [&](std::size_t cell) { return static_cast<double>(row_of(cell).dense_bytes) / static_cast<double>(row_of(cell).payload_bytes); };
  Finding f;
  Table table{"Top-K of 0.001 against dense f32", {"ranks", "gradient over message (x)", "dense all-reduce over all-gather, sent (x)"}, {}};
  double least = INFINITY;
  for (std::size_t i = 0; i < all_ranks.size(); ++i) {
    least = std::min(least, per_sender(i));
    table.rows.push_back({"f32, int32", {static_cast<double>(all_ranks[i]), per_sender(i), static_cast<double>(row_of(i).baseline_link_bytes) / static_cast<double>(row_of(i).link_bytes)}});
  }
  const std::size_t compact = all_ranks.size();
  table.rows.push_back({"f16, compact", {2, per_sender(compact), static_cast<double>(row_of(compact).baseline_link_bytes) / static_cast<double>(row_of(compact).link_bytes)}});
  f.measures = {{"gradient in f32 over a sender's message, the least", least, no_number, no_number, 270, "x", "ratio"},
                {"the same with f16 values and compact positions", per_sender(compact), no_number, no_number, no_number, "x"}};
  f.tables = {std::move(table)};
  f.note = "bytes alone, no training; against a dense all-reduce the gain is 2/N of it";
  return f;
}

const bool arithmetic = register_claim({.id = "gradient_compression.C23a",
                                        .statement = "Deep gradient compression's megabytes before and after (ResNet-50, DeepSpeech) lie within its range of 270 to 600.",
                                        .provenance = "read: abstract of DGC",
                                        .basis = Basis::published,
                                        .rule = {.quantities = {{"below", "megabytes before over megabytes after, over 270, the less of both models"}, {"above", "the same over 600, the larger"}},
                                                 .constants = {{"near", 0.05, "of an end: rounding of the printed megabytes"}},
                                                 .clauses = {{Verdict::confirmed, "below >= 1 - near && above <= 1 + near"}},
                                                 .otherwise = Verdict::refuted},
                                        .measure = compare});
const bool counted = register_claim({.id = "gradient_compression.C23b",
                                     .statement = "Deep gradient compression sends 270 to 600 times less: a sender's message at 0.001, counted.",
                                     .provenance = "read: abstract of DGC; derived (bytes)",
                                     .basis = Basis::exact,
                                     .from = Profile::quick,
                                     .rule = with_arms({.quantities = {{"ratio", "bytes of the gradient in f32 over bytes of a rank's message, counted, the least of 2, 4 and 8 ranks"}},
                                                                         .constants = {{"claimed", 270, "x"}},
                                                                         .clauses = {{Verdict::confirmed, "ratio >= claimed"}},
                                                                         .otherwise = Verdict::not_reproduced},
                                                                        requests()),
                                     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
