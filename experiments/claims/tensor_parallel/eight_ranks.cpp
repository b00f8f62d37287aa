// tensor_parallel.C8: is 3-D slower than 1-D on 8 ranks, as the published rows say (0.580 s against 0.341 s)?
#include <cmath>
#include <cstdio>

#include "experiments/claims/interval.h"
#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/machine_box.h"
#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr int batch_3d = 64, batch_1d = 20;  ///< as 192 to 60, the published ones; hidden 2048 is scaled to 256
const std::vector<double> links = {0.1, 1, 10};  ///< Gbit/s, the slowest first
constexpr double worth = 0.05;

struct Arm {
  std::string name;
  UnitCell cell;
};
/// At one link, without it.
std::vector<Arm> arms() {
  std::vector<Arm> all = {{"1-D, batches 192 : 60", {}}, {"1-D, equal batches", {}}, {"3-D, gradient gathered twice", {}}, {"3-D, gathered once", {}}};
  for (Arm& arm : all) arm.cell.batch = batch_3d, arm.cell.mode = arm.name[0] == '1' ? "1d" : "3d";
  all[0].cell.batch = batch_1d;
  // The released code of the 3-D paper's group gathers the gradient of the output twice.
  all[2].cell.gather = "again-literally", all[3].cell.gather = "again";
  return all;
}
GridShape grid_of_arm(const Arm& arm) { return parse_grid(arm.cell.mode, arm.cell.ranks); }

std::vector<NamedRequest> named() {
  std::vector<NamedRequest> requests;
  for (const Arm& arm : arms()) requests.push_back({arm.name, unit_request(arm.cell)});
  return requests;
}

/// By repetition: one rank alone at either batch, then the arms of each link.
struct Runs {
  std::vector<results::CellRecord> records;
  std::size_t of_one() const { return 2 + 4 * links.size(); }
  double alone_ms(std::size_t repetition, int batch) const { return unit_times(records[repetition * of_one() + (batch == batch_3d ? 0 : 1)]).front().step_ms(); }
  UnitTimes at(std::size_t repetition, std::size_t link, std::size_t arm) const { return unit_times(records[repetition * of_one() + 2 + 4 * link + arm]).front(); }
};
Runs run(JudgeContext& context) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition) {  // in turn: what disturbs the machine for a while meets all arms
    UnitCell alone;
    alone.ranks = 1, alone.seed = repetition;
    for (const int batch : {batch_3d, batch_1d}) alone.batch = batch, requests.push_back(unit_request(alone));
    for (const double link : links)
      for (const Arm& arm : arms()) {
        UnitCell cell = arm.cell;
        cell.link = emulated_link(link), cell.seed = repetition;
        requests.push_back(unit_request(cell));
      }
  }
  return {run_measured(context, requests)};
}

