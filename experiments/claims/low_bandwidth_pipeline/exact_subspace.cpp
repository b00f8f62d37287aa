// low_bandwidth_pipeline.C5 and C6: a model whose residual stream stays in a subspace loses nothing at its boundaries, and its two forms are the same model under plain descent. In float64.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/subspace_network.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

const SubspaceSizes sizes;
constexpr int coded_steps = 100, forms_steps = 50;
constexpr double rate = 0.003, descent_rate = 0.1;

class Text {
 public:
  Batch operator()(int step) const { return batches_.batch(static_cast<std::uint64_t>(step), 0, 1, sizes.seq); }

 private:
  Corpus corpus_ = Corpus::open("");
  BatchSampler batches_{corpus_.training(), sizes.seed, "data.training"};
};

std::map<std::string, std::string> settings(const std::string& training) {
  return {{"model",
           "GPT of race-s: 4 layers, hidden 64, 4 heads, sequences of 64 bytes, one a step, f64; every layer but the last, the table (less a fixed row for each byte) and the positions write into a "
           "span of " +
               std::to_string(sizes.rank) + " dimensions; a boundary in front of each layer but the first"},
          {"training", training}};
}

Finding measure_exactness(JudgeContext& context) {
  context.cells.about_to_calculate("a training of a subspace network in this process (seconds)");
  const Text text;
  SubspaceNetwork network(sizes, SubspaceForm::reparametrised);
  double off_span = 0, trained = 0, fixed = INFINITY, boundary = INFINITY, loss = 0;
  for (int step = 0; step < coded_steps; ++step) {
    const Batch batch = text(step);
    const SubspacePass coded = network.pass(batch, true);
    std::map<std::string, Doubles> of_coded = network.gradients();
    const SubspacePass whole = network.pass(batch, false);
    std::map<std::string, Doubles> of_whole = network.gradients();
    const auto part = [&](std::map<std::string, Doubles>& from) { return std::map<std::string, Doubles>{{"fixed", std::move(from.extract("fixed").mapped())}}; };
    fixed = std::min(fixed, distance(part(of_coded), part(of_whole)));  // and what is left was trained
    for (const auto& [name, gradient] : of_whole) trained = std::max(trained, distance({{name, of_coded.at(name)}}, {{name, gradient}}));
    off_span = std::max({off_span, coded.off_span, whole.off_span});
    boundary = std::min(boundary, distance({{"", coded.boundary_gradient}}, {{"", whole.boundary_gradient}}));
    loss = whole.loss;
    network.adamw(rate);
  }
  Finding found;
  found.measures = {{"part of an activation outside the span, over the activation, most", off_span, no_number, no_number, 1e-12, "", "off_span"},
                    {"gradients of a trained parameter with the codec from those without, most", trained, no_number, no_number, 1e-10, "relative", "trained"},
                    {"gradient of the activation at the first boundary, least", boundary, no_number, no_number, 1e-3, "relative", "boundary"},
                    {"control: gradient of the fixed rows, least", fixed, no_number, no_number, 1e-3, "relative", "fixed"},
                    {"loss in the last step", loss, no_number, no_number, no_number, "nats per token"}};
  return found;
}

const bool exact =
    register_claim({.id = "low_bandwidth_pipeline.C5",
                    .statement = "A subspace codec is exact but for rounding: no trained parameter's gradient changes.",
                    .provenance = "derived",
                    .basis = Basis::exact,
                    .rule = {.settings = settings("reparametrised, 100 steps of AdamW at 0.003; every batch passes twice, with U^T (x - F) and U^T g at the boundaries and with nothing coded"),
                             .quantities = {{"off_span", "part of x - F[token] outside the span over x, largest of rows, boundaries and steps"},
                                            {"trained", "distance of the gradients with and without the codec over the gradient, largest of all trained parameters and steps"},
                                            {"boundary", "the same of the gradient by the activation in front of the second layer, least of the steps"},
                                            {"fixed", "control: the same of the gradient by the fixed rows F, which a training of them would use, least of the steps"}},
                             .constants = {{"rounding", 1e-12, "of an activation"}, {"agrees", 1e-10, "relative"}, {"differs", 1e-3, "relative"}},
                             .clauses = {{Verdict::pass, "off_span <= rounding && trained <= agrees && boundary > differs && fixed > differs"}},
                             .otherwise = Verdict::fail},
                    .measure = measure_exactness});

/// Distance of the two forms' weights after the steps, and of their losses, mean of the last ten steps.
std::pair<double, double> apart(const Text& text, void (SubspaceNetwork::*step)(double), double by) {
  SubspaceNetwork one(sizes, SubspaceForm::reparametrised), other(sizes, SubspaceForm::constrained);
  double losses = 0;
  for (int i = 0; i < forms_steps; ++i) {
    const Batch batch = text(i);
    const double first = one.pass(batch, false).loss, second = other.pass(batch, false).loss;
    if (i + 10 >= forms_steps) losses += (second - first) / 10;
    (one.*step)(by), (other.*step)(by);
  }
  return {distance(other.weights(), one.weights()), losses};
}

Finding measure_forms(JudgeContext& context) {
  context.cells.about_to_calculate("four trainings of a subspace network in this process (seconds)");
  const Text text;
  const auto descent = apart(text, &SubspaceNetwork::descend, descent_rate), adaptive = apart(text, &SubspaceNetwork::adamw, rate);
  Finding found;
  found.measures = {{"weights of the two forms after plain descent", descent.first, no_number, no_number, 1e-9, "relative", "descent"},
                    {"control: the same after AdamW", adaptive.first, no_number, no_number, 1e-6, "relative", "adaptive"},
                    {"L(constrained) - L(reparametrised) under AdamW, last ten steps", adaptive.second, no_number, no_number, no_number, "nats per token"}};
  return found;
}

const bool forms = register_claim({.id = "low_bandwidth_pipeline.C6",
                                   .statement = "The constrained form equals the reparametrised one.",
                                   .provenance = "derived",
                                   .basis = Basis::exact,
                                   .from = Profile::quick,
                                   .rule = {.settings = settings("50 steps of plain descent at 0.1, and of AdamW at 0.003, from the same start; biases and positions stay in the span in both forms"),
                                            .quantities = {{"descent", "distance of all weights of the two forms over the weights after plain descent"}, {"adaptive", "control: the same after AdamW"}},
                                            .constants = {{"agrees", 1e-9, "relative"}, {"differs", 1e-6, "relative"}},
                                            .clauses = {{Verdict::pass, "descent <= agrees && adaptive > differs"}},
                                            .otherwise = Verdict::fail},
                                   .measure = measure_forms});

}  // namespace
}  // namespace thinwire::claims
