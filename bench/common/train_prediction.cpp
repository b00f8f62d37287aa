#include "bench/common/train_prediction.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "core/statistics.h"
#include "kernels/codec/registry.h"
#include "models/epilogue.h"

namespace thinwire::bench {
namespace {

/// What a class cost one rank per step.
struct ClassCost {
  double operations = 0, link_bytes = 0, codec_us = 0;
};

/// Messages, one after the other, of one sum over n ranks.
double messages_of_sum(const std::string& codec, Protocol protocol, int n) {
  if (codec == "none") return 2.0 * (n - 1);
  const int rounds = make_codec(codec).codec->traits().rounds;
  if (protocol == Protocol::gather || (protocol == Protocol::automatic && rounds == 0)) return n - 1;
  return 2.0 * (n - 1) * std::max(1, rounds);
}

class Costs {
 public:
  Costs(const TrainRun& run, const LinkModel& link) : run_(run), link_(link) {
    const auto stages = static_cast<std::size_t>(run.config.mesh.pp);
    stage_.resize(stages);
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const int stage = mesh_coordinates(run.config.mesh, static_cast<int>(rank)).pp;
      std::vector<double> forward, backward, rest;
      std::map<std::pair<TrafficClass, std::string>, std::vector<ClassCost>> classes;
      for (const StepRecord& s : run.ranks[rank]) {
        forward.push_back(s.forward_us);
        backward.push_back(s.backward_us);
        rest.push_back(s.compute_us - s.forward_us - s.backward_us);
        for (const TrafficRecord& t : s.traffic)
          classes[{t.traffic, t.codec}].push_back({static_cast<double>(t.operations), static_cast<double>(t.total.link_bytes),
                                                   t.total.encode_us + t.total.decode_us});
      }
      Stage& at = stage_[static_cast<std::size_t>(stage)];
      at.forward = std::max(at.forward, median(forward));
      at.backward = std::max(at.backward, median(backward));
      at.rest = std::max(at.rest, median(rest));
      for (const auto& [key, steps] : classes) {
        std::vector<double> codec;
        for (const ClassCost& c : steps) codec.push_back(c.codec_us);
        ClassCost& slowest = at.classes[key];
        slowest.operations = std::max(slowest.operations, steps.front().operations);
        slowest.link_bytes = std::max(slowest.link_bytes, steps.front().link_bytes);
        slowest.codec_us = std::max(slowest.codec_us, median(codec));
      }
    }
  }

  StepCosts costs() {
    const TrainConfig& c = run_.config;
    const double micro = static_cast<double>(c.micro_batches());
    StepCosts costs;
    for (int s = 0; s < c.mesh.pp; ++s) {
      const Stage& at = stage_[static_cast<std::size_t>(s)];
      StageWork work;
      work.forward_us = at.forward / micro / c.virtual_stages;
      work.backward_us = at.backward / micro / c.virtual_stages;
      work.forward_sums_us = (sums_us(at, TrafficClass::tp_forward, c.mesh.tp) + sums_us(at, TrafficClass::control, c.mesh.tp)) / micro / c.virtual_stages;
      work.backward_sums_us = sums_us(at, TrafficClass::tp_backward, c.mesh.tp) / micro / c.virtual_stages;
      costs.stage.push_back(work);
      costs.gradient_us.push_back(exposed_gradients_us(at, work));
      costs.embedding_us = std::max(costs.embedding_us, sums_us(at, TrafficClass::embedding, c.mesh.dp));
      costs.optimizer_us = std::max(costs.optimizer_us, at.rest);
    }
    costs.forward_message_us = [this](int sender, int) { return message_us(sender, TrafficClass::pp_forward, true); };
    costs.backward_message_us = [this, stages = c.mesh.pp, m = static_cast<int>(micro)](int sender, int i) {
      const auto rule = run_.config.compress.find(TrafficClass::pp_backward);
      const bool only_last = rule != run_.config.compress.end() && rule->second.epilogue_only;
      return message_us(sender, TrafficClass::pp_backward, !only_last || in_epilogue(i, sender, stages, m));
    };
    return costs;
  }

 private:
  struct Stage {
    double forward = 0, backward = 0, rest = 0;
    std::map<std::pair<TrafficClass, std::string>, ClassCost> classes;
  };

  double sums_us(const Stage& at, TrafficClass traffic, int n) const {
    double sum = 0;
    for (const auto& [key, cost] : at.classes) {
      if (key.first != traffic || n < 2) continue;
      const auto rule = run_.config.compress.find(traffic);
      const Protocol protocol = rule == run_.config.compress.end() ? Protocol::automatic : rule->second.protocol;
      sum += cost.operations * messages_of_sum(key.second, protocol, n) * link_.latency_us + 8e-3 * cost.link_bytes / link_.gbps + cost.codec_us;
    }
    return sum;
  }

  // Of a stage with L layers, the sums of all but the first layer can begin before the backward pass ends.
  double exposed_gradients_us(const Stage& at, const StageWork& work) const {
    const double all = sums_us(at, TrafficClass::dp_gradient, run_.config.mesh.dp) + sums_us(at, TrafficClass::gradient_scatter, run_.config.mesh.dp) +
                       sums_us(at, TrafficClass::weight_gather, run_.config.mesh.dp);
    if (!run_.config.overlap) return all;
    const double layers = static_cast<double>(run_.config.model.layers) / run_.config.mesh.pp, share = (layers - 1) / layers;
    return all - std::min(all * share, work.backward_us * share);
  }

  // The sender's encoding and the receiver's decoding lie on a message's way; records of a rank hold what it sent and what it decoded.
  double message_us(int sender, TrafficClass traffic, bool coded) const {
    const Stage& at = stage_[static_cast<std::size_t>(sender)];
    const ClassCost* chosen = nullptr;
    for (const auto& [key, cost] : at.classes)
      if (key.first == traffic && cost.link_bytes > 0 && (chosen == nullptr || (key.second != "none") == coded)) chosen = &cost;
    if (chosen == nullptr) return 0;
    const double messages = std::max(1.0, messages_sent(sender, traffic, coded));
    return link_.message_us(chosen->link_bytes / messages) + chosen->codec_us / messages;
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
  LinkModel link_;
  std::vector<Stage> stage_;
};

}  // namespace

StepCosts step_costs(const TrainRun& run, const LinkModel& link) {
  auto costs = std::make_shared<Costs>(run, link);
  StepCosts result = costs->costs();
  // The closures look into `costs`.
  result.forward_message_us = [costs, f = result.forward_message_us](int sender, int micro) { return f(sender, micro); };
  result.backward_message_us = [costs, f = result.backward_message_us](int sender, int micro) { return f(sender, micro); };
  return result;
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
