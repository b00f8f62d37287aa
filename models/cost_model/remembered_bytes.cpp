// Of a matrix of n elements, W ranks in a replica, L in a node:
//   all-reduced            sent n,            delivered n          by two_shot sent n + n/W: a rank sends the sums of its rows as a message of its own
//   reduce-scattered       sent n,            delivered n/W
//   outer gradient         as all-reduced, between replicas, of the rows that a rank owns
//   in two steps   inside  sent n,            delivered n/L
//                  across  sent n/L,          delivered n/W        (docs/papers/gradient_compression.md, "Residuals of sharded gradients")
//   weights gathered       sent n/W,          delivered n - n/W    by the others
//   in two steps   across  sent n/W,          delivered n/L - n/W
//                  inside  sent n/L,          delivered n - n/L
#include "models/cost_model/remembered_bytes.h"

#include <limits>
#include <set>

#include "kernels/codec/registry.h"
#include "kernels/codec/wrapper_memory.h"
#include "models/cost_model/flat_sizes.h"
#include "models/parallel/channels/row_exchange.h"
#include "models/training/config/released_form.h"

namespace thinwire {
namespace {

/// Of wrappers around `codec`, per element of a matrix of which a rank sends the share `sent` and is delivered the share `delivered`.
double bytes_per_element(const std::string& codec, Form form, double sent, double delivered) {
  double bytes = 0;
  for (const auto& wrapper : make_codec(codec, form).wrappers)
    if (const auto* keeps = dynamic_cast<const KeepsElements*>(wrapper.get())) bytes += keeps->bytes_per_element_sent() * sent + keeps->bytes_per_element_delivered() * delivered;
  return bytes;
}

/// What a rank sends of an element into a sum over `ranks` that all of them get.
double sent_into_sum(const CompressRule& rule, int ranks) { return rule.protocol == Protocol::two_shot ? 1 + 1.0 / ranks : 1; }

/// Elements of this rank's matrices that the rule covers in step `step`; unless said otherwise once it acts.
double covered_elements(const TrainConfig& c, TrafficClass traffic, const CompressRule& rule, int stage,
                        const std::vector<Geometry>& chunks,
                        std::int64_t step = std::numeric_limits<std::int64_t>::max()) {
  const RuleCoverage coverage(traffic, rule, c.stages(), static_cast<int>(c.micro_batches()));
  MessageKey settled;
  settled.step = step;
  std::set<std::string> counted;  // a tied table is read by two units
  double elements = 0;
  if (const auto flats = flat_sizes(c, chunks); flats && traffic == TrafficClass::grad_reduce_scatter) {
    for (const FlatParameter& flat : flats->parameters)
      if (coverage.covers(flat.rule_layer, stage, settled, flat.elements())) elements += static_cast<double>(flat.elements());
    return elements;
  }
  for (const Geometry& chunk : chunks)
    for (const DeclaredUnit& unit : chunk.units)
      for (const DeclaredParameter& p : unit.parameters) {
        const bool of_shards = traffic == TrafficClass::grad_reduce_scatter || traffic == TrafficClass::param_all_gather;
        const bool apart = p.tied && c.mesh.pp > 1 && !(of_shards && c.shards_table());  // summed by itself, dense
        if (p.decays && !apart && coverage.covers(unit.layer, stage, settled, p.local()) && counted.insert(p.name()).second) elements += static_cast<double>(p.local());
      }
  return elements;
}

/// Of what wrappers around `codec` remember at the places of `rule`.
double remembered(const TrainConfig& c, TrafficClass traffic, CompressRule rule, const std::string& codec, int stage, const std::vector<Geometry>& chunks, double sent, double delivered) {
  if (!compresses(codec)) return 0;
  rule.codec = codec;
  return bytes_per_element(codec, c.form, sent, delivered) * covered_elements(c, traffic, rule, stage, chunks);
}

double of_outer_gradients(const TrainConfig& c, int stage, const std::vector<Geometry>& chunks) {
  const DataAxis axis = c.mesh.data();
  const CompressRule rule = rule_in_form(c, TrafficClass::outer_gradient);
  if (axis.replicas == 1 || !rule.active()) return 0;
  const double owned = c.shards_gradients() ? 1.0 / axis.within_replica() : 1.0;
  return bytes_per_element(rule.codec, c.form, owned * sent_into_sum(rule, axis.replicas), owned) * covered_elements(c, TrafficClass::outer_gradient, rule, stage, chunks);
}

/// In stages whose weights are whole on every rank; the others' gathers have no wrappers.
double of_weights(const TrainConfig& c, int stage, const std::vector<Geometry>& chunks) {
  const DataAxis axis = c.mesh.data();
  if (axis.within_replica() == 1 || !c.shards_gradients()) return 0;
  const CompressRule rule = rule_in_form(c, TrafficClass::param_all_gather);
  const double of_ranks = 1.0 / axis.within_replica(), in_node = 1.0 / axis.inside;
  const auto of = [&](const std::string& codec, double sent, double delivered) { return remembered(c, TrafficClass::param_all_gather, rule, codec, stage, chunks, sent, delivered); };
  if (!RowOwners{axis, {}}.two_levels()) return of(rule.codec, of_ranks, 1 - of_ranks);
  return of(rule.codec, of_ranks, in_node - of_ranks) + of(rule.inside, in_node, 1 - in_node);
}

/// Within a replica.
double of_gradients(const TrainConfig& c, int stage, const std::vector<Geometry>& chunks) {
  const DataAxis axis = c.mesh.data();
  if (axis.within_replica() == 1) return 0;
  const bool shards = c.shards_gradients();
  const TrafficClass traffic = shards ? TrafficClass::grad_reduce_scatter : TrafficClass::dp_gradient;
  const CompressRule rule = rule_in_form(c, traffic);
  const double of_ranks = 1.0 / axis.within_replica(), in_node = 1.0 / axis.inside;
  const auto of = [&](const std::string& codec, double sent, double delivered) { return remembered(c, traffic, rule, codec, stage, chunks, sent, delivered); };
  if (!shards) return of(rule.codec, sent_into_sum(rule, axis.within_replica()), 1);
  if (!RowOwners{axis, {}}.two_levels()) return of(rule.codec, 1, of_ranks);
  return of(rule.inside, 1, in_node) + of(rule.codec, in_node, of_ranks);
}

}  // namespace

std::int64_t remembered_bytes(const TrainConfig& c, int stage, const std::vector<Geometry>& chunks) {
  return static_cast<std::int64_t>(of_gradients(c, stage, chunks) + of_weights(c, stage, chunks) + of_outer_gradients(c, stage, chunks));
}

double coded_outer_gradients(const TrainConfig& c, int stage, const std::vector<Geometry>& chunks) {
  return covered_elements(c, TrafficClass::outer_gradient, rule_in_form(c, TrafficClass::outer_gradient),
                          stage, chunks, 0);
}

}  // namespace thinwire
