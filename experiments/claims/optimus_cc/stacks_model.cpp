// optimus_cc.C14 by the event model: the four stacks on 128 ranks at 25 GB/s per node. What the ranks compute per second is not known of
// the authors' cluster; it is an assumption of ours, so the order is asked at both ends of a range.
#include <array>
#include <cstdio>

#include "experiments/claims/claim.h"
#include "models/cost_model/cluster_model.h"

namespace thinwire::claims {
namespace {

constexpr std::array names = {"Base", "CB", "CB+FE", "CB+FE+SC"};

ClusterMachine machine() {
  ClusterMachine m;
  m.name = "16 nodes of 8, 25 GB/s per node";
  m.ranks_per_node = 8;
  m.between = {5, 200};
  m.inside = {3, 1800};
  m.tflops = {10, 70};
  m.codec_gbps = {500, 2000};
  m.source = "derived: half of 19.5 TFLOP/s plain f32 to 45 % of 156 TFLOP/s TF32";
  return m;
}

Execution execution(int stack) {
  Execution e;
  e.name = names[static_cast<std::size_t>(stack)];
  e.mesh = {8, 4, 4, "tp-dp-pp"};
  e.micro_batch = 8;
  e.micro_batches = 16;
  e.recompute = true;
  if (stack >= 1) e.compress[TrafficClass::pp_backward] = {.codec = "powersgd", .rank = 16, .epilogue_only = true};
  e.fused_embedding = stack >= 2;
  if (stack >= 3) e.compress[TrafficClass::dp_gradient] = {.codec = "powersgd", .rank = 128, .stages = 3};
  return e;
}

Outcome judge(JudgeContext&) {
  const std::array models = {ModelShape{"2.5B", 52, 1920, 24, 1024, 51200}, ModelShape{"8.3B", 72, 3072, 24, 1024, 51200}};
  const ClusterMachine cluster = machine();
  Outcome o;
  bool ordered = true, largest = true, negative = false;
  Table table{"128 ranks by the event model", {"TFLOP/s (assumed)", "step (ms)", "tensor sums (ms)", "forward messages (ms)", "backward messages (ms)", "gradient sums (ms)",
                                               "embedding (ms)", "the rest (ms)"}, {}};
  for (const ModelShape& model : models)
    for (const RangeEnd end : {RangeEnd::low, RangeEnd::high}) {
      double before = no_number, most = 0, last = 0;
      const double tflops = end == RangeEnd::low ? cluster.tflops.low : cluster.tflops.high;
      for (int stack = 0; stack < static_cast<int>(names.size()); ++stack) {
        const Execution e = execution(stack);
        const StepPrediction p = predict_step(cluster_schedule(e), cluster_costs(cluster, model, e, end));
        std::vector<double> row = {tflops, p.step_us * 1e-3};
        double rest = p.step_us * 1e-3;
        for (const StepPart part : all_step_parts) {
          row.push_back(p.exposed_us[static_cast<std::size_t>(part)] * 1e-3);
          rest -= row.back();
        }
        row.push_back(rest);
        table.rows.push_back({model.name + " " + e.name, std::move(row)});
        if (stack > 0) {
          const double gain = before - p.step_us;
          char name[96];
          std::snprintf(name, sizeof name, "%s at %g TFLOP/s, gained by %s", model.name.c_str(), tflops, names[static_cast<std::size_t>(stack)]);
          o.measures.push_back({name, gain * 1e-3, no_number, no_number, 0, "ms"});
          ordered = ordered && gain > 0;
          negative = negative || gain < 0;
          if (stack + 1 < static_cast<int>(names.size())) most = std::max(most, gain);
          last = gain;
        }
        before = p.step_us;
      }
      largest = largest && last > most;
    }
  o.tables.push_back(std::move(table));
  o.verdict = negative ? Verdict::refuted : ordered && largest ? Verdict::confirmed : Verdict::inconclusive;
  o.because = std::string(ordered ? "every technique shortens the step" : "a technique does not shorten the step") +
              (largest ? ", selective stages the most" : ", but selective stages not the most") +
              ", at both ends of an assumed rate of computing (10 to 70 TFLOP/s per rank, derived; not the authors' number)";
  return o;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C14a",
     .statement = "Each technique adds speed, selective stages the most, on 128 ranks.",
     .provenance = "order recollected (weak); \"superior speed-up\" read (abstract page); sizes read, compute rate derived",
     .rule = "2.5B and 8.3B, T 8, P 4, D 4, M 16, 25 GB/s per node, both ends of the compute range: CONFIRMED if T(Base) > T(CB) > T(CB+FE) > T(CB+FE+SC) and SC's step is the "
             "largest; REFUTED if a step is negative",
     .basis = Basis::event_model,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
