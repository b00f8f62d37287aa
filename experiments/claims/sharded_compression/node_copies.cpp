// sharded_compression.C17: gathers that are served from a copy inside the node give the bits of those that cross nodes: in the first step, over micro-batches, in
// evaluations between steps. A new start from a file, and stale copies, are held by tests/models/store/test_sharded_training.cpp. Two controls keep the comparison
// honest: copies are really used, so fewer bytes cross nodes; and weights move from step to step, so an old copy would show.
#include <algorithm>
#include <cmath>

#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

struct Group {
  int ranks, nodes;
};
const std::vector<Group> groups = {{4, 2}, {6, 3}, {8, 2}};

CellRequest request_of(const Group& group, const std::string& keep, bool copies) {
  Settings settings = {{"zero-stage", "3"}, {"zero-keep", keep}, {"zero-reduce", "micro_batch"}, {"dp-nodes", std::to_string(group.nodes)}, {"steps", "4"}, {"eval-interval", "1"}};
  if (copies) settings["zero-node-shards"] = "true";
  return training(group.ranks, settings);
}

struct Pair {
  std::string name;
  CellRequest crossing, copies;
};
std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const Group& group : groups)
    for (const char* keep : {"layer", "micro_batch"})
      pairs.push_back({std::to_string(group.nodes) + " nodes of " + std::to_string(group.ranks / group.nodes) + ", kept for " + keep, request_of(group, keep, false), request_of(group, keep, true)});
  return pairs;
}

double crossed(const results::CellRecord& record) {
  double bytes = 0;
  for (const results::TrainingCurveRow& row : record.training.curve) bytes += static_cast<double>(sent(record, "param_all_gather.across", row.step));
  return bytes;
}

Finding measure(JudgeContext& context) {
  const std::vector<Pair> pairs = all_pairs();
  std::vector<CellRequest> requests;
  for (const Pair& pair : pairs) requests.insert(requests.end(), {pair.crossing, pair.copies});
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"copies in nodes against gathers across", {"largest relative difference", "bytes across, copies / none"}, {}};
  double farthest = 0, share = 0, moved = INFINITY;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const results::CellRecord &crossing = records[2 * i], &copies = records[2 * i + 1];
    const double apart = distance(copies, crossing), less = crossed(copies) / crossed(crossing);
    farthest = std::max(farthest, apart), share = std::max(share, less);
    const auto& curve = crossing.training.curve;
    for (std::size_t s = 1; s < curve.size(); ++s) moved = std::min(moved, std::abs(curve[s].validation_loss - curve[s - 1].validation_loss));
    table.rows.push_back({pairs[i].name, {apart, less}});
  }
  found.measures = {{"largest relative difference of a loss or norm", farthest, no_number, no_number, 0, "", "farthest"},
                    {"control: bytes of weights across nodes, with copies over without, most", share, no_number, no_number, 1, "", "share"},
                    {"control: change of the validation loss in a step, least", moved, no_number, no_number, 0, "nats", "moved"}};
  found.tables = {std::move(table)};
  return found;
}

Rule make_rule() {
  std::vector<NamedRequest> arms;
  for (const Pair& pair : all_pairs()) arms.insert(arms.end(), {{pair.name, pair.crossing}, {pair.name + ", with copies", pair.copies}});
  return with_arms({.quantities = {{"farthest", "largest relative difference of a step's loss, gradient norm or validation loss with copies in the nodes from the same without, f32"},
                                   {"share", "bytes of weights that cross nodes with copies over those without, the most"},
                                   {"moved", "change of the validation loss from step to step, the least, nats per token"}},
                    .constants = {{"all", 1, "of the bytes"}},
                    .clauses = {{Verdict::invalid, "share >= all || moved <= 0"}, {Verdict::pass, "farthest == 0"}},
                    .otherwise = Verdict::fail},
                   arms);
}

const bool registered = register_claim({.id = "sharded_compression.C17",
                                        .statement = "A second copy of the weights inside the node equals ZeRO-3 bit by bit.",
                                        .provenance = "derived; read: DeepSpeed issues (failures)",
                                        .basis = Basis::exact,
                                        .from = Profile::standard,
                                        .rule = make_rule(),
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
