// tensor_parallel.C6: the 3-D paper's two speed-ups at 64 ranks by the cost model, over all machines that give its 1-D step; and what its own
// table gives for them. "At 64 GPUs" of docs/tensor-parallel.md is printed from these tables.
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

const std::string line_row = "1-D, 64 GPUs", square_row = "2-D, 64 GPUs", cube_row = "3-D, 64 GPUs";

SizedRun with_batch(SizedRun run, double batch) {
  run.batch = batch;
  return run;
}

Finding measure(JudgeContext& context) {
  const Published published = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(published);
  const double over_line = published.read("3-D", "headline", "64 V100 (TACC)", "speed-up over 1-D"),
               over_square = published.read("3-D", "headline", "64 V100 (TACC)", "speed-up over 2-D");
  const SizedRun line = weak.run(line_row), square = weak.run(square_row), cube = weak.run(cube_row);
  const std::vector<Assumption> points = calibrated(machine_box(), line, weak.average(line_row));
  const auto first = [&](const Assumption& a) { return step_seconds(a, line) / step_seconds(a, cube); };
  const auto second = [&](const Assumption& a) { return step_seconds(a, square) / step_seconds(a, cube); };
  const PairOfRatios pair = pair_of_ratios(points, first, over_line, second, over_square);

  Finding found;
  found.measures = measures_of(pair, "1-D / 3-D by the model", over_line, "2-D / 3-D by the model", over_square);
  for (const Measure& m : std::vector<Measure>{
                {"1-D / 3-D, the table's averages", weak.average(line_row) / weak.average(cube_row), no_number, no_number, over_line, "x"},
                {"1-D / 3-D, the table's forward + backward", weak.own_average(line_row) / weak.own_average(cube_row), no_number, no_number, over_line, "x"},
                {"2-D / 3-D, the table's averages", weak.average(square_row) / weak.average(cube_row), no_number, no_number, over_square, "x"},
                {"2-D / 3-D, the table's forward + backward", weak.own_average(square_row) / weak.own_average(cube_row), no_number, no_number, over_square, "x"}})
    found.measures.push_back(m);

  // What the two ratios depend on, one choice at a time.
  Table ratios{"ratios by choice", {"1-D / 3-D, low", "1-D / 3-D, high", "2-D / 3-D, low", "2-D / 3-D, high", "machines"}, {}};
  const auto choice = [&](const std::string& label, const std::function<bool(const Assumption&)>& holds, bool recompute = true) {
    std::vector<Assumption> some;
    for (Assumption a : machine_box()) {
      a.recompute = recompute;
      if (holds(a)) some.push_back(a);
    }
    some = calibrated(some, line, weak.average(line_row));
    const Spread a = spread_of(some, first), b = spread_of(some, second);
    ratios.rows.push_back({label, {a.low, a.high, b.low, b.high, static_cast<double>(some.size())}});
  };
  for (const BroadcastForm form : {BroadcastForm::pipelined, BroadcastForm::tree})
    for (const GatherPolicy policy : {GatherPolicy::keep, GatherPolicy::again, GatherPolicy::again_literally})
      choice(name_of(form) + ", gather " + name_of(policy), [=](const Assumption& a) { return a.broadcast == form && a.gather == policy; });
  choice("pipelined, no recomputation", [](const Assumption& a) { return a.broadcast == BroadcastForm::pipelined; }, false);
  choice("tree, no recomputation", [](const Assumption& a) { return a.broadcast == BroadcastForm::tree; }, false);
  for (const double batch : {32.0, 384.0}) {
    const auto equal_first = [&](const Assumption& a) { return step_seconds(a, with_batch(line, batch)) / step_seconds(a, with_batch(cube, batch)); };
    const auto equal_second = [&](const Assumption& a) { return step_seconds(a, with_batch(square, batch)) / step_seconds(a, with_batch(cube, batch)); };
    const Spread a = spread_of(points, equal_first), b = spread_of(points, equal_second);
    const std::string label = "equal batch " + std::to_string(static_cast<int>(batch));
    ratios.rows.push_back({label, {a.low, a.high, b.low, b.high, static_cast<double>(points.size())}});
    found.measures.push_back({"1-D / 3-D at " + label, first(pair.nearest), a.low, a.high, no_number, "x"});
    found.measures.back().value = equal_first(pair.nearest);
    found.measures.push_back({"2-D / 3-D at " + label, equal_second(pair.nearest), b.low, b.high, no_number, "x"});
  }
  // The link fitted exactly to the 1-D row, at the speeds that a V100 may reach.
  Table fitted{"link fitted to the 1-D row", {"TFLOP/s", "link (GB/s)", "1-D / 3-D", "2-D / 3-D"}, {}};
  for (const double tflops : {8.0, 15.7})
    for (const BroadcastForm form : {BroadcastForm::pipelined, BroadcastForm::tree})
      for (const GatherPolicy policy : {GatherPolicy::keep, GatherPolicy::again, GatherPolicy::again_literally}) {
        const Assumption a = fitted_link({{5, 0, tflops, 4}, 512, form, policy}, line, weak.average(line_row));
        char label[96];
        std::snprintf(label, sizeof label, "%s, gather %s, %g TFLOP/s", name_of(form).c_str(), name_of(policy).c_str(), tflops);
        fitted.rows.push_back({label, {tflops, a.machine.gigabytes_per_second, first(a), second(a)}});
      }
  Table times{"64 ranks, seconds per sequence", {"batch", "published average (s)", "published (f+b)/batch (s)", "pipelined, low (s)", "pipelined, high (s)", "tree, low (s)", "tree, high (s)"}, {}};
  const auto time_row = [&](const std::string& row, double batch) {
    const bool published_batch = batch == weak.run(row).batch;
    const SizedRun run = with_batch(weak.run(row), batch);
    Spread of[2];
    for (const Assumption& a : points) of[a.broadcast == BroadcastForm::tree].add(step_seconds(a, run));
    times.rows.push_back({row.substr(0, 3), {batch, published_batch ? weak.average(row) : no_number, published_batch ? weak.own_average(row) : no_number, of[0].low, of[0].high,
                                              of[1].low, of[1].high}});
  };
  for (const std::string& row : {line_row, square_row, cube_row}) time_row(row, weak.run(row).batch);
  for (const double batch : {32.0, 384.0})
    for (const std::string& row : {line_row, square_row, cube_row}) time_row(row, batch);
  found.tables = {std::move(times), std::move(ratios), std::move(fitted)};

  char text[512];
  std::snprintf(text, sizeof text,
                "%zu machines give the 1-D step of %.3f s within 25 %%; over them 1-D/3-D is %.2f to %.2f and 2-D/3-D %.2f to %.2f; the nearest (%s) gives %.2f and %.2f, %.0f %% off; the table's own "
                "forward and backward times give %.2f and %.2f",
                points.size(), weak.average(line_row), pair.first_range.low, pair.first_range.high, pair.second_range.low, pair.second_range.high, describe(pair.nearest).c_str(), pair.first,
                pair.second, 100 * pair.distance, weak.own_average(line_row) / weak.own_average(cube_row), weak.own_average(square_row) / weak.own_average(cube_row));
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C6",
     .statement = "3-D is 2.32x faster than 1-D and 1.57x faster than 2-D per sequence at 64 GPUs.",
     .provenance = "read: abstract page of 2105.14450 and a picture of its table; layers, sequence and precision of its runs not known, those of the model derived",
     .basis = Basis::cost_model,
     .rule = pair_rule("step of 1-D over that of 3-D, per sequence, at 64 ranks and the paper's batches, over machines with 5 to 15.7 TFLOP/s, 1 to 25 GB/s, 5 to 50 us, sequences of 512 and 1024, "
                       "pipelined and tree broadcasts, kept and repeated gathers, 24 layers with recomputation",
                       "the same of 2-D over 3-D"),
     .not_validated = not_validated_terms,
     .measure = measure,
     .past = {became_model_only()},
     .figure = "tensor_parallel_at_64"});

}  // namespace
}  // namespace thinwire::claims
