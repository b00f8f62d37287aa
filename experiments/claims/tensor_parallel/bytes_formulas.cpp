// tensor_parallel.C5a: elements that a rank of 64 receives under each scheme, by the formulas that the counters are held against (C4, C5b), and
// the batches from which a grid sends less than 1-D.
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr int ranks = 64;

struct Scheme {
  std::string name;
  GridShape shape;
  GridCostOptions options;
};

std::vector<Scheme> schemes_of(int p) {
  std::vector<Scheme> all;
  for (const GridShape& shape : grids_of(p)) {
    if (shape.kind != GridKind::three_d) {
      all.push_back({shape.describe(), shape, {}});
      continue;
    }
    for (const GatherPolicy policy : {GatherPolicy::keep, GatherPolicy::again, GatherPolicy::again_literally}) {
      GridCostOptions options;
      options.gather = policy;
      all.push_back({shape.describe() + ", gather " + name_of(policy), shape, options});
    }
  }
  return all;
}

/// Million elements per sequence and layer, forward and backward.
double millions(const Scheme& s, double batch, double seq, double hidden, bool recompute, BroadcastForm form = BroadcastForm::pipelined) {
  GridCostOptions options = s.options;
  options.broadcast = form;
  return layer_cost(s.shape, {batch, seq, hidden, 1}, options).step(recompute).time_elements / batch * 1e-6;
}

const char* name_of_passes(bool recompute) { return recompute ? "with recomputation" : "no recomputation"; }

Finding measure(JudgeContext& context) {
  const Published published = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(published);
  const SizedRun line = weak.run("1-D, 64 GPUs"), square = weak.run("2-D, 64 GPUs");
  const double hidden = line.hidden;
  const std::vector<Scheme> schemes = schemes_of(ranks);
  Finding found;
  Table table{"million elements per sequence and layer at 64 ranks", {"s", "recomputation"}, {}};
  for (const Scheme& s : schemes) table.columns.push_back(s.name);
  table.columns.push_back("2d 8x8, time along trees");
  double thickest = 0, widest_square = 0;
  const auto add_row = [&](const std::string& label, double seq, bool recompute, const std::function<double(GridKind)>& batch_of) {
    std::vector<double> row = {seq, recompute ? 1.0 : 0.0};
    double one = no_number, two = no_number;
    const bool judged = label.rfind("batches", 0) == 0;
    for (const Scheme& s : schemes) {
      const double value = millions(s, batch_of(s.shape.kind), seq, hidden, recompute);
      row.push_back(value);
      if (s.shape.kind == GridKind::one_d) one = value;
      if (s.shape.kind == GridKind::two_d) two = value;
      if (s.shape.kind == GridKind::three_d && judged) thickest = std::max(thickest, value / two);
    }
    if (judged) widest_square = std::max(widest_square, two / one);
    row.push_back(millions({"", square.shape, {}}, batch_of(GridKind::two_d), seq, hidden, recompute, BroadcastForm::tree));
    table.rows.push_back({label, std::move(row)});
  };
  for (const double seq : {512.0, 1024.0})
    for (const bool recompute : {false, true}) {
      const std::string where = ", s = " + std::to_string(static_cast<int>(seq)) + ", " + name_of_passes(recompute);
      add_row("batches 30 / 384 / 384" + where, seq, recompute, [&](GridKind kind) { return kind == GridKind::one_d ? line.batch : square.batch; });
      for (const double batch : {16.0, 32.0, 64.0, 384.0})
        add_row("equal batch " + std::to_string(static_cast<int>(batch)) + where, seq, recompute, [=](GridKind) { return batch; });
    }

  Table crossings{"batch below which a grid receives more than 1-D", {"ranks", "s = 512, no recomputation", "s = 512, with recomputation", "s = 1024, no recomputation"}, {}};
  for (const int p : {4, 8, 16, 27, 32, 36, 64})
    for (const Scheme& s : schemes_of(p)) {
      if (s.shape.kind == GridKind::one_d) continue;
      const auto cross = [&](double seq, bool recompute) { return crossover_batch(s.shape, seq, hidden, s.options, recompute); };
      crossings.rows.push_back({s.name, {static_cast<double>(p), cross(512, false), cross(512, true), cross(1024, false)}});
      if (p == ranks) found.measures.push_back({"batch below which " + s.name + " receives more than 1-D (s = 512)", cross(512, false), no_number, no_number, no_number, "sequences"});
    }

  // What the figure of bytes against batch and against rank count draws.
  Table over_batch{"million elements over the batch, 64 ranks", {"batch"}, {}};
  for (const Scheme& s : schemes) over_batch.columns.push_back(s.name);
  for (double batch = 1; batch <= 1024; batch *= 2) {
    std::vector<double> row = {batch};
    for (const Scheme& s : schemes) row.push_back(millions(s, batch, 512, hidden, false));
    over_batch.rows.push_back({"b = " + std::to_string(static_cast<int>(batch)), std::move(row)});
  }
  Table over_ranks{"million elements over ranks, batch 32", {"ranks", "million elements"}, {}};
  for (const int p : {2, 4, 8, 9, 12, 16, 18, 25, 27, 32, 36, 48, 49, 64, 100, 125, 128, 144, 216, 256})
    for (const Scheme& s : schemes_of(p)) over_ranks.rows.push_back({s.name, {static_cast<double>(p), millions(s, 32, 512, hidden, false)}});

  found.measures.push_back({"largest 3-D / 2-D at the paper's batches", thickest, no_number, no_number, 1 - fewer, "ratio", "cube"});
  found.measures.push_back({"largest 2-D / 1-D at the paper's batches", widest_square, no_number, no_number, 1 - fewer, "ratio", "square"});
  char text[256];
  std::snprintf(text, sizeof text, "3-D receives at most %.2f of what 2-D receives and 2-D at most %.2f of 1-D at the paper's batches; 2-D needs a batch of %.1f (s = 512) to receive less than 1-D",
                thickest, widest_square, crossover_batch(square.shape, 512, hidden, {}));
  found.note = text;
  found.tables = {std::move(table), std::move(crossings), std::move(over_batch), std::move(over_ranks)};
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C5a",
     .statement = "A rank receives less under 3-D than under 2-D, and less under 2-D than under 1-D, at 64 ranks and the paper's shapes, by the formulas.",
     .provenance = "read: that 3-D communicates least (abstract page of 2105.14450), batches and hidden size (a picture of its table); sequence length and formulas derived",
     .basis = Basis::cost_model,
     .rule = order_rule({{"ranks", std::to_string(ranks)}, {"batches and hidden size", "of the 64-GPU rows of the 3-D paper's table of weak scaling"}, {"sequence", "512 and 1024"},
                           {"backward", "kept, gathered again once and literally, with and without recomputation"}}, {},
                        "elements that a rank receives per sequence and layer under 3-D over those under 2-D, by the formulas that counters are held against (C4), the largest of all settings"),
     .measure = measure,
     .past = {order_was_thin()},
     .figure = "tensor_parallel_bytes"});

}  // namespace
}  // namespace thinwire::claims
