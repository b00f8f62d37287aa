// sharded_compression.C24: a step sees one set of weights. With int4 drawn at random a gather that drew anew would be seen at once: gathers once per step, per micro-batch
// and per pass, with and without recomputation, then give other losses. And the gradient is that of the decoded model: in float64, a finite difference along the gradient
// is its norm. The control of the second is a backward pass with another draw than the forward pass; that of the first, codes that are rounded to the nearest.
#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "core/tensor_names.h"
#include "experiments/claims/kept/kept.h"
#include "experiments/claims/sharded_compression/cells/messages.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "models/data/batches.h"
#include "models/gpt/gpt.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr const char *drawn = "group:bits=4,group=32,round=stochastic", *nearest = "group:bits=4,group=32";

CellRequest request_of(const std::string& keep, const std::string& recompute, const std::string& codec) {
  return training(4, {{"zero-stage", "3"}, {"zero-keep", keep}, {"zero-reduce", "step"}, {"recompute", recompute}, {"compress.param_all_gather", codec}, {"steps", "6"}, {"eval-interval", "1"}});
}
std::vector<NamedRequest> all_arms() {
  return {{"gathered once per step", request_of("step", "none", drawn)},
          {"gathered for each pass", request_of("layer", "none", drawn)},
          {"gathered for each pass, recomputation", request_of("layer", "full", drawn)},
          {"gathered for each micro-batch, recomputation", request_of("micro_batch", "full", drawn)},
          {"control: nearest", request_of("layer", "full", nearest)}};
}

/// A small GPT in float64 whose matrices are decoded from one draw or another.
class DecodedModel {
 public:
  DecodedModel() : text_(Corpus::from_text(some_text(), "random bytes")), batches_(text_.training(), 3, "data.training"), batch_(batches_.batch(0, 0, 2, 8)), model_(sizes()) {
    for (Parameter<double>* p : model_.parameters()) {
      if (!p->decays) continue;
      const auto values = p->value.as<double>();
      matrices_.push_back(p), main_.emplace_back(values.begin(), values.end());
    }
  }
  void decode(std::int64_t draw) {
    Wire wire(drawn);
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
      Parameter<double>& p = *matrices_[m];
      MessageKey key;
      key.tensor = tensor_id(p.name()), key.step = draw;
      std::ranges::copy(wire.arrives(main_[m], key, p.shape().rows()), p.value.as<double>().begin());
    }
  }
  double forward() {
    model_.zero_gradients();
    return model_.forward(batch_, 0, true, 1.0, saved_);
  }
  /// Of the matrices, all together.
  std::vector<double> backward() {
    model_.backward(batch_, saved_);
    model_.join_table_gradients();
    std::vector<double> gradient;
    for (Parameter<double>* p : matrices_) gradient.insert(gradient.end(), p->g(), p->g() + p->elements());
    return gradient;
  }
  void move(const std::vector<double>& direction, double by) {
    std::size_t i = 0;
    for (Parameter<double>* p : matrices_)
      for (double& w : p->value.as<double>()) w += by * direction[i++];
  }

 private:
  static GptConfig sizes() {
    GptConfig c;
    c.vocab = byte_vocabulary, c.hidden = 32, c.layers = 2, c.heads = 2, c.max_seq = 8;
    return c;
  }
  static std::string some_text() {
    const Random random(24, "text");
    std::string text;
    for (std::uint64_t i = 0; i < 4000; ++i) text += static_cast<char>(random.below(i, 64));
    return text;
  }
  Corpus text_;
  BatchSampler batches_;
  Batch batch_;
  Gpt<double> model_;
  Gpt<double>::Activations saved_;
  std::vector<Parameter<double>*> matrices_;
  std::vector<Values> main_;
};

/// |finite difference along the gradient / its norm - 1|, forward and backward pass with these draws; the difference is of the forward pass's model.
double disagreement(std::int64_t forward_draw, std::int64_t backward_draw) {
  constexpr double h = 1e-5;
  DecodedModel model;
  model.decode(forward_draw);
  (void)model.forward();
  model.decode(backward_draw);
  std::vector<double> gradient = model.backward();
  double squares = 0;
  for (const double g : gradient) squares += g * g;
  for (double& g : gradient) g /= std::sqrt(squares);
  model.decode(forward_draw);
  model.move(gradient, h);
  const double up = model.forward();
  model.move(gradient, -2 * h);
  const double down = model.forward();
  return std::abs((up - down) / (2 * h) / std::sqrt(squares) - 1);
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::vector<CellRequest> requests;
  for (const NamedRequest& arm : all_arms()) requests.push_back(arm.request);
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  double farthest = 0;
  for (std::size_t i = 1; i < 4; ++i) farthest = std::max(farthest, distance(records[i], records[0]));
  const Numbers disagreements = kept_numbers(context, "one_draw", 1, "finite differences of a small model (a second)", [] {
    return Numbers{{"one", {disagreement(1, 1)}}, {"two", {disagreement(1, 2)}}};
  });
  const double other = distance(records[4], records[0]), one = disagreements.at("one").at(0), two = disagreements.at("two").at(0);
  Finding found;
  found.measures = {{"largest relative difference of a loss or norm from gathers once per step", farthest, no_number, no_number, 0, "", "farthest"},
                    {"control: the same of nearest codes", other, no_number, no_number, 0, "", "other"},
                    {"|finite difference along the gradient / its norm - 1|, one draw", one, no_number, no_number, rule.constant("bound"), "", "one"},
                    {"control: the same, a draw for each pass", two, no_number, no_number, rule.constant("bound"), "", "two"}};
  return found;
}

Claim claim() {
  const Rule rule = with_arms({.settings = {{"finite difference", "GPT of 2 layers, hidden 32, float64, matrices decoded from the drawn codec"}},
                               .quantities = {{"farthest", "largest relative difference of a step's loss, gradient norm or validation loss from those of gathers once per step: gathers for each pass, with and "
                                                           "without recomputation, and for each micro-batch; drawn codes"},
                                              {"other", "the same of nearest codes"},
                                              {"one", "|finite difference of the decoded model's loss along its gradient over the gradient's norm - 1|, one draw for forward and backward pass"},
                                              {"two", "the same with a draw for each pass"}},
                               .constants = {{"bound", 1e-6, "relative: the finite difference's own error"}},
                               .clauses = {{Verdict::invalid, "other == 0 || two <= bound"}, {Verdict::pass, "farthest == 0 && one <= bound"}},
                               .otherwise = Verdict::fail},
                              all_arms());
  return {.id = "sharded_compression.C24",
          .statement = "One step sees one set of weights.",
          .provenance = "derived",
          .basis = Basis::exact,
          .from = Profile::quick,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); }};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
