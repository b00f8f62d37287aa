#include "bench/training/train_prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "collectives/link/emulated_network.h"
#include "core/statistics.h"
#include "kernels/codec/registry.h"
#include "models/parallel/channels/epilogue.h"
#include "models/stage/model_kind.h"
#include "models/training/step_schedule.h"

namespace thinwire::bench {
namespace {

/// A class under one codec, and which step of an exchange in two.
struct ClassKey {
  TrafficClass traffic;
  std::string codec;
  ChannelLevel level;
  auto operator<=>(const ClassKey&) const = default;
};
/// What it cost one rank per step.
struct ClassCost {
  double operations = 0, dense_bytes = 0, link_bytes = 0, codec_us = 0;
  /// How many are under way together, where that many small ones may be.
  int together(int small) const { return dense_bytes <= operations * static_cast<double>(small_bytes) ? small : 1; }
};

/// Operations of one class and codec: `messages` one behind the other each, up to `together` of them under way at a time.
struct Operations {
  double count = 0, messages = 0, bytes_us = 0;  ///< bytes of all of them over the link's rate
  int together = 1;
  /// Of one of them with nothing else under way.
  double alone_us(double latency_us) const { return messages * latency_us + bytes_us / count; }
};

/// How long they take between them. Large ones go in turn. Small ones take no less than the link does for their bytes, nor than those do that wait for each other: the
/// asymptotic bounds of a closed queueing network (Denning and Buzen, The operational analysis of queueing network models, ACM Computing Surveys 10, 1978), to
/// which the last of those that set out together comes one message of each other one later.
TransferTime operations_us(const std::vector<Operations>& all, double latency_us) {
  double in_turn = 0, bytes_us = 0, small = 0, small_us = 0, small_bytes_us = 0, longest = 0, message_us = 0, last = 0;
  int together = 1;
  for (const Operations& o : all) {
    if (o.count <= 0 || o.messages <= 0) continue;
    bytes_us += o.bytes_us;
    const double alone = o.alone_us(latency_us);
    if (o.together == 1) {
      in_turn += o.count * alone;
      continue;
    }
    together = o.together, small += o.count, small_us += o.count * alone, small_bytes_us += o.bytes_us, longest = std::max(longest, alone);
    message_us += o.bytes_us / o.messages, last = latency_us;
  }
  if (small > 0) {
    const double waiting = std::max(longest, std::ceil(small / together) * small_us / small) + (std::min<double>(small, together) - 1) * message_us / small;
    in_turn += std::max(waiting, small_bytes_us + last);
  }
  return {bytes_us, in_turn - bytes_us};
}

enum class Exchange { sum, gather, scatter };

/// Messages, one after the other, of an exchange between n ranks. What goes to all at once, as an emulated link's gathers do, is one (`direct`), else as many as
/// a ring has; sizes that a codec does not know beforehand are one more.
double messages_of(Exchange what, const std::string& codec, Protocol protocol, int n, bool direct) {
  if (!compresses(codec)) return (what == Exchange::sum ? 2.0 : 1.0) * (n - 1);
  const CodecTraits traits = make_codec(codec).codec->traits();
  const double around = direct ? 1.0 : n - 1.0;
  const double payloads = around * (traits.fixed_size ? 1 : 2);
  if (what == Exchange::gather) return payloads;
  const bool rounds = traits.rounds > 0 && (protocol == Protocol::automatic || protocol == Protocol::rounds);
  if (rounds) return (what == Exchange::scatter && traits.rounds_per_shard ? 1.0 : 2.0) * (n - 1) * traits.rounds;
  return what == Exchange::sum && protocol == Protocol::two_shot ? 2 * payloads : payloads;
}

class Costs {
 public:
  Costs(const TrainRun& run, const ClusterMachine& machine) : run_(run), machine_(machine), slices_(run.config.slices()) {
    const auto stages = static_cast<std::size_t>(run.config.mesh.pp);
    stage_.resize(stages);
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const int stage = mesh_coordinates(run.config.mesh, static_cast<int>(rank)).pp;
      std::vector<double> forward, backward, rest;
      std::vector<std::vector<double>> slice_forward(slices_.size()), slice_backward(slices_.size());
      std::map<ClassKey, std::vector<ClassCost>> classes;
      for (const StepRecord& s : run.ranks[rank]) {
        forward.push_back(s.forward_us);
        backward.push_back(s.backward_us);
        rest.push_back(s.compute_us - s.forward_us - s.backward_us);
        for (std::size_t n = 0; n < s.slice_forward_us.size(); ++n) {
          slice_forward[n].push_back(s.slice_forward_us[n]);
          slice_backward[n].push_back(s.slice_backward_us[n]);
        }
        // A class may travel in two groups (embedding: replicas, then stages): one record each.
        std::map<ClassKey, ClassCost> step;
        for (const TrafficRecord& t : s.traffic) {
          ClassCost& sum = step[{t.traffic, t.codec, t.level}];
          sum.operations += static_cast<double>(t.operations);
          sum.dense_bytes += static_cast<double>(t.total.dense_bytes);
          sum.link_bytes += static_cast<double>(t.total.link_bytes);
          sum.codec_us += t.total.encode_us + t.total.decode_us;
        }
        for (const auto& [key, sum] : step) classes[key].push_back(sum);
      }
      Stage& at = stage_[static_cast<std::size_t>(stage)];
      at.forward = std::max(at.forward, median(forward));
      at.backward = std::max(at.backward, median(backward));
      at.rest = std::max(at.rest, median(rest));
      at.slice_forward.resize(slices_.size());
      at.slice_backward.resize(slices_.size());
      for (std::size_t n = 0; n < slices_.size() && !slice_forward[n].empty(); ++n) {
        at.slice_forward[n] = std::max(at.slice_forward[n], median(slice_forward[n]));
        at.slice_backward[n] = std::max(at.slice_backward[n], median(slice_backward[n]));
      }
      for (const auto& [key, steps] : classes) {
        std::vector<double> codec;
        for (const ClassCost& c : steps) codec.push_back(c.codec_us);
        ClassCost& slowest = at.classes[key];
        slowest.operations = std::max(slowest.operations, steps.front().operations);
        slowest.dense_bytes = std::max(slowest.dense_bytes, steps.front().dense_bytes);
        slowest.link_bytes = std::max(slowest.link_bytes, steps.front().link_bytes);
        slowest.codec_us = std::max(slowest.codec_us, median(codec));
      }
    }
  }

