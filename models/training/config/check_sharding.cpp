#include "models/training/config/check_sharding.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"
#include "kernels/codec/registry.h"
#include "models/parallel/channels/number_ranges.h"
#include "models/parallel/channels/row_exchange.h"
#include "models/stage/model_kind.h"

namespace thinwire {
namespace {

std::string stage_of(const TrainConfig& c) { return "--zero-stage " + std::to_string(c.zero_stage); }

std::string ratio(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

[[noreturn]] void refuse(const TrainConfig& c, const std::string& what, const std::string& why) {
  throw UsageError(what + " does not go with " + stage_of(c) + ": " + why);
}

/// Whether first and last stage of the model hold one table; a kind of model that declares nothing may.
bool ties_table(const TrainConfig& c) {
  if (!model_kind(c.model_kind).geometry) return true;
  const int layers = static_cast<int>(c.model.layers) / (c.mesh.pp * c.virtual_stages);
  return std::ranges::any_of(model_geometry(c.model_kind, c.model, {0, layers, true, false}).parameters(), &DeclaredParameter::tied);
}

// Memory that comes and goes, and what was built for matrices that stay where they are.
void check_lending(const TrainConfig& c) {
  if (c.tensor_parallel != "1d")
    refuse(c, "--tensor-parallel " + c.tensor_parallel, "a grid gathers weights over its own groups already; use --zero-stage 1, or --tensor-parallel 1d");
  if (c.graphs)
    refuse(c, "--graphs true", "recorded passes read and write fixed addresses, and the memory of weights and gradients changes; use --zero-stage 1, or --graphs false");
  if (c.embedding_sync == "fused" && c.mesh.pp > 1)
    refuse(c, "--embedding-sync fused", "it sums the tied table over replicas and stages at once, of which no rank would hold a part; use two_step");
}

// Gathered many times between two updates, and the same bits each time.
void check_regathered(const TrainConfig& c) {
  const auto rule = c.compress.find(TrafficClass::param_all_gather);
  if (rule == c.compress.end()) return;
  for (const std::string& codec : {rule->second.codec, rule->second.inside}) {
    if (!compresses(codec)) continue;
    const CodecStack stack = make_codec(codec, c.form);
    if (!stack.codec->traits().stateful && stack.wrappers.empty()) continue;
    refuse(c, "compress.param_all_gather = " + codec,
           "weights are gathered several times between two updates, and a codec that remembers what it sent would send something else each time. Weight differences (+ef21) are to the last decoded copy, "
           "which every rank would keep whole: 4 bytes per parameter beside the 16 / W = " + ratio(16.0 / c.mesh.data().within_replica()) + " that this stage keeps on W = " +
               std::to_string(c.mesh.data().within_replica()) + " ranks. Take a codec without state, or --zero-stage 2, which gathers once per update");
  }
}

// Validation gathers what passes are trained with, and two stages that hold the tied table read one and the same.
void check_gathered(const TrainConfig& c) {
  const auto found = c.compress.find(TrafficClass::param_all_gather);
  if (found == c.compress.end() || !found->second.active()) return;
  const CompressRule& rule = found->second;
  const std::string name = "compress.param_all_gather";
  if (!rule.at_evaluation) throw UsageError(name + ".at_evaluation = false: validation reads the weights that passes were trained with; leave it out");
  const NumberRanges stages = NumberRanges::parse(name + ".stages", rule.stages);
  if (c.shards_table() && stages.contains(0) != stages.contains(c.mesh.pp - 1) && ties_table(c))
    throw UsageError(name + ".stages = " + rule.stages + " names one of the two stages that hold the tied table, 0 and " + std::to_string(c.mesh.pp - 1) + ", and embedding and head would read other rows of it; name both, or neither");
}

/// Whether a rule may cover a flat parameter with vectors in it: any, but where matrices are wrapped by size the root alone, which is no layer's.
bool covers_vectors(const TrainConfig& c, const std::string& name, const CompressRule& rule) {
  return c.zero_wrap == 0 || NumberRanges::parse(name + ".layers", rule.layers).contains(-1);
}

// One buffer for what were matrices and vectors.
void check_flat(const TrainConfig& c) {
  const std::string flat = "--zero-layout flat";
  if (c.zero_stage == 0) throw UsageError(flat + " says how shards are cut, and --zero-stage 0 shares nothing out; give --zero-stage 1, 2 or 3, or leave it out");
  if (c.tensor_parallel != "1d")
    refuse(c, flat + " with --tensor-parallel " + c.tensor_parallel, "the tensor ranks of a grid hold unequal parts of vectors, so their flat parameters differ; use --tensor-parallel 1d, or --zero-layout rows");
  if (c.graphs) refuse(c, flat + " with --graphs true", "recorded passes know each parameter where it was made; use --zero-layout rows, or --graphs false");
  for (const TrafficClass traffic : {TrafficClass::param_all_gather, TrafficClass::grad_reduce_scatter}) {
    const auto rule = c.compress.find(traffic);
    if (rule == c.compress.end()) continue;
    const std::string name = "compress." + name_of(traffic);
    for (const std::string& codec : {rule->second.codec, rule->second.inside}) {
      if (!compresses(codec)) continue;
      const CodecTraits traits = make_codec(codec, c.form).codec->traits();
      if (traits.stacks)
        refuse(c, name + " = " + codec + " with " + flat,
               "a flat parameter has a row per rank, " + std::to_string(c.mesh.data().within_replica()) + " here, and no matrix to factor; use --zero-layout rows, or a codec of elements, groups or sketches");
      if (c.mesh.tp > 1 && !traits.lossless && covers_vectors(c, name, rule->second))
        refuse(c, name + " = " + codec + " with " + flat + " and --tp " + std::to_string(c.mesh.tp),
               "vectors that tensor ranks hold alike would be coded among matrices that they do not, and copies would drift apart; use --zero-layout rows, or --tp 1");
    }
  }
}

}  // namespace

void check_sharding(const TrainConfig& c, const StoreInfo& store, const UpdateExpression& update) {
  const bool two_levels = RowOwners{c.mesh.data(), {}}.two_levels();
  if (c.mesh.data().nodes > 1 && !store.shards_gradients && !update.factors().contains("node"))
    throw UsageError("--dp-nodes " + std::to_string(c.mesh.dp_nodes) + ": --optimizer " + update.name() + " with " + stage_of(c) +
                     " treats all data-parallel ranks alike; leave it out, or take --zero-stage 1, 2 or 3, which exchange inside nodes first");
  if (!store.gathers && c.zero_keep != "auto")
    throw UsageError("--zero-keep " + c.zero_keep + " says how long gathered weights stay, but " + stage_of(c) + " has them whole all the time; leave it out");
  if (c.zero_node_shards && (!store.gathers || !two_levels))
    throw UsageError("--zero-node-shards true keeps a copy of weights that are gathered, in each of several nodes of several ranks; give --zero-stage 3 and a --dp-nodes that leaves more than one rank of --dp " +
                     std::to_string(c.mesh.dp) + " to a node");
  if (!store.lends && c.zero_reduce != "auto")
    throw UsageError("--zero-reduce " + c.zero_reduce + " beside " + stage_of(c) + ", whose gradients travel once per step; leave it out, or take a stage that splits gradients");
  if (c.zero_layout != "flat" && c.zero_wrap != 0)
    throw UsageError("--zero-wrap " + std::to_string(c.zero_wrap) + " says which parameters are flat alone, but --zero-layout rows sends each matrix by itself; give --zero-layout flat, or leave it out");
  if (c.zero_layout == "flat") check_flat(c);
  if (store.lends) check_lending(c);
  if (store.gathers) check_regathered(c);
  check_gathered(c);
}

}  // namespace thinwire
