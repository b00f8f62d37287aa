// gradient_compression.C13: error feedback of a sharded gradient remembers the whole unit on every rank. ZeRO-3 trainings with `sketch+ef` and with `sketch`, the peak of each
// rank's buffers; two depths, since the residual grows with the layers and a channel's copies of its largest message do not.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr int few = 2, many = 4;  ///< layers
constexpr double hidden = 128, of_layer = 12 * hidden * hidden;
const std::vector<int> all_ranks = {2, 4};

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int ranks : all_ranks)
    for (const int layers : {few, many})
      for (const char* codec : {"sketch", "sketch+ef"})
        all.push_back({std::to_string(ranks) + " ranks, " + std::to_string(layers) + " layers, " + codec,
                       training_request(ranks, 3, {{"zero-stage", "3"}, {"zero-reduce", "step"}, {"comm-dtype", "f32"}, {"overlap", "false"}, {"layers", std::to_string(layers)}, {"compress.grad_reduce_scatter", codec},
                                                   {"compress.grad_reduce_scatter.min_elements", "16384"}})});
  return all;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Table table{"memory of a rank", {"ranks", "layers", "peak without the residual (bytes)", "with it (bytes)", "more per compressed parameter (bytes)"}, {}};
  double least = INFINITY, most = 0;
  std::size_t next = 0;
  for (const int ranks : all_ranks) {
    double more[2] = {};
    for (const int layers : {few, many}) {
      const auto without = static_cast<double>(peak(records[next])), with = static_cast<double>(peak(records[next + 1]));
      next += 2;
      more[layers == many ? 1 : 0] = with - without;
      table.rows.push_back({"", {static_cast<double>(ranks), static_cast<double>(layers), without, with, (with - without) / (layers * of_layer)}});
    }
    const double grows = (more[1] - more[0]) / ((many - few) * of_layer);
    least = std::min(least, grows), most = std::max(most, grows);
  }
  Finding f;
  f.measures = {{"bytes of the residual per compressed parameter and rank, the least", least, no_number, no_number, 4, "bytes", "least"},
                {"the same, the most", most, no_number, no_number, 4, "bytes", "most"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C13",
     .statement = "TAGC's residual breaks ZeRO's memory sharding.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"least", "what +ef adds to the peak of a rank's buffers at 4 layers less what it adds at 2, over the compressed parameters of two layers; the least of 2 and 4 ranks"},
                                                        {"most", "the same, the most"}},
                                         .constants = {{"residual", 4, "bytes per compressed parameter, whatever the ranks"}},
                                         .clauses = {{Verdict::confirmed, "least == residual && most == residual"}},
                                         .otherwise = Verdict::not_reproduced},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
