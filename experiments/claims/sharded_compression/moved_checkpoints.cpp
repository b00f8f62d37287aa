// sharded_compression.C23: what a checkpoint of sharded training holds fits another sharding, and the same one goes on as if nothing had happened, codecs' memory included. A cell trains its first steps
// under one layout, saves, and goes on from the file under its own (--moved-at); it is compared with a training that was never interrupted, from there on. In float64 nothing is coded (the trainer refuses),
// so what is coded is moved in float32: full-precision weights and moments arrive alike in two other layouts that go on dense. qWD is ZeRO-2's here, whose ranks hold the model that was sent; stage 3 refuses codecs
// of the weights that remember (docs/papers/sharded_compression.md, "Where our rules differ"), and moves with error feedback of its gradients. Controls: the same move in float32, and codecs begun anew.
#include <algorithm>
#include <cmath>

#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr int ranks = 4, moved_at = 4, steps = 8;
const std::string feedback = "group:bits=4,group=128+ef", differences = "group:bits=4,group=2048+ef21";

Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings.insert_or_assign(name, value);
  return settings;
}

const Settings shared = {{"steps", std::to_string(steps)}, {"global-batch", "16"}, {"layers", "2"}, {"dropout", "0.1"}, {"dtype", "f64"}};
const Settings f32 = {{"dtype", "f32"}};
const Settings zero3 = {{"zero-stage", "3"}, {"dp", "4"}, {"pp", "1"}}, zero2 = {{"zero-stage", "2"}, {"dp", "4"}, {"pp", "1"}}, zero1_stages = {{"zero-stage", "1"}, {"dp", "2"}, {"pp", "2"}};
const Settings coded_gradients = {{"compress.grad_reduce_scatter", feedback}}, all_coded = with(coded_gradients, {{"compress.param_all_gather", differences}});
// Codecs begin anew where rules differ: here in words alone, for without a pipeline stage 0 is all of them.
const Settings anew = {{"codec-state", "reset"}}, worded = {{"compress.grad_reduce_scatter.stages", "0"}};
const Settings dense = {{"compress.grad_reduce_scatter", "none"}, {"compress.param_all_gather", "none"}, {"codec-state", "reset"}};

/// A training under `to` whose first steps ran under `from`.
CellRequest moved(const Settings& from, const Settings& to) {
  std::string there;
  for (const auto& [name, value] : from) there += (there.empty() ? "" : " ") + name + "=" + value;
  return training(ranks, with(with(shared, to), {{"moved-at", std::to_string(moved_at)}, {"moved-from", there}}));
}

enum Arm { straight, moves, moves_f32, straight_f32, coded, coded_again, coded_anew, stage3, stage3_again, dense_here, dense_there, count };

std::vector<NamedRequest> all_arms() {
  const Settings coded_zero2 = with(with(f32, zero2), all_coded), coded_zero3 = with(with(f32, zero3), coded_gradients);
  std::vector<NamedRequest> arms(count);
  arms[straight] = {"ZeRO-3 on 4 replicas, f64", training(ranks, with(shared, zero3))};
  arms[moves] = {"the same, moved to ZeRO-1, 2 replicas of 2 stages", moved(zero3, zero1_stages)};
  arms[straight_f32] = {"control: ZeRO-3 on 4 replicas, f32", training(ranks, with(with(shared, zero3), f32))};
  arms[moves_f32] = {"control: the same, moved likewise", moved(zero3, with(zero1_stages, f32))};
  arms[coded] = {"ZeRO-2, weight differences and error feedback", training(ranks, with(shared, coded_zero2))};
  arms[coded_again] = {"the same from its checkpoint", moved(coded_zero2, coded_zero2)};
  arms[coded_anew] = {"control: the same from its checkpoint, codecs begun anew", moved(with(coded_zero2, worded), with(coded_zero2, anew))};
  arms[stage3] = {"ZeRO-3, error feedback", training(ranks, with(shared, coded_zero3))};
  arms[stage3_again] = {"the same from its checkpoint (ZeRO-3)", moved(coded_zero3, coded_zero3)};
  arms[dense_here] = {"coded ZeRO-2, moved to dense ZeRO-3 on 4 replicas", moved(coded_zero2, with(with(f32, zero3), dense))};
  arms[dense_there] = {"coded ZeRO-2, moved to dense ZeRO-3, 2 replicas of 2 stages", moved(coded_zero2, with(with(f32, zero3), with(dense, {{"dp", "2"}, {"pp", "2"}})))};
  return arms;
}