  StepCosts costs() {
    const TrainConfig& c = run_.config;
    const Schedule schedule = training_schedule(c);
    const bool gathers = std::ranges::any_of(schedule.stage, [](const auto& list) {
      return std::ranges::any_of(list, [](const Instruction& i) { return i.kind == InstructionKind::unshard; });
    });
    const double micro = static_cast<double>(c.micro_batches()), passes = micro * c.virtual_stages * static_cast<double>(slices_.size());
    StepCosts costs;
    for (int s = 0; s < c.mesh.pp; ++s) {
      const Stage& at = stage_[static_cast<std::size_t>(s)];
      StageWork work;
      work.forward_us = at.forward / micro / c.virtual_stages;
      work.backward_us = at.backward / micro / c.virtual_stages;
      // Slices of different lengths have sums of different sizes; together they are these.
      work.forward_sums_us = (sums_us(at, TrafficClass::tp_forward, c.mesh.tp) + sums_us(at, TrafficClass::control, c.mesh.tp)) / passes;
      work.backward_sums_us = sums_us(at, TrafficClass::tp_backward, c.mesh.tp) / passes;
      for (std::size_t n = 0; n < slices_.size() && slices_.size() > 1; ++n) {
        work.slice_forward_us.push_back(at.slice_forward[n] / micro);
        work.slice_backward_us.push_back(at.slice_backward[n] / micro);
      }
      costs.stage.push_back(work);
      costs.gradient_us.push_back(exposed_gradients_us(at, work, gathers));
      const auto [replicas, stages] = embedding_us(at);
      costs.table_us.push_back(replicas);
      costs.embedding_us = std::max(costs.embedding_us, stages);
      costs.optimizer_us = std::max(costs.optimizer_us, at.rest);
    }
    if (gathers) {
      costs.unshard_us = by_unit(schedule, InstructionKind::unshard, TrafficClass::param_all_gather);
      costs.reduce_us = by_unit(schedule, InstructionKind::reduce, TrafficClass::grad_reduce_scatter);
    }
    costs.optimizer_us += norm_us();
    costs.sums_after_sends = true;
    costs.sends = c.blocking_sends ? SendMode::departing : SendMode::eager;
    costs.forward_message_us = [this](int sender, int, int slice) { return message_us(sender, 1, TrafficClass::pp_forward, true, slice); };
    costs.backward_message_us = [this, stages = c.mesh.pp, m = static_cast<int>(micro)](int sender, int i, int slice) {
      const auto rule = run_.config.compress.find(TrafficClass::pp_backward);
      const bool only_last = rule != run_.config.compress.end() && rule->second.epilogue_only;
      return message_us(sender, -1, TrafficClass::pp_backward, !only_last || in_epilogue(i, sender, stages, m), slice);
    };
    return costs;
  }

