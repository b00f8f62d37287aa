// tensor_parallel.C10a, C10c: what Tesseract's table of strong scaling gives for its headline, pass by pass; and the table beside the model.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr const char *paper = "Tesseract", *artifact = "strong scaling";
const std::string best = "Tesseract, 64 GPUs, [4,4,4]", line = "Megatron-LM, 64 GPUs, [64]", square = "Optimus, 64 GPUs, [8,8]";
constexpr double half = 0.005;  // of the last digit that the headline prints
constexpr double tflops_of_a100 = 19.5;  // fp32, vendor's data sheet; the card is second-hand

/// `faster` over `slower` where a higher number is better; times are inverted.
double ratio(const Published& p, const std::string& column, bool time, const std::string& other) {
  const double a = p.read(paper, artifact, best, column), b = p.read(paper, artifact, other, column);
  return time ? b / a : a / b;
}

double headline(const Published& p, bool over_line) {
  return p.read(paper, "headline", "64 GPUs", over_line ? "strong scaling over 1-D" : "strong scaling over 2-D");
}

void add_printed(Finding& found, const Published& p) {
  for (const bool over_line : {true, false})
    found.measures.push_back({std::string("headline over ") + (over_line ? "1-D" : "2-D"), headline(p, over_line), no_number, no_number, no_number, "x", over_line ? "printed_1d" : "printed_2d"});
}

/// The ratios `of` the table round to the headline's two decimals.
Rule rounds(const std::vector<std::pair<std::string, std::string>>& of) {
  Rule rule{.quantities = {{"printed_1d", "the headline over 1-D (results/published)"}, {"printed_2d", "the headline over 2-D (results/published)"}},
            .constants = {{"half", half, "x: half a unit of the last digit that the headline prints"}},
            .otherwise = Verdict::refuted};
  std::string all;
  for (const auto& [symbol, what] : of)
    for (const char* over : {"_1d", "_2d"}) {
      rule.quantities.push_back({symbol + over, what + (over[1] == '1' ? "1-D" : "2-D") + " at 64 GPUs, rows of the table of strong scaling"});
      all += (all.empty() ? "" : " && ") + ("abs(" + symbol + over + " - printed" + over + ") <= half");
    }
  rule.clauses = {{Verdict::confirmed, all}};
  return rule;
}

GridShape shape_of(const std::string& row) {
  const std::string sides = row.substr(row.find('[') + 1);
  int n[3] = {1, 1, 1};
  const int found = std::sscanf(sides.c_str(), "%d,%d,%d", &n[0], &n[1], &n[2]);
  if (found == 1) return {GridKind::one_d, {n[0], 1, 1}};
  return n[2] == 1 ? GridShape{GridKind::two_d, {n[0], n[1], 1}} : GridShape{GridKind::two_and_half_d, {n[0], n[1], n[2]}};
}

/// Machines that give Megatron's step at 64 GPUs within 25 %; the box as for C6, up to the fp32 rate of an A100.
Table modelled(const Published& p) {
  const auto run_of = [&](const std::string& row) { return SizedRun{shape_of(row), p.read(paper, artifact, row, "batch size"), p.read(paper, artifact, row, "hidden size")}; };
  const auto step_of = [&](const std::string& row) { return p.read(paper, artifact, row, "forward time") + p.read(paper, artifact, row, "backward time"); };
  const std::vector<Assumption> points = calibrated(machine_box(tflops_of_a100), run_of(line), step_of(line));
  Table table{"strong scaling, seconds per sequence",
              {"ranks", "depth", "batch", "published forward (s)", "published step (s)", "pipelined, low (s)", "pipelined, high (s)", "tree, low (s)", "tree, high (s)"}, {}};
  for (const std::string& row : p.rows(paper, artifact)) {
    const SizedRun run = run_of(row);
    Spread of[2];
    for (const Assumption& a : points) of[a.broadcast == BroadcastForm::tree].add(step_seconds(a, run));
    table.rows.push_back({row, {static_cast<double>(run.shape.ranks()), static_cast<double>(run.shape.sides[2]), run.batch, p.read(paper, artifact, row, "forward time"), step_of(row), of[0].low,
                                of[0].high, of[1].low, of[1].high}});
  }
  return table;
}

Finding measure_forward(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  Finding found;
  for (const bool over_line : {true, false})
    for (const auto& [column, time] : {std::pair<const char*, bool>{"forward time", true}, {"inference", false}}) {
      const double value = ratio(p, column, time, over_line ? line : square), claimed = headline(p, over_line);
      found.measures.push_back({std::string(column) + " over " + (over_line ? "1-D" : "2-D"), value, no_number, no_number, claimed, "x", std::string(time ? "forward" : "inference") + (over_line ? "_1d" : "_2d")});
    }
  add_printed(found, p);
  char text[256];
  std::snprintf(text, sizeof text, "forward %.3f and %.3f, inference %.3f and %.3f; the [4,4,4] row has batch %.0f, the others %.0f", found.measures[0].value, found.measures[2].value, found.measures[1].value,
                found.measures[3].value, p.read(paper, artifact, best, "batch size"), p.read(paper, artifact, line, "batch size"));
  found.note = text;
  found.tables.push_back(modelled(p));
  return found;
}

Finding measure_training(JudgeContext& context) {
  const Published p = Published::open(context, "tensor_parallel.csv");
  Finding found;
  for (const bool over_line : {true, false}) {
    const double value = ratio(p, "throughput", false, over_line ? line : square), claimed = headline(p, over_line);
    found.measures.push_back({std::string("throughput over ") + (over_line ? "1-D" : "2-D"), value, no_number, no_number, claimed, "x", over_line ? "throughput_1d" : "throughput_2d"});
  }
  add_printed(found, p);
  char text[200];
  std::snprintf(text, sizeof text, "training throughput is %.3f of 1-D and %.3f of 2-D; the headline's ratios are those of forward passes (C10a)", found.measures[0].value, found.measures[1].value);
  found.note = text;
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.C10a",
                                        .statement = "Tesseract's strong scaling is 1.38x of 1-D and 1.53x of 2-D at 64 GPUs, forward and in inference.",
                                        .provenance = "read: abstract, and a picture of the paper's table",
                                        .basis = Basis::published,
                                        .rule = rounds({{"forward", "time of the forward pass, Tesseract's [4,4,4] against "}, {"inference", "inference throughput, Tesseract's [4,4,4] against "}}),
                                        .measure = measure_forward,
                                        .figure = "tensor_parallel_tesseract"});
const bool registered_too = register_claim({.id = "tensor_parallel.C10c",
                                            .statement = "Tesseract's strong scaling is 1.38x of 1-D and 1.53x of 2-D at 64 GPUs in training throughput.",
                                            .provenance = "derived: the headline (read, abstract) applied to the throughput of the table (read, a picture of it)",
                                            .basis = Basis::published,
                                            .rule = rounds({{"throughput", "training throughput, Tesseract's [4,4,4] against "}}),
                                            .measure = measure_training});

}  // namespace
}  // namespace thinwire::claims
