// A training step on a machine that is not here: from a machine, a model and an execution to the costs that the step model walks.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "collectives/channel/traffic.h"
#include "models/cost_model/link_model.h"
#include "models/cost_model/step_model.h"

namespace thinwire {

/// A number that is known only between two bounds; measured ones have low = high.
struct Range {
  double low = 0, high = 0;
};

/// Nodes of equal size. A rank talks to ranks of its node over `inside`, each at that rate; what leaves the node goes through one card
/// of rate `between`, which the ranks of the node share.
struct ClusterMachine {
  std::string name;
  int ranks_per_node = 1;
  LinkModel inside, between;
  std::map<TrafficClass, LinkModel> inside_of, between_of;  ///< classes with a rate of their own (another library, other cards)
  Range tflops;                                             ///< 1e12 operations per second that a rank reaches; or the two below
  std::vector<double> stage_forward_us, stage_backward_us;  ///< measured: one micro-batch through one chunk; one number, or one per stage
  Range codec_gbps{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};  ///< raw Gbit a rank encodes and decodes per second
  double optimizer_us = 0;
  std::string source;  ///< where the compute rate is from, in words

  bool measured() const { return !stage_forward_us.empty(); }
};

/// Sizes of a model; what they make of it is declared by its kind (models/stage/geometry.h).
struct ModelShape {
  std::string name;
  std::int64_t layers = 0, hidden = 0, heads = 0, seq = 0, vocabulary = 0;
  std::string kind = "gpt";  ///< NAME[:options] of models/stage/model_kind.h
};

/// What compresses a class: factors of rank `rank` of a matrix, or a quotient of bytes.
struct ClassCodec {
  std::string codec;
  std::int64_t rank = 0;    ///< low rank: an n x m matrix travels as (n + m) rank numbers
  double ratio = 0;         ///< any other codec: raw bytes over sent bytes
  bool epilogue_only = false;
  int stages = -1;          ///< dp_gradient: the first so many stages; -1: all
  double min_ratio = 1;     ///< low rank: matrices with (n + m) rank >= n m / min_ratio stay dense
};

struct Execution {
  std::string name;
  MeshShape mesh;
  std::int64_t micro_batch = 1, micro_batches = 1;
  std::string schedule = "1f1b";
  int virtual_stages = 1;
  bool blocking_sends = false;  ///< SendMode::departing
  bool recompute = false;       ///< every layer runs forward once more before its backward pass, its sums included (Megatron-LM)
  bool scatter_gather = true;   ///< tensor ranks send a part of a boundary tensor each; the receivers gather
  bool fused_embedding = false;
  std::int64_t bytes_per_number = 4;
  std::map<TrafficClass, ClassCodec> compress;
};

/// Sizes per rank that the costs are made of.
struct ClusterSizes {
  double activation_bytes = 0;           ///< of a micro-batch at a boundary, all its rows: what a tensor-parallel sum carries
  double boundary_bytes = 0;             ///< of one boundary message of one tensor rank, raw
  double coded_boundary_bytes = 0;       ///< the same under the codec of pp_backward
  double table_bytes = 0;                ///< a tensor rank's rows of the tied table
  std::vector<double> gradient_numbers;  ///< [P] without the table
  std::vector<double> sent_numbers;      ///< [P] the same as the codec of dp_gradient sends it
};

enum class RangeEnd { low, high };

/// UsageError where sizes do not divide, a codec has neither rank nor ratio, stage times do not fit the stages, or the kind of model declares no
/// geometry.
ClusterSizes cluster_sizes(const ModelShape& model, const Execution& execution);

/// Costs of a step:
/// - forward passes are the operations that the model declares, over the tensor ranks (of a GPT's layer 24 b s h^2 + 4 b s^2 h, of its head
///   2 b s h V), a backward pass twice that (Narayanan et al. 2021, arXiv 2104.04473, appendix), and of layers once more forward under
///   recomputation;
/// - tensor-parallel sums are rings that block, two per layer and pass; boundary messages leave through the sender's card, which all
///   ranks of its node that send at that moment share; sums over replicas are rings after a stage's last backward pass, the table's
///   gradient after them (two steps or fused).
/// `end`: which bound of compute and codec rate.
StepCosts cluster_costs(const ClusterMachine& machine, const ModelShape& model, const Execution& execution, RangeEnd end);
Schedule cluster_schedule(const Execution& execution);

/// The link of one message of a group whose members are `stride` ranks apart, `members` of them: inside a node, or its share of a card.
LinkModel group_link(const ClusterMachine& machine, TrafficClass traffic, int stride, int members);
/// The link of one of these groups of ranks, which send at the same time: inside a node, or its share of the card that most of them leave through.
LinkModel link_of(const ClusterMachine& machine, TrafficClass traffic, const std::vector<std::vector<int>>& groups);

}  // namespace thinwire