 private:
  struct Stage {
    double forward = 0, backward = 0, rest = 0;
    std::vector<double> slice_forward, slice_backward;
    std::map<ClassKey, ClassCost> classes;
  };

  /// How many ranks lie between neighbours along an axis (or two).
  int stride(int tp, int pp, int dp) const { return mesh_rank(run_.config.mesh, {tp, pp, dp}); }

  /// The group that sums a class: tensor ranks or replicas.
  LinkModel link_of(TrafficClass traffic) const {
    const MeshShape& m = run_.config.mesh;
    const bool tensor = traffic == TrafficClass::tp_forward || traffic == TrafficClass::tp_backward || traffic == TrafficClass::control;
    return group_link(machine_, traffic, tensor ? stride(std::min(1, m.tp - 1), 0, 0) : stride(0, 0, std::min(1, m.dp - 1)), tensor ? m.tp : m.dp);
  }
  /// Between first and last stage, of all replicas or of one.
  LinkModel table_link(bool all_replicas) const {
    const MeshShape& m = run_.config.mesh;
    const int span = stride(m.tp - 1, m.pp - 1, all_replicas ? m.dp - 1 : 0) + 1;
    return group_link(machine_, TrafficClass::embedding, std::max(1, std::min(m.tp, span)), (span + m.tp - 1) / m.tp);
  }

  double sums_us(const Stage& at, TrafficClass traffic, int n) const {
    const LinkModel link = link_of(traffic);
    std::vector<Operations> operations;
    double codec_us = 0;
    for (const auto& [key, cost] : at.classes) {
      if (key.traffic != traffic || n < 2) continue;
      const int together = cost.together(traffic == TrafficClass::dp_gradient ? run_.config.messages_at_once : 1);
      operations.push_back({cost.operations, messages_of(Exchange::sum, key.codec, protocol_of(traffic), n, direct()), 8e-3 * cost.link_bytes / link.gbps, together});
      codec_us += cost.codec_us;
    }
    return operations_us(operations, link.latency_us).total() + codec_us;
  }

  bool direct() const { return EmulatedLink::is_emulated(run_.link); }
  Protocol protocol_of(TrafficClass traffic) const {
    const auto rule = run_.config.compress.find(traffic);
    return rule == run_.config.compress.end() ? Protocol::automatic : rule->second.protocol;
  }

