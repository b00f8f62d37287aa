// sharded_compression.C2: bytes of weights and gradients are those of docs/papers/sharded_compression.md, "Cost". With W ranks, M micro-batches and matrices of Psi
// numbers of b bytes, over all ranks (W f = W - 1):
//   weights    ZeRO-1, ZeRO-2 and ZeRO-3 that keeps for the step: (W - 1) Psi b.  ZeRO-3 that keeps a layer for one pass: 2M per layer; passes of the embedding that are
//              neighbours (backward, then forward of the next micro-batch) share a gather, and so do both of the head: M + 1 of the positions, 2M + 1 of the table, which
//              both units read.  Kept for the micro-batch: M per layer, once what the embedding reads.
//   gradients  (W - 1) Psi b, M times where they travel per micro-batch.
//   N nodes of L ranks  inside N (L - 1) of each whole tensor, across N - 1 of it; with copies in the nodes (hpZ) the weights cross once per step.
// Blocks of rows are not padded, so there is no padding to list apart. Vectors are no part of it: they stay whole, and their gradients are all-reduced.
#include <cmath>
#include <cstdio>

#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "models/parallel/channels/row_exchange.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

struct Arm {
  std::string name;
  int ranks;
  Settings settings;
};

std::vector<Arm> all_arms() {
  const std::vector<std::pair<std::string, Settings>> modes = {
      {"ZeRO-1", {{"zero-stage", "1"}}},
      {"ZeRO-2, reduced per micro-batch", {{"zero-stage", "2"}, {"zero-reduce", "micro_batch"}}},
      {"ZeRO-2, reduced per step", {{"zero-stage", "2"}, {"zero-reduce", "step"}}},
      {"ZeRO-3, kept for a pass", {{"zero-stage", "3"}, {"zero-keep", "layer"}, {"zero-reduce", "micro_batch"}}},
      {"ZeRO-3, kept for a pass, reduced per step", {{"zero-stage", "3"}, {"zero-keep", "layer"}, {"zero-reduce", "step"}}},
      {"ZeRO-3, kept for a micro-batch", {{"zero-stage", "3"}, {"zero-keep", "micro_batch"}, {"zero-reduce", "micro_batch"}}},
      {"ZeRO-3, kept for the step", {{"zero-stage", "3"}, {"zero-keep", "step"}, {"zero-reduce", "step"}}},
      {"ZeRO-3, kept for a pass, bf16", {{"zero-stage", "3"}, {"zero-keep", "layer"}, {"zero-reduce", "micro_batch"}, {"comm-dtype", "bf16"}}}};
  const std::vector<std::pair<std::string, Settings>> with_nodes = {
      {"ZeRO-1, 2 nodes", {{"zero-stage", "1"}, {"dp-nodes", "2"}}},
      {"ZeRO-3, 2 nodes", {{"zero-stage", "3"}, {"zero-keep", "layer"}, {"zero-reduce", "micro_batch"}, {"dp-nodes", "2"}}},
      {"ZeRO-3, 2 nodes with copies", {{"zero-stage", "3"}, {"zero-keep", "layer"}, {"zero-reduce", "micro_batch"}, {"dp-nodes", "2"}, {"zero-node-shards", "true"}}}};
  std::vector<Arm> arms;
  const auto add = [&](const auto& list, int ranks) {
    for (const auto& [name, settings] : list) arms.push_back({name + ", " + std::to_string(ranks) + " ranks", ranks, settings});
  };
  for (const int ranks : {2, 4, 8}) add(modes, ranks);
  for (const int ranks : {4, 8}) add(with_nodes, ranks);
  return arms;
}

/// How many numbers travel of whole tensors: sums over the gathers, or reductions, of a step.
struct Travelling {
  std::int64_t gathered = 0, gathered_across = 0, reduced = 0;
};

