#include "models/cost_model/cluster_model.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "models/parallel/channels/epilogue.h"
#include "models/stage/model_kind.h"

namespace thinwire {
namespace {

/// What a rank of this stage holds, its tensor ranks splitting the model in one dimension; or what all of them compute together.
Geometry stage_geometry(const ModelShape& m, const Execution& e, int stage, int tensor_ranks) {
  ModelConfig config;
  config.vocab = m.vocabulary, config.hidden = m.hidden, config.layers = m.layers, config.heads = m.heads, config.max_seq = m.seq;
  const int layers = static_cast<int>(m.layers) / e.mesh.pp;
  return model_geometry(m.kind, config, {stage * layers, layers, stage == 0, stage == e.mesh.pp - 1}, TensorSplit::one_d(tensor_ranks));
}

const ClassCodec* codec_of(const Execution& e, TrafficClass traffic, int stage) {
  const auto found = e.compress.find(traffic);
  if (found == e.compress.end()) return nullptr;
  if (found->second.stages >= 0 && stage >= found->second.stages) return nullptr;
  return &found->second;
}

/// Numbers that travel for an n x m matrix.
double sent(const ClassCodec* codec, double n, double m) {
  if (codec == nullptr) return n * m;
  if (codec->rank == 0) return n * m / codec->ratio;
  const double rank = std::min({static_cast<double>(codec->rank), n, m}), factors = (n + m) * rank;
  return factors < n * m / codec->min_ratio ? factors : n * m;
}

void check(const ModelShape& m, const Execution& e) {
  const auto divides = [](std::int64_t whole, std::int64_t by, const std::string& what) {
    if (by < 1 || whole < 1 || whole % by != 0)
      throw UsageError(what + ": " + std::to_string(by) + " does not divide " + std::to_string(whole) + "; change the execution or the model");
  };
  divides(m.layers, std::int64_t{e.mesh.pp} * e.virtual_stages, "layers over stages");
  divides(m.heads, e.mesh.tp, "heads over tensor ranks");
  divides(m.hidden, m.heads, "hidden over heads");
  divides(m.vocabulary, e.mesh.tp, "vocabulary over tensor ranks");
  divides(m.seq * e.micro_batch, e.mesh.tp, "rows of a micro-batch over tensor ranks");
  if (e.micro_batches < 1 || e.mesh.dp < 1) throw UsageError("micro-batches and dp are at least 1");
  for (const auto& [traffic, codec] : e.compress) {
    const std::string name = "compress." + name_of(traffic);
    if (codec.rank < 1 && !(codec.ratio > 1))
      throw UsageError(name + ": a codec needs its rank (low rank) or its ratio (above 1) to be predicted");
    if (codec.stages > e.mesh.pp)
      throw UsageError(name + ": stages = " + std::to_string(codec.stages) + " of a pipeline of " + std::to_string(e.mesh.pp));
    if (codec.epilogue_only && e.mesh.pp < 2) throw UsageError(name + ": epilogue_only needs a pipeline");
  }
}

class Costs {
 public:
  Costs(const ClusterMachine& machine, const ModelShape& model, const Execution& execution, RangeEnd end)
      : m_(model), e_(execution), machine_(machine), sizes_(cluster_sizes(model, execution)) {
    tflops_ = end == RangeEnd::low ? machine.tflops.low : machine.tflops.high;
    codec_gbps_ = end == RangeEnd::low ? machine.codec_gbps.low : machine.codec_gbps.high;
    if (!machine.measured() && !(tflops_ > 0))
      throw UsageError("machine " + machine.name + ": [compute] needs tflops, or stage_forward_us and stage_backward_us that were measured");
    if (machine.stage_forward_us.size() != machine.stage_backward_us.size() ||
        (machine.stage_forward_us.size() > 1 && machine.stage_forward_us.size() != static_cast<std::size_t>(execution.mesh.pp)))
      throw UsageError("machine " + machine.name + ": stage_forward_us and stage_backward_us are one number each, or one per stage (" +
                       std::to_string(execution.mesh.pp) + ")");
  }