  /// Ranks of one step of an exchange of rows, and their link: all replicas at once, or those of a node, then those of one number in all nodes, whose cards
  /// the ranks of a node share.
  std::pair<int, LinkModel> level_link(TrafficClass traffic, ChannelLevel level) const {
    const DataAxis axis = run_.config.mesh.data();
    const int ranks = level == ChannelLevel::whole ? axis.within_replica() : level == ChannelLevel::inside ? axis.inside : axis.nodes;
    const int apart = ranks < 2 ? 0 : level == ChannelLevel::across ? axis.inside : 1;
    return {ranks, group_link(machine_, traffic, stride(0, 0, apart), ranks)};
  }
  /// Gathers (or scattered sums) of a stage's step, as many together as the trainer has under way, in so many `groups`, one behind the other.
  TransferTime exchange_us(const Stage& at, TrafficClass traffic, double groups = 1) const {
    TransferTime sum;
    for (const auto& [key, cost] : at.classes) {
      if (key.traffic != traffic) continue;
      const auto [ranks, link] = level_link(traffic, key.level);
      const Exchange what = traffic == TrafficClass::param_all_gather ? Exchange::gather : Exchange::scatter;
      const double parts = std::max(1.0, std::min(cost.operations, groups)), bytes_us = 8e-3 * cost.link_bytes / link.gbps;
      const TransferTime part = operations_us({{cost.operations / parts, messages_of(what, key.codec, protocol_of(traffic), ranks, direct()), bytes_us / parts, cost.together(run_.config.messages_at_once)}},
                                              link.latency_us);
      sum.link += parts * part.link;
      sum.beside += parts * part.beside + cost.codec_us;
    }
    return sum;
  }

  /// All gathers (or scattered sums) of a stage's step, shared out over the instructions of this kind by what their units hold in matrices; evenly
  /// where the model does not say what that is.
  UnitCost by_unit(const Schedule& schedule, InstructionKind kind, TrafficClass traffic) const {
    const TrainConfig& c = run_.config;
    const bool declared = static_cast<bool>(model_kind(c.model_kind).geometry);
    std::vector<std::map<std::pair<int, int>, double>> shares;
    std::vector<TransferTime> all;
    for (int stage = 0; stage < c.mesh.pp; ++stage) {
      double weights = 0, exchanges = 0;
      const std::vector<Geometry> chunks = declared ? stage_geometries(c, schedule, stage) : std::vector<Geometry>();
      auto& of_unit = shares.emplace_back();
      for (const Instruction& i : schedule.stage[static_cast<std::size_t>(stage)]) {
        if (i.kind != kind) continue;
        double weight = declared ? 0 : 1;
        if (declared)
          for (const DeclaredParameter& p : chunks[static_cast<std::size_t>(i.chunk)].units[static_cast<std::size_t>(i.unit)].parameters)
            weight += p.decays && !(p.tied && c.mesh.pp > 1 && !c.shards_table()) ? static_cast<double>(p.whole()) : 0;
        of_unit[{i.chunk, i.unit}] = weight;
        weights += weight, exchanges += weight > 0 ? 1 : 0;
      }
      all.push_back(exchange_us(stage_[static_cast<std::size_t>(stage)], traffic, exchanges));
      for (auto& [unit, share] : of_unit) share = weights > 0 ? share / weights : 0;
    }
    return [shares = std::move(shares), all = std::move(all)](int stage, int chunk, int unit) -> TransferTime {
      const auto at = static_cast<std::size_t>(stage);
      const double share = shares.at(at).at({chunk, unit});
      return {share * all.at(at).link, share * all.at(at).beside};
    };
  }

