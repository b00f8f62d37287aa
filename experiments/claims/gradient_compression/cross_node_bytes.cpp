// gradient_compression.C17: what ZeRO++ sends across nodes, counted by class and level in trainings of zero stage 3 on 2 nodes: INT8 weights once per step (the node keeps a copy
// for the backward pass), INT4 gradients. M is the matrices in f16. Of a message to N nodes (N - 1)/N crosses, so all ranks together send (N - 1) M for a dense exchange.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr int nodes = 2, layers = 2, hidden = 256, positions = 32, judged_step = 1;
constexpr std::int64_t scale_bytes = 4;
const std::vector<int> all_ranks = {4, 8};

/// Dense with and without copies in the nodes, and coded.
std::vector<NamedRequest> requests() {
  const std::string hidden_text = std::to_string(hidden), group = ",range=full,group=8192";
  std::vector<NamedRequest> all;
  for (const int ranks : all_ranks) {
    std::map<std::string, std::string> settings = {{"hidden", hidden_text}, {"seq", std::to_string(positions)}, {"layers", std::to_string(layers)}, {"dp-nodes", std::to_string(nodes)},
                                                   {"zero-stage", "3"}, {"zero-keep", "layer"}, {"comm-dtype", "f16"}};
    const std::string name = std::to_string(nodes) + " x " + std::to_string(ranks / nodes) + ", ";
    all.push_back({name + "ZeRO-3", training_request(ranks, judged_step + 1, settings)});
    settings["zero-node-shards"] = "true";
    settings["compress.param_all_gather"] = "group:bits=8" + group;
    settings["compress.grad_reduce_scatter"] = settings["compress.grad_reduce_scatter.inside"] = "group:bits=4" + group;
    all.push_back({name + "ZeRO++", training_request(ranks, judged_step + 1, settings)});
  }
  return all;
}

/// Scales of all matrices, one per row (a group is longer): 7 h rows of each layer's h x 3h, h x h, h x 4h and 4h x h, the positions, and what is left of the elements, the token table's.
double scales_of(double elements) {
  const double table = elements - layers * 12.0 * hidden * hidden - positions * static_cast<double>(hidden);
  return scale_bytes * (layers * 7.0 * hidden + positions + table / hidden);
}

struct Parts {
  double weights, gradients;  ///< in M: what all gathers of a step send across, and the sum of gradients
};

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Table table{"sent across 2 nodes in a step, of M = the matrices in f16", {"ranks", "weights", "gradients", "scales of the weights", "scales of the gradients"}, {}};
  double weights = 0, gradients = 0, scales_most = 0, dense_least = INFINITY;
  for (std::size_t i = 0; i < all_ranks.size(); ++i) {
    const auto across = [&](const results::CellRecord& record, const char* traffic) { return static_cast<double>(sent(record, std::string(traffic) + ".across", Share::all, judged_step)); };
    const results::CellRecord &dense = records[2 * i], &coded = records[2 * i + 1];
    const double m = across(dense, "grad_reduce_scatter") / (nodes - 1), scales = scales_of(m / 2) / m;
    const Parts plain{across(dense, "param_all_gather") / m, 1}, all{across(coded, "param_all_gather") / m, across(coded, "grad_reduce_scatter") / m};
    table.rows.push_back({"ZeRO-3", {static_cast<double>(all_ranks[i]), plain.weights, plain.gradients, 0, 0}});
    table.rows.push_back({"ZeRO++", {static_cast<double>(all_ranks[i]), all.weights, all.gradients, scales, scales}});
    weights = std::max(weights, std::abs((all.weights - scales) / 0.5 - 1)), gradients = std::max(gradients, std::abs((all.gradients - scales) / 0.25 - 1));
    scales_most = std::max(scales_most, scales), dense_least = std::min(dense_least, plain.weights);
  }
  Finding f;
  f.measures = {{"weights, scales apart, from 0.5 M, the largest distance", weights, no_number, no_number, 0.01, "of it", "weights"},
                {"gradients, scales apart, from 0.25 M, the largest distance", gradients, no_number, no_number, 0.01, "of it", "gradients"},
                {"control: weights of ZeRO-3, whose two passes both cross", dense_least, no_number, no_number, 2, "M", "dense"},
                {"scales of either", scales_most, no_number, no_number, no_number, "M"}};
  f.tables = {std::move(table)};
  f.note = "0.5 M is one gather: the backward pass adds nothing across nodes; the tied table, which belongs to two units, makes dense gathers more than 2 M";
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C17",
     .statement = "ZeRO++ sends 0.75M instead of 3M across nodes.",
     .provenance = "read: DeepSpeed's documents",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.settings = {{"M", "counted: what a dense sum of gradients in f16 sends across"}, {"step", "the second"}},
                                         .quantities = {{"weights", "bytes of all gathers of weights of a step across nodes, all ranks, less one f32 scale per row of a matrix, over 0.5 M, distance from 1, the larger of 2 x 2 and 2 x 4 ranks"},
                                                        {"gradients", "the same of sums of gradients over 0.25 M"},
                                                        {"dense", "gathers of weights across nodes under ZeRO-3, f16, in M, the less"}},
                                         .constants = {{"near", 0.01, "of the part"}, {"both", 2, "M: forward and backward pass"}},
                                         .clauses = {{Verdict::invalid, "dense < both"}, {Verdict::confirmed, "weights <= near && gradients <= near"}},
                                         .otherwise = Verdict::not_reproduced},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
