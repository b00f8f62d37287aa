// tensor_parallel.C14a: the most that the best grid gains over 1-D, over link rates, shapes and batches, by the cost model.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double heads = 64;
constexpr double nominal_tflops = 10, nominal_latency_us = 15;

struct Setting {
  double hidden, seq, batch;
};
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const double hidden : {1024.0, 3072.0, 8192.0})
    for (const double seq : {256.0, 512.0, 1024.0})
      for (const double batch : {16.0, 32.0, 64.0, 128.0, 384.0}) all.push_back({hidden, seq, batch});
  return all;
}

bool divides(const GridShape& shape, const Setting& s) {
  try {
    check_grid(shape, {static_cast<std::int64_t>(s.batch), static_cast<std::int64_t>(s.hidden), static_cast<std::int64_t>(heads)});
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

/// Step of 1-D over that of the best other grid of `ranks`, and which that is.
struct Best {
  double ratio = no_number;
  GridShape shape;
};
Best best_of(int ranks, const Setting& s, const GridMachine& machine, BroadcastForm form, bool recompute) {
  Assumption a{machine, s.seq, form, GatherPolicy::again, recompute};
  const double line = step_seconds(a, {grid_of(GridKind::one_d, ranks), s.batch, s.hidden});
  Best best;
  for (const GridShape& shape : grids_of(ranks)) {
    if (shape.kind == GridKind::one_d || !divides(shape, s)) continue;
    for (const GatherPolicy policy : {GatherPolicy::keep, GatherPolicy::again}) {
      a.gather = policy;
      const double ratio = line / step_seconds(a, {shape, s.batch, s.hidden});
      if (!(ratio <= best.ratio)) best = {ratio, shape};
    }
  }
  return best;
}

Finding measure(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  const double claimed = p.read("Colossal-AI", "headline", "large-scale models", "training speed-up");
  Finding found;
  Table table{"1-D / best grid over link rates", {"ranks", "link (Gbit/s)", "smallest", "largest", "largest along trees", "largest, whole blocks along chains", "share of settings where 1-D is fastest", "hidden of the largest", "batch of the largest"}, {}};
  double most = 0, most_small = 0, most_tree = 0, most_chain = 0, most_small_chain = 0;
  std::string where, loses;
  for (const int ranks : {4, 8, 16, 64})
    for (const double gbps : {1.0, 3.0, 10.0, 30.0, 100.0}) {
      const GridMachine machine{nominal_latency_us, gbps / 8, nominal_tflops, 4};
      Spread spread, trees, chains;
      int line_wins = 0, count = 0;
      Setting at{};
      Best of_largest;
      for (const Setting& s : settings())
        for (const bool recompute : {false, true}) {
          const Best best = best_of(ranks, s, machine, BroadcastForm::pipelined, recompute);
          if (std::isnan(best.ratio)) continue;
          if (!(best.ratio <= spread.high)) at = s, of_largest = best;
          spread.add(best.ratio), ++count, line_wins += best.ratio < 1;
          trees.add(best_of(ranks, s, machine, BroadcastForm::tree, recompute).ratio);
          chains.add(best_of(ranks, s, machine, BroadcastForm::chain, recompute).ratio);
        }
      char label[64];
      std::snprintf(label, sizeof label, "%d ranks, %g Gbit/s, %s", ranks, gbps, of_largest.shape.describe().c_str());
      table.rows.push_back({label, {static_cast<double>(ranks), gbps, spread.low, spread.high, trees.high, chains.high, static_cast<double>(line_wins) / count, at.hidden, at.batch}});
      if (spread.high > most) most = spread.high, where = label;
      if (ranks < 64) most_small = std::max(most_small, spread.high), most_small_chain = std::max(most_small_chain, chains.high);
      most_tree = std::max(most_tree, trees.high), most_chain = std::max(most_chain, chains.high);
      if (spread.low < 1 && (ranks == 4 || ranks == 64) && (gbps == 1 || gbps == 100)) {
        char share[96];
        std::snprintf(share, sizeof share, "%s%.0f %% of settings on %d ranks at %g Gbit/s", loses.empty() ? "" : ", ", 100.0 * line_wins / count, ranks, gbps);
        loses += share;
      }
    }
  found.measures = {{"largest 1-D / best grid", most, no_number, no_number, claimed, "x"},
                {"largest on 4, 8 and 16 ranks", most_small, no_number, no_number, claimed, "x"},
                {"largest, SUMMA along trees", most_tree, no_number, no_number, claimed, "x"},
                {"largest, SUMMA in whole blocks along chains", most_chain, no_number, no_number, claimed, "x"},
                {"the same on 4, 8 and 16 ranks", most_small_chain, no_number, no_number, claimed, "x"}};
  found.measures.push_back({"printed", claimed, no_number, no_number, no_number, "x", "printed"});
  // The maximum of a grid of our choice is no answer to "up to 2.76x" at settings that nobody could read.
  found.instead = Verdict::not_decidable;
  char text[420];
  std::snprintf(text, sizeof text, "at equal batch the best grid is up to %.2fx as fast as 1-D (%s), %.2fx on at most 16 ranks (%.2fx and %.2fx where SUMMA forwards whole blocks); 1-D is fastest in %s", most, where.c_str(), most_small,
                most_chain, most_small_chain, loses.empty() ? "no setting" : loses.c_str());
  found.note = std::string("missing are the settings of the 2.76x: model and hidden size, sequence length, batches of either side, grid, cards and links (64 single-GPU nodes and a ViT are recollected, with low "
                           "confidence; the paper's tables of tensor parallelism were not found). Over settings of our choice, ") + text;
  found.tables.push_back(std::move(table));
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C14a",
     .statement = "Colossal-AI's tensor parallelism trains up to 2.76x as fast as 1-D, by the cost model.",
     .provenance = "read: 2.76x (abstract page of 2110.14883), its baselines (abstract); that it is tensor parallelism against 1-D on 64 nodes is recollected (low confidence); machines derived",
     .basis = Basis::cost_model,
     .rule = {.quantities = {{"speedup", "step of 1-D over that of the best of 2-D, 2.5-D and 3-D by the cost model, at the settings that the paper states for its number"},
                             {"printed", "training speed-up in the abstract (results/published)"}},
              .constants = {{"even", 1, "x: neither is faster"}, {"worth", 0.05, "of a step: a smaller difference is not worth naming"}},
              .clauses = {{Verdict::confirmed, "speedup >= printed && speedup >= even + worth"}, {Verdict::direction_only, "speedup >= even + worth"}},
              .otherwise = Verdict::not_reproduced,
              .smallest_effect = "worth"},
     .not_validated = not_validated_terms,
     .measure = measure,
     .past = {{"2026-11-22", "asked at the paper's settings; it was CONFIRMED by the largest ratio over a grid of settings of our choice",
               "a maximum over a grid that may be chosen at will confirms any number"}}});

}  // namespace
}  // namespace thinwire::claims