  // The table's own gradient: fused, one ring over first and last stage of all replicas; else over replicas, then over the two. Of a table that is shared out
  // the first step is among the exchanges of matrices.
  std::pair<double, double> embedding_us(const Stage& at) const {
    const TrainConfig& c = run_.config;
    double bytes = 0, codec = 0;
    for (const auto& [key, cost] : at.classes)
      if (key.traffic == TrafficClass::embedding) bytes += cost.link_bytes, codec += cost.codec_us;
    if (bytes == 0) return {0, 0};
    const double d = c.mesh.dp;
    const bool fused = c.embedding_sync == "fused";
    const LinkModel stages = table_link(fused), replicas = link_of(TrafficClass::embedding);
    if (fused) return {0, 2 * (2 * d - 1) * stages.latency_us + 8e-3 * bytes / stages.gbps + codec};
    if (c.shards_table()) return {0, 2 * stages.latency_us + 8e-3 * bytes / stages.gbps + codec};
    // A ring over n ranks sends 2 (n - 1) / n of the table: the replicas' share of both rings' bytes.
    const double share = 2 * (d - 1) / d / (2 * (d - 1) / d + 1);
    return {2 * (d - 1) * replicas.latency_us + share * (8e-3 * bytes / replicas.gbps + codec),
            2 * stages.latency_us + (1 - share) * (8e-3 * bytes / stages.gbps + codec)};
  }

  // Two numbers, summed over tensor, pipeline and data axis in turn, as far as a timed step does: rings over an emulated link, the library's trees elsewhere.
  double norm_us() const {
    const NormScope scope = run_.ranks.front().front().norm_scope;
    if (scope == NormScope::none) return 0;
    const MeshShape& mesh = run_.config.mesh;
    double messages = 0;
    for (const int n : {mesh.tp, mesh.pp, scope == NormScope::model ? 1 : scope == NormScope::replica ? mesh.data().within_replica() : mesh.dp})
      messages += EmulatedLink::is_emulated(run_.link) ? 2.0 * (n - 1) : 2.0 * std::ceil(std::log2(n));
    return messages * machine_.between.latency_us;
  }

  /// Part of a stage's gradients (by bytes) whose sums wait for its first layer, the last that the backward pass comes to: one layer of them where they go matrix by
  /// matrix; of buckets the last; stacks of matrices, one of every layer in each, whole.
  double late_share(const Stage& at, bool gathers) const {
    const double layers = static_cast<double>(run_.config.model.layers) / run_.config.mesh.pp;
    const auto rule = run_.config.compress.find(TrafficClass::dp_gradient);
    double late = 0, all = 0;
    for (const auto& [key, cost] : at.classes) {
      if (key.traffic != TrafficClass::dp_gradient && (gathers || key.traffic != TrafficClass::grad_reduce_scatter)) continue;
      const bool stacks = key.traffic == TrafficClass::dp_gradient && compresses(key.codec) && rule != run_.config.compress.end() && rule->second.stacked;
      late += cost.link_bytes * (stacks || cost.operations < 1 ? 1 : std::max(1 / layers, 1 / cost.operations));
      all += cost.link_bytes;
    }
    return all > 0 ? late / all : 1;
  }

  // The sums of all but the first layer can begin before the backward pass ends, as far as they do not travel with those of the first; updated rows are gathered after
  // it. Where the schedule says when parameters are gathered and matrices reduced, both are counted there (by_unit).
  double exposed_gradients_us(const Stage& at, const StageWork& work, bool gathers) const {
    double sums = sums_us(at, TrafficClass::dp_gradient, run_.config.mesh.dp);
    if (!gathers) sums += exchange_us(at, TrafficClass::grad_reduce_scatter).total();
    const double updated = gathers ? 0 : exchange_us(at, TrafficClass::param_all_gather).total();
    if (!run_.config.overlap) return sums + updated;
    const double layers = static_cast<double>(run_.config.model.layers) / run_.config.mesh.pp, share = (layers - 1) / layers;
    return updated + std::max(sums * late_share(at, gathers), sums - work.backward_us * share);
  }