/// Distance of what both trained after the move; infinite where one has not all of these steps.
double apart(results::CellRecord a, results::CellRecord b) {
  for (results::CellRecord* record : {&a, &b}) {
    std::erase_if(record->training.curve, [](const results::TrainingCurveRow& row) { return row.step < moved_at; });
    if (record->training.curve.size() != steps - moved_at) return std::numeric_limits<double>::infinity();
  }
  return distance(a, b);
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::vector<CellRequest> requests;
  for (const NamedRequest& arm : all_arms()) requests.push_back(arm.request);
  const std::vector<results::CellRecord> r = context.cells.run(requests);
  const double bound = rule.constant("bound"), rounding = rule.constant("rounding");
  const double again = std::max(apart(r[coded_again], r[coded]), apart(r[stage3_again], r[stage3]));
  Finding found;
  found.measures = {{"f64, from ZeRO-3 to ZeRO-1 in 2 stages: largest relative difference of a loss or norm", apart(r[moves], r[straight]), no_number, no_number, bound, "", "elsewhere"},
                    {"coded, from their own checkpoints: the same", again, no_number, no_number, 0, "", "again"},
                    {"coded ZeRO-2, to dense ZeRO-3 in two layouts: between these", apart(r[dense_there], r[dense_here]), no_number, no_number, rounding, "", "dense"},
                    {"control: f32, from ZeRO-3 to ZeRO-1 in 2 stages", apart(r[moves_f32], r[straight_f32]), no_number, no_number, bound, "", "rounded"},
                    {"control: coded, codecs begun anew", apart(r[coded_anew], r[coded]), no_number, no_number, no_number, "", "forgot"}};
  Table table{"loss after the move", {}, {}};
  for (int step = moved_at; step < steps; ++step) table.columns.push_back("step " + std::to_string(step));
  for (std::size_t arm = 0; arm < r.size(); ++arm) {
    Table::Row& row = table.rows.emplace_back(Table::Row{all_arms()[arm].name, {}});
    for (const results::TrainingCurveRow& at : r[arm].training.curve)
      if (at.step >= moved_at) row.values.push_back(at.loss);
  }
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  const Rule rule = with_arms({.quantities = {{"elsewhere", "largest relative difference of a step's loss or gradient norm, or of the validation loss, after the move, from the training that was not moved: float64, "
                                                            "ZeRO-3 on 4 replicas to ZeRO-1 on 2 replicas of 2 stages"},
                                              {"again", "the same of coded trainings that go on from their own checkpoints in the same layout, the larger"},
                                              {"dense", "the same between two layouts in which a coded training goes on dense"},
                                              {"rounded", "as elsewhere, in float32"},
                                              {"forgot", "as again, with codecs begun anew"}},
                               .constants = {{"bound", 1e-10, "relative: rounding of float64"}, {"rounding", 1e-5, "relative: of float32"}, {"same", 0, "equal bits"}},
                               .clauses = {{Verdict::invalid, "rounded <= bound || forgot == same"}, {Verdict::pass, "elsewhere <= bound && again == same && dense <= rounding"}},
                               .otherwise = Verdict::fail},
                              all_arms());
  return {.id = "sharded_compression.C23",
          .statement = "Checkpoints move between shardings.",
          .provenance = "derived",
          .basis = Basis::exact,
          .from = Profile::quick,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); }};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
