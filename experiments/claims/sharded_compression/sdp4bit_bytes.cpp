// sharded_compression.C14: bytes of SDP4Bit's formats (docs/papers/sharded_compression.md, "Cost"): weights in int4 with a scale for 2048, gradients in int8 inside a node
// and int4 across, a scale for 128. Per element of rows that groups divide, and counted in a training whose rows are shorter than a group of the weights: there each row
// has a scale of its own, which is listed apart.
#include <cmath>

#include "experiments/claims/sharded_compression/cells/messages.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr const char *weights = "group:bits=4,group=2048,round=stochastic", *inside = "group:bits=8,group=128+hadamard:block=32", *across = "group:bits=4,group=128+hadamard:block=32";
constexpr int nodes = 2, per_node = 2;

CellRequest coded_training() {
  return training(nodes * per_node, {{"zero-stage", "2"},
                                     {"zero-reduce", "step"},
                                     {"dp-nodes", std::to_string(nodes)},
                                     {"hidden", "128"},
                                     {"layers", "2"},
                                     {"compress.param_all_gather", std::string(weights) + "+ef21"},
                                     {"compress.param_all_gather.inside", std::string(weights) + "+ef21"},
                                     {"compress.grad_reduce_scatter", across},
                                     {"compress.grad_reduce_scatter.inside", inside}});
}

double bytes_per_element(const char* codec) {
  constexpr std::int64_t rows = 4, columns = 1 << 14;
  Wire wire(codec);
  const Values x = normal_values(rows * columns, "bytes");
  (void)wire.arrives(x, {}, rows);
  return static_cast<double>(wire.payload().size()) / static_cast<double>(x.size());
}

Finding measure(JudgeContext& context) {
  const CellRequest request = coded_training();
  const results::CellRecord record = context.cells.run_one(request);
  const TrainConfig c = config_of(request);
  const MatrixElements e = matrices_of(c);
  // Rows of the matrices as they are stored, [in, out]: qkv, projection, both of the MLP, positions, table. None is longer than a group of the weights.
  const std::int64_t h = c.model.hidden, rows = c.model.layers * (h + h + h + 4 * h) + c.model.max_seq + c.model.vocab;
  const double weight = bytes_per_element(weights), in_node = bytes_per_element(inside), between = bytes_per_element(across);
  double largest = 0;
  Table table{"bytes of a step, all ranks together", {"counted", "formula"}, {}};
  const auto compare = [&](const std::string& traffic, double formula) {
    for (std::int64_t step = 0; step < c.steps; ++step) {
      const auto counted = static_cast<double>(sent(record, traffic, step));
      if (std::abs(counted - formula) > std::abs(largest)) largest = counted - formula;
      if (step == 0) table.rows.push_back({traffic, {counted, formula}});
    }
  };
  const auto all = static_cast<double>(e.all()), scales = 4.0 * static_cast<double>(rows);
  compare("param_all_gather.inside", nodes * (per_node - 1) * (all / 2 + scales));
  compare("param_all_gather.across", (nodes - 1) * (all / 2 + scales));
  compare("grad_reduce_scatter.inside", nodes * (per_node - 1) * all * in_node);
  compare("grad_reduce_scatter.across", (nodes - 1) * all * between);
  Finding found;
  found.measures = {{"weights", weight, no_number, no_number, 0.5 + 4.0 / 2048, "bytes per element", "weights"},
                    {"gradients inside a node", in_node, no_number, no_number, 1 + 4.0 / 128, "bytes per element", "inside"},
                    {"gradients across nodes, of 1/L of the elements", between, no_number, no_number, 0.5 + 4.0 / 128, "bytes per element", "across"},
                    {"bytes of a training's step less the formula, farthest from 0", largest, no_number, no_number, 0, "bytes", "largest"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C14",
     .statement = "SDP4Bit sends 0.502 bytes per weight and 1.031 inside plus 0.531/L across nodes per gradient.",
     .provenance = "derived from the released code",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.settings = {{"weights", weights}, {"gradients inside", inside}, {"gradients across", across}},
                        .quantities = {{"weights", "bytes per weight, rows of 16384"},
                                       {"inside", "bytes per gradient inside a node"},
                                       {"across", "bytes per element that crosses nodes, 1/L of the gradients"},
                                       {"largest", "bytes of a training's step of a class on 2 x 2 ranks less those of these formats, with a scale for each row of the weights: the difference farthest from 0"}},
                        .constants = {{"per_weight", 0.501953125, "1/2 + 4/2048"}, {"per_inside", 1.03125, "1 + 4/128"}, {"per_across", 0.53125, "1/2 + 4/128"}},
                        .clauses = {{Verdict::pass, "weights == per_weight && inside == per_inside && across == per_across && largest == 0"}},
                        .otherwise = Verdict::fail},
                       {{"training", coded_training()}}),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