Finding measure(JudgeContext& context) {
  const auto repetitions = static_cast<std::size_t>(context.seeds());
  const Runs runs = run(context);
  const std::vector<Arm> all = arms();
  const Published p = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(p);
  const double published = weak.average("3-D, 8 GPUs") / weak.average("1-D, 8 GPUs");
  Finding found;
  Table table{"8 ranks: ms per sequence and layer", {"link (Gbit/s)", "batch of 1-D", "1-D", "3-D, gradient gathered twice", "3-D, gathered once", "3-D / 1-D"}, {}};
  LeftOut out;
  Interval at_slowest, equal_at_slowest;
  for (std::size_t i = 0; i < links.size(); ++i) {
    Point point;
    for (std::size_t r = 0; r < repetitions; ++r)
      for (std::size_t k = 0; k < all.size(); ++k) point.add(runs.at(r, i, k), grid_of_arm(all[k]), all[k].cell, links[i], runs.alone_ms(r, all[k].cell.batch));
    if (out.contains(text_of(links[i]) + " Gbit/s", point)) continue;
    for (const std::size_t line : {std::size_t{0}, std::size_t{1}}) {
      const int batch = all[line].cell.batch;
      std::vector<double> one, twice, once, ratio, recomputed;
      for (std::size_t r = 0; r < repetitions; ++r) {
        const UnitTimes a = runs.at(r, i, line), b = runs.at(r, i, 2);
        one.push_back(a.step_ms() / batch), twice.push_back(b.step_ms() / batch_3d), once.push_back(runs.at(r, i, 3).step_ms() / batch_3d);
        ratio.push_back(twice.back() / one.back());
        recomputed.push_back((b.forward_ms + b.step_ms()) / batch_3d / ((a.forward_ms + a.step_ms()) / batch));
      }
      const Interval mean = interval_of(ratio);
      const bool judged = i == 0 && line == 0;
      table.rows.push_back({text_of(links[i]) + " Gbit/s, " + (line == 0 ? "batches 192 : 60" : "equal batches"),
                            {links[i], static_cast<double>(batch), interval_of(one).mean, interval_of(twice).mean, interval_of(once).mean, mean.mean}});
      found.measures.push_back(measure_of("3-D / 1-D, " + table.rows.back().label, mean, 1, "x", judged ? "ratio" : ""));
      if (judged)
        found.measures.push_back(measure_of("the same at the slowest link and 192 : 60 with the forward pass once more (recomputation)", interval_of(recomputed), 1, "x"));
      if (i == 0) (line == 0 ? at_slowest : equal_at_slowest) = mean;
    }
  }
  found.measures.push_back({"3-D / 1-D, published rows of 8 GPUs", published, no_number, no_number, 1, "x"});
  found.measures.push_back(out.measure());
  found.tables = {std::move(table), out.table()};
  if (at_slowest.count == 0) {
    found.instead = Verdict::not_decidable;
    found.note = "the slowest link was not measured: " + out.note();
    return found;
  }
  char text[400];
  std::snprintf(text, sizeof text, "at 0.1 Gbit/s 3-D takes %.2f of 1-D's time per sequence at batches 192 : 60, %.2f at equal batches (published %.2f)%s; ", at_slowest.mean, equal_at_slowest.mean, published,
                at_slowest.mean > 1 ? "" : "; bytes say the same, which supports the suspicion that the published 8-GPU row of 1-D was carried over from 4 other GPUs");
  found.note = text + out.note();
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C8",
     .statement = "On 8 GPUs 3-D is slower per sequence than 1-D.",
     .provenance = "read: 3-D weak scaling, rows of 8 GPUs (0.580 s against 0.341 s); scaled to hidden 256, one layer",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .rule = with_arms({.settings = {{"link", emulated_links(links)}, {"compute", "timed alone, replayed"}},
                        .quantities = {{"ratio", "step per sequence of 3-D (gradient gathered twice) over that of 1-D at the slowest link and batches 64 : 20 (the published 192 : 60), in each repetition; mean and "
                                                 "Student's 95 % interval over repetitions, which differ in the seed of weights and inputs. " + left_out_rule()}},
                        .constants = {{"even", 1, "x: neither is faster"}, {"worth", worth, "of a step: a smaller difference is not worth naming"}},
                        .scatter = {{"ratio", "even", "worth"}},
                        .clauses = {{Verdict::confirmed, "ratio.low >= even + worth"}, {Verdict::direction_only, "ratio.low > even"}, {Verdict::not_reproduced, "ratio.high < even + worth"}},
                        .smallest_effect = "worth"},
                       named()),
     .seeds = {3, 6},
     .measure = measure,
     .past = {{"2026-11-21", "points that the emulated link does not carry (1-D over 1.25 times the model's step) are left out", "the first run of C14b judged 18 points, most of which these cores cannot move in the time; C8's first run had 1.10 at 10 Gbit/s and equal batches, which was left out from then on"},
              {"2026-11-22", "a point is left out as a whole where any scheme, not only 1-D, is so late", "a filter of 1-D alone favours the others"},
              {"2026-11-22", "3 and 6 repetitions with an interval, and a smallest effect of 5 %; it was the sign of one run", "0.97 of one run lay within 3 % of the threshold"}},
     .figure = "tensor_parallel_links"});

}  // namespace
}  // namespace thinwire::claims