  StepCosts costs() const {
    StepCosts c;
    for (int s = 0; s < e_.mesh.pp; ++s) {
      c.stage.push_back(work(s));
      c.gradient_us.push_back(gradient_us(s));
      c.table_us.push_back(holds_table(s) && !fused() ? ring_us(TrafficClass::embedding, stride(0, 0, std::min(1, e_.mesh.dp - 1)), e_.mesh.dp, sizes_.table_bytes) : 0);
    }
    if (e_.mesh.pp > 1) {
      const auto rings = fused() ? fused_embedding_groups(e_.mesh, Form::fair) : mesh_groups(e_.mesh).embedding;
      c.embedding_us = link_of(machine_, TrafficClass::embedding, rings).ring_all_reduce_us(sizes_.table_bytes, static_cast<int>(rings.front().size()));
    }
    c.optimizer_us = machine_.optimizer_us;
    c.sums_after_sends = true;
    c.sends = e_.blocking_sends ? SendMode::departing : SendMode::eager;
    c.forward_message_us = [costs = *this](int sender, int) { return costs.message_us(TrafficClass::pp_forward, sender, 1, false); };
    c.backward_message_us = [costs = *this](int sender, int i) {
      const auto rule = costs.e_.compress.find(TrafficClass::pp_backward);
      const bool coded = rule != costs.e_.compress.end() &&
                         (!rule->second.epilogue_only || in_epilogue(i, sender, costs.e_.mesh.pp, static_cast<int>(costs.e_.micro_batches)));
      return costs.message_us(TrafficClass::pp_backward, sender, -1, coded);
    };
    return c;
  }

 private:
  /// With one stage the table's gradient has nobody else to be summed with, and is summed over the replicas like any other.
  bool fused() const { return e_.fused_embedding && e_.mesh.pp > 1; }
  bool holds_table(int stage) const { return stage == 0 || stage == e_.mesh.pp - 1; }
  double codec_us(double raw_bytes) const { return 8e-3 * raw_bytes / codec_gbps_; }

  /// How many ranks lie between neighbours along an axis (or two).
  int stride(int tp, int pp, int dp) const { return mesh_rank(e_.mesh, {tp, pp, dp}); }

  int tensor_stride() const { return stride(std::min(1, e_.mesh.tp - 1), 0, 0); }

  double ring_us(TrafficClass traffic, int apart, int members, double bytes) const {
    return group_link(machine_, traffic, apart, members).ring_all_reduce_us(bytes, members);
  }

  StageWork work(int stage) const {
    StageWork w;
    const double t = e_.mesh.tp;
    const double again = e_.recompute ? 1 : 0;
    // Of a chunk: layers, which recomputation runs again, and the rest.
    double layers = 0, rest = 0, sums = 0;
    for (const DeclaredUnit& unit : stage_geometry(m_, e_, stage, 1).units) {
      (unit.recomputed ? layers : rest) += unit.flops({e_.micro_batch, m_.seq}) / t / e_.virtual_stages;
      if (unit.recomputed) sums += static_cast<double>(unit.tensor_sums) / e_.virtual_stages;
    }
    if (machine_.measured()) {
      const auto at = machine_.stage_forward_us.size() > 1 ? static_cast<std::size_t>(stage) : 0;
      w.forward_us = machine_.stage_forward_us[at];
      w.backward_us = machine_.stage_backward_us[at];
    } else {
      w.forward_us = (layers + rest) / (tflops_ * 1e6);
      w.backward_us = ((2 + again) * layers + 2 * rest) / (tflops_ * 1e6);
    }
    const double bytes = sizes_.activation_bytes, sum = sums * ring_us(TrafficClass::tp_forward, tensor_stride(), e_.mesh.tp, bytes);
    w.forward_sums_us = sum;
    w.backward_sums_us = sums * ring_us(TrafficClass::tp_backward, tensor_stride(), e_.mesh.tp, bytes) + again * sum;
    return w;
  }

  double gradient_us(int stage) const {
    const auto at = static_cast<std::size_t>(stage);
    const double bytes = static_cast<double>(e_.bytes_per_number), raw = sizes_.gradient_numbers[at], less = sizes_.sent_numbers[at];
    const LinkModel link = group_link(machine_, TrafficClass::dp_gradient, stride(0, 0, std::min(1, e_.mesh.dp - 1)), e_.mesh.dp);
    double us = link.ring_all_reduce_us(less * bytes, e_.mesh.dp);
    // Both factors are summed one after the other, what stays dense in a sum of its own.
    if (less < raw && e_.mesh.dp > 1) us += 2 * 2 * (e_.mesh.dp - 1) * link.latency_us + codec_us(raw * bytes);
    return us;
  }