Travelling travelling(const TrainConfig& c) {
  const MatrixElements e = matrices_of(c);
  const std::int64_t micro = c.micro_batches();
  Travelling t{e.all(), e.all(), c.zero_reduce == "micro_batch" ? micro * e.all() : e.all()};
  if (c.zero_keep == "layer") t.gathered = 2 * micro * e.layers + (micro + 1) * e.positions + (2 * micro + 1) * e.table;
  if (c.zero_keep == "micro_batch") t.gathered = micro * e.layers + e.positions + e.table;
  t.gathered_across = c.zero_node_shards ? e.all() : t.gathered;
  return t;
}

struct Account {
  Table table{"bytes of a step over all ranks, per matrix element", {"ranks", "weights", "formula", "gradients", "formula"}, {}};
  int compared = 0;
  std::int64_t largest = 0;

  void compare(std::int64_t counted, std::int64_t formula) {
    ++compared;
    if (std::abs(counted - formula) > std::abs(largest)) largest = counted - formula;
  }
};

void add_arm(Account& account, const Arm& arm, const results::CellRecord& record) {
  const TrainConfig c = config_of(training(arm.ranks, arm.settings));
  const Travelling t = travelling(c);
  const auto bytes = static_cast<std::int64_t>(size_of(c.comm_dtype)), nodes = std::int64_t{c.mesh.data().nodes}, inside = std::int64_t{c.mesh.data().inside}, ranks = std::int64_t{arm.ranks};
  std::int64_t counted[2] = {}, formula[2] = {};
  for (std::int64_t step = 0; step < c.steps; ++step) {
    const auto compare = [&](int which, const std::string& traffic, std::int64_t expected) {
      const std::int64_t seen = sent(record, traffic, step);
      account.compare(seen, expected * bytes);
      counted[which] += seen, formula[which] += expected * bytes;
    };
    if (!RowOwners{c.mesh.data(), {}}.two_levels()) {
      compare(0, "param_all_gather", (ranks - 1) * t.gathered);
      compare(1, "grad_reduce_scatter", (ranks - 1) * t.reduced);
      continue;
    }
    compare(0, "param_all_gather.inside", nodes * (inside - 1) * t.gathered);
    compare(0, "param_all_gather.across", (nodes - 1) * t.gathered_across);
    compare(1, "grad_reduce_scatter.inside", nodes * (inside - 1) * t.reduced);
    compare(1, "grad_reduce_scatter.across", (nodes - 1) * t.reduced);
  }
  const auto each = [&](std::int64_t sum) { return static_cast<double>(sum) / static_cast<double>(c.steps * matrices_of(c).all()); };
  account.table.rows.push_back({arm.name, {static_cast<double>(ranks), each(counted[0]), each(formula[0]), each(counted[1]), each(formula[1])}});
}

Finding measure(JudgeContext& context) {
  const std::vector<Arm> arms = all_arms();
  std::vector<CellRequest> requests;
  for (const Arm& arm : arms) requests.push_back(training(arm.ranks, arm.settings));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Account account;
  for (std::size_t i = 0; i < arms.size(); ++i) add_arm(account, arms[i], records[i]);
  Finding found;
  found.measures = {{"largest difference of a step's bytes of a class from the formula", static_cast<double>(account.largest), no_number, no_number, 0, "bytes", "largest"},
                    {"classes of steps compared", static_cast<double>(account.compared), no_number, no_number, no_number, "", "compared"}};
  found.tables = {std::move(account.table)};
  return found;
}

Rule make_rule() {
  std::vector<NamedRequest> arms;
  for (const Arm& arm : all_arms()) arms.push_back({arm.name, training(arm.ranks, arm.settings)});
  return with_arms({.quantities = {{"largest", "bytes that all ranks together send of weights, or of matrices' gradients, in a step, inside and across nodes apart, less those of the formulas: the difference "
                                               "farthest from 0"},
                                   {"compared", "classes of steps compared"}},
                    .clauses = {{Verdict::pass, "largest == 0 && compared > 0"}},
                    .otherwise = Verdict::fail},
                   arms);
}

const bool registered = register_claim({.id = "sharded_compression.C2",
                                        .statement = "Traffic follows the formulas.",
                                        .provenance = "derived",
                                        .basis = Basis::exact,
                                        .from = Profile::standard,
                                        .rule = make_rule(),
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
