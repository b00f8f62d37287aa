// tensor_parallel.C12: Optimus' two speed-ups at 64 GPUs, from the table that repeats its rows, and by the cost model.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double half = 0.005;  // of the last digit that the abstract prints
const std::string line_row = "1-D, 64 GPUs", square_row = "2-D, 64 GPUs";

struct Headline {
  double training, inference;
};
Headline headline_of(const Published& p) {
  const std::string row = "64 GPUs (TACC Frontera), over Megatron";
  return {p.read("Optimus", "headline", row, "training speed-up"), p.read("Optimus", "headline", row, "inference speed-up")};
}

Finding measure_arithmetic(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(p);
  const Headline claimed = headline_of(p);
  const auto forward = [&](const std::string& row) { return weak.number(row, "forward time") / weak.number(row, "batch size"); };
  const double training = weak.own_average(line_row) / weak.own_average(square_row), inference = forward(line_row) / forward(square_row);
  Finding found;
  found.measures = {{"training, 1-D / 2-D", training, no_number, no_number, claimed.training, "x", "training"}, {"inference, 1-D / 2-D", inference, no_number, no_number, claimed.inference, "x", "inference"}};
  found.measures.push_back({"training, printed", claimed.training, no_number, no_number, no_number, "x", "printed_training"});
  found.measures.push_back({"inference, printed", claimed.inference, no_number, no_number, no_number, "x", "printed_inference"});
  char text[256];
  std::snprintf(text, sizeof text, "the 3-D paper's 1-D and 2-D rows give %.3f and %.3f, at batches %.0f and %.0f; they divide to the rows of Optimus' own table (recollected), so this is no second measurement",
                training, inference, weak.number(line_row, "batch size"), weak.number(square_row, "batch size"));
  found.note = text;
  return found;
}

Finding measure_model(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(p);
  const Headline claimed = headline_of(p);
  const SizedRun line = weak.run(line_row), square = weak.run(square_row);
  const std::vector<Assumption> points = calibrated(machine_box(), line, weak.average(line_row));
  const PairOfRatios pair = pair_of_ratios(
      points, [&](const Assumption& a) { return step_seconds(a, line) / step_seconds(a, square); }, claimed.training,
      [&](const Assumption& a) { return forward_seconds(a, line) / forward_seconds(a, square); }, claimed.inference);
  Finding found;
  found.measures = measures_of(pair, "training, 1-D / 2-D", claimed.training, "inference, 1-D / 2-D", claimed.inference);
  Table table{"ratios by broadcast", {"training, low", "training, high", "inference, low", "inference, high"}, {}};
  for (const BroadcastForm form : {BroadcastForm::pipelined, BroadcastForm::tree}) {
    Spread training, inference;
    for (const Assumption& a : points)
      if (a.broadcast == form) training.add(step_seconds(a, line) / step_seconds(a, square)), inference.add(forward_seconds(a, line) / forward_seconds(a, square));
    table.rows.push_back({name_of(form), {training.low, training.high, inference.low, inference.high}});
  }
  char text[400];
  std::snprintf(text, sizeof text, "over %zu machines that give the 1-D step, training is %.2f to %.2f and inference %.2f to %.2f (pipelined %.2f to %.2f, trees %.2f to %.2f in training); the nearest (%s) gives %.2f and %.2f, %.0f %% off",
                points.size(), pair.first_range.low, pair.first_range.high, pair.second_range.low, pair.second_range.high, table.rows[0].values[0], table.rows[0].values[1],
                table.rows[1].values[0], table.rows[1].values[1], describe(pair.nearest).c_str(), pair.first, pair.second, 100 * pair.distance);
  found.note = text;
  found.tables.push_back(std::move(table));
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.C12a",
                                        .statement = "Optimus trains 1.48x and infers 1.78x as fast as Megatron at 64 GPUs, by the published rows.",
                                        .provenance = "read: abstract of 2104.05343; the rows are read in a picture of the 3-D paper's table",
                                        .basis = Basis::published,
                                        .rule = {.quantities = {{"training", "(forward + backward) per sequence, 1-D over 2-D, rows of the table at 64 GPUs"},
                                                                {"inference", "the same of the forward time alone"},
                                                                {"printed_training", "training speed-up in Optimus' abstract (results/published)"},
                                                                {"printed_inference", "inference speed-up in Optimus' abstract (results/published)"}},
                                                 .constants = {{"half", half, "x: half a unit of the last digit that the abstract prints"}},
                                                 .clauses = {{Verdict::confirmed, "abs(training - printed_training) <= half && abs(inference - printed_inference) <= half"}},
                                                 .otherwise = Verdict::refuted},
                                        .measure = measure_arithmetic,
                                        .past = {{"2026-11-21", "the first rule allowed 1 % of the headline", "1.482 and 1.79 stood in the page by then; it is wider than what 1.78 and 1.79 differ by"},
                                                 {"2026-11-22", "the ratios must round to the printed digits", "the paper prints two decimals; 1.792 does not round to 1.78"}}});
const bool registered_too = register_claim(
    {.id = "tensor_parallel.C12b",
     .statement = "Optimus trains 1.48x and infers 1.78x as fast as Megatron at 64 GPUs, by the cost model.",
     .provenance = "read: abstract of 2104.05343; shapes read in a picture of the 3-D paper's table, machine and sequence length derived",
     .basis = Basis::cost_model,
     .rule = pair_rule("step of 1-D over that of 2-D, per sequence, at 64 ranks and the paper's batches, over the machines of C6", "the same of the forward pass alone"),
     .not_validated = not_validated_terms,
     .measure = measure_model,
     .past = {became_model_only()}});

}  // namespace
}  // namespace thinwire::claims