  // The sender's encoding and the receiver's decoding lie on a message's way; records of a rank hold what it sent and what it decoded.
  double message_us(int sender, int towards, TrafficClass traffic, bool coded, int slice) const {
    const Stage& at = stage_[static_cast<std::size_t>(sender)];
    const ClassCost* chosen = nullptr;
    for (const auto& [key, cost] : at.classes)
      if (key.traffic == traffic && cost.link_bytes > 0 && (chosen == nullptr || compresses(key.codec) == coded)) chosen = &cost;
    if (chosen == nullptr) return 0;
    const double messages = std::max(1.0, messages_sent(sender, traffic, coded));
    const int p = run_.config.mesh.pp, from = stride(0, sender, 0), to = stride(0, (sender + towards + p) % p, 0);
    const bool inside = from / machine_.ranks_per_node == to / machine_.ranks_per_node;
    const LinkModel link = group_link(machine_, traffic, inside ? 1 : stride(0, 1, 0), inside ? 1 : machine_.ranks_per_node + 1);
    // Of a micro-batch's bytes and codec work a slice has the share of its tokens.
    const double share = static_cast<double>(slices_[static_cast<std::size_t>(slice)]) / static_cast<double>(run_.config.seq);
    return link.message_us(share * chosen->link_bytes / messages) + share * chosen->codec_us / messages;
  }

  double messages_sent(int sender, TrafficClass traffic, bool coded) const {
    const TrainConfig& c = run_.config;
    const int micro = static_cast<int>(c.micro_batches());
    const auto rule = c.compress.find(traffic);
    if (rule == c.compress.end() || !rule->second.epilogue_only) return static_cast<double>(micro) * c.virtual_stages;
    const int last = std::min(c.mesh.pp - sender, micro);
    return coded ? last : micro - last;
  }

  const TrainRun& run_;
  const ClusterMachine machine_;
  const std::vector<int> slices_;
  std::vector<Stage> stage_;
};

}  // namespace

ClusterMachine machine_of(const EmulatedLink& link) {
  ClusterMachine machine;
  machine.ranks_per_node = link.ranks_per_node;
  machine.between = {link.latency_us, link.slower_gbps()};
  machine.inside.latency_us = link.inside_latency_us;
  if (link.inside_gbps > 0) machine.inside.gbps = link.inside_gbps;
  return machine;
}

StepCosts step_costs(const TrainRun& run, const ClusterMachine& machine) {
  auto costs = std::make_shared<Costs>(run, machine);
  StepCosts result = costs->costs();
  // The closures look into `costs`.
  result.forward_message_us = [costs, f = result.forward_message_us](int sender, int micro, int slice) { return f(sender, micro, slice); };
  result.backward_message_us = [costs, f = result.backward_message_us](int sender, int micro, int slice) { return f(sender, micro, slice); };
  return result;
}

std::vector<results::TrainingPredictionRow> prediction_rows(const StepPrediction& prediction, const std::string& plan, const std::string& link) {
  std::vector<results::TrainingPredictionRow> rows = {{{}, plan, link, "step", prediction.step_us * 1e-3}};
  for (const StepPart part : all_step_parts)
    rows.push_back({{}, plan, link, name_of(part), prediction.exposed_us[static_cast<std::size_t>(part)] * 1e-3});
  return rows;
}

std::string describe_prediction(const StepPrediction& prediction, double measured_us, const LinkModel& link) {
  char line[256];
  std::snprintf(line, sizeof line, "step model         %.2f ms (%+.1f %%) on %.3g Gbit/s with %.0f us latency\n  exposed          ", prediction.step_us * 1e-3,
                100 * (prediction.step_us / measured_us - 1), link.gbps, link.latency_us);
  std::string text = line;
  for (const StepPart part : all_step_parts) {
    std::snprintf(line, sizeof line, "%s%s %.2f", part == all_step_parts.front() ? "" : ", ", name_of(part).c_str(),
                  prediction.exposed_us[static_cast<std::size_t>(part)] * 1e-3);
    text += line;
  }
  return text + " ms\n";
}

}  // namespace thinwire::bench
