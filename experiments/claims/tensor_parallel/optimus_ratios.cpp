// tensor_parallel.C12: Optimus' two speed-ups at 64 GPUs, from the table that repeats its rows, and by the cost model.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double arithmetic_within = 0.01;
const std::string line_row = "1-D, 64 GPUs", square_row = "2-D, 64 GPUs";

struct Headline {
  double training, inference;
};
Headline headline_of(const Published& p) {
  const std::string row = "64 GPUs (TACC Frontera), over Megatron";
  return {p.read("Optimus", "headline", row, "training speed-up"), p.read("Optimus", "headline", row, "inference speed-up")};
}

Outcome judge_arithmetic(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(p);
  const Headline claimed = headline_of(p);
  const auto forward = [&](const std::string& row) { return weak.number(row, "forward time") / weak.number(row, "batch size"); };
  const double training = weak.own_average(line_row) / weak.own_average(square_row), inference = forward(line_row) / forward(square_row);
  Outcome o;
  o.measures = {{"training, 1-D / 2-D", training, no_number, no_number, claimed.training, "x"}, {"inference, 1-D / 2-D", inference, no_number, no_number, claimed.inference, "x"}};
  o.verdict = std::abs(training / claimed.training - 1) <= arithmetic_within && std::abs(inference / claimed.inference - 1) <= arithmetic_within ? Verdict::confirmed : Verdict::refuted;
  char text[256];
  std::snprintf(text, sizeof text, "the 3-D paper's 1-D and 2-D rows give %.3f and %.3f, at batches %.0f and %.0f; they divide to the rows of Optimus' own table (recollected), so this is no second measurement",
                training, inference, weak.number(line_row, "batch size"), weak.number(square_row, "batch size"));
  o.because = text;
  return o;
}

Outcome judge_model(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(p);
  const Headline claimed = headline_of(p);
  const SizedRun line = weak.run(line_row), square = weak.run(square_row);
  const std::vector<Assumption> points = calibrated(machine_box(), line, weak.average(line_row));
  const PairOfRatios pair = judge_pair(
      points, [&](const Assumption& a) { return step_seconds(a, line) / step_seconds(a, square); }, claimed.training,
      [&](const Assumption& a) { return forward_seconds(a, line) / forward_seconds(a, square); }, claimed.inference);
  Outcome o;
  o.verdict = pair.verdict;
  o.measures = {{"training, 1-D / 2-D", pair.first, pair.first_range.low, pair.first_range.high, claimed.training, "x"},
                {"inference, 1-D / 2-D", pair.second, pair.second_range.low, pair.second_range.high, claimed.inference, "x"},
                {"distance of the nearest machine from both", pair.distance, no_number, no_number, 0.15, "of the ratio"}};
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
  o.because = text;
  o.tables.push_back(std::move(table));
  return o;
}

const bool registered = register_claim({.id = "tensor_parallel.C12a",
                                        .statement = "Optimus trains 1.48x and infers 1.78x as fast as Megatron at 64 GPUs, by the published rows.",
                                        .provenance = "read: abstract of 2104.05343; the rows are read in a picture of the 3-D paper's table",
                                        .rule = "CONFIRMED if the ratios of the 1-D and 2-D rows at 64 GPUs are within 1 % of the headline's",
                                        .basis = Basis::published,
                                        .judge = judge_arithmetic});
const bool registered_too = register_claim(
    {.id = "tensor_parallel.C12b",
     .statement = "Optimus trains 1.48x and infers 1.78x as fast as Megatron at 64 GPUs, by the cost model.",
     .provenance = "read: abstract of 2104.05343; shapes read in a picture of the 3-D paper's table, machine and sequence length derived",
     .rule = "machines of C6: CONFIRMED if one of them gives both ratios within 15 %; DIRECTION ONLY if both are above 1 on all; REFUTED if one is at most 1 on all",
     .basis = Basis::cost_model,
     .judge = judge_model});

}  // namespace
}  // namespace thinwire::claims