  double message_us(TrafficClass traffic, int sender, int towards, bool coded) const {
    const int p = e_.mesh.pp, from = stride(0, sender, 0), to = stride(0, (sender + towards + p) % p, 0);
    const bool inside = from / machine_.ranks_per_node == to / machine_.ranks_per_node;
    const LinkModel link = group_link(machine_, traffic, inside ? 1 : stride(0, 1, 0), inside ? 1 : machine_.ranks_per_node + 1);
    double us = link.message_us(coded ? sizes_.coded_boundary_bytes : sizes_.boundary_bytes) + (coded ? codec_us(sizes_.boundary_bytes) : 0);
    if (e_.scatter_gather) us += group_link(machine_, traffic, tensor_stride(), e_.mesh.tp).ring_all_gather_us(sizes_.boundary_bytes, e_.mesh.tp);
    return us;
  }

  const ModelShape m_;
  const Execution e_;
  const ClusterMachine machine_;
  ClusterSizes sizes_;
  double tflops_ = 0, codec_gbps_ = 0;
};

/// What one of `groups` that leave a node at once has of its card; with none the link inside.
LinkModel share_of(const ClusterMachine& machine, TrafficClass traffic, int groups) {
  const auto own = [&](const std::map<TrafficClass, LinkModel>& of, const LinkModel& otherwise) {
    const auto found = of.find(traffic);
    return found == of.end() ? otherwise : found->second;
  };
  if (groups == 0) return own(machine.inside_of, machine.inside);
  LinkModel link = own(machine.between_of, machine.between);
  link.gbps /= groups;
  return link;
}

}  // namespace

LinkModel link_of(const ClusterMachine& machine, TrafficClass traffic, const std::vector<std::vector<int>>& groups) {
  std::map<int, int> leaving;  // node -> groups that leave it
  for (const std::vector<int>& group : groups) {
    std::set<int> nodes;
    for (const int rank : group) nodes.insert(rank / machine.ranks_per_node);
    if (nodes.size() > 1)
      for (const int node : nodes) ++leaving[node];
  }
  int most = 0;
  for (const auto& [node, count] : leaving) most = std::max(most, count);
  return share_of(machine, traffic, most);
}

LinkModel group_link(const ClusterMachine& machine, TrafficClass traffic, int stride, int members) {
  // Ranks are numbered node by node, so of each `stride` neighbours every one has a group of its own, and all send at once.
  return share_of(machine, traffic, stride * members <= machine.ranks_per_node ? 0 : std::min(stride, machine.ranks_per_node));
}

ClusterSizes cluster_sizes(const ModelShape& m, const Execution& e) {
  check(m, e);
  ClusterSizes z;
  const double t = e.mesh.tp, number = static_cast<double>(e.bytes_per_number), all_rows = static_cast<double>(e.micro_batch * m.seq);
  for (int stage = 0; stage < e.mesh.pp; ++stage) {
    const Geometry geometry = stage_geometry(m, e, stage, e.mesh.tp);
    const ClassCodec* codec = codec_of(e, TrafficClass::dp_gradient, stage);
    double raw = 0, less = 0;
    for (const DeclaredParameter& p : geometry.parameters()) {
      const Shape local = p.layout.local();
      const double numbers = static_cast<double>(local.elements());
      if (p.tied) {
        z.table_bytes = numbers * number;
        continue;
      }
      raw += numbers;
      less += p.decays ? sent(codec, static_cast<double>(local.rows()), static_cast<double>(local.columns())) : numbers;
    }
    z.gradient_numbers.push_back(raw);
    z.sent_numbers.push_back(less);
    const double rows = all_rows / (e.scatter_gather ? t : 1), width = static_cast<double>(geometry.width);
    z.activation_bytes = all_rows * width * number;
    z.boundary_bytes = rows * width * number;
    z.coded_boundary_bytes = sent(codec_of(e, TrafficClass::pp_backward, 0), rows, width) * number;
  }
  return z;
}

StepCosts cluster_costs(const ClusterMachine& machine, const ModelShape& model, const Execution& execution, RangeEnd end) {
  return Costs(machine, model, execution, end).costs();
}

Schedule cluster_schedule(const Execution& e) {
  return make_schedule(e.schedule, e.mesh.pp, static_cast<int>(e.micro_batches), e.virtual_stages);
}

}  // namespace thinwire
