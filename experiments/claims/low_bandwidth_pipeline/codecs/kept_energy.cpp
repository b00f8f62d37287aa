// low_bandwidth_pipeline.C13: how much of what an activation is beyond its token's embedding a subspace of d/8 keeps: one drawn at random, one that is learnt for each boundary, and the best one (PCA).
// A GPT is trained in this process with X^ = E[t] + (X - E[t]) A A^T at each boundary, E its own table, read there and not trained through. A is orthonormal and moves along the manifold as MAPL's does
// (docs/papers/low_bandwidth_pipeline.md, "The algorithms, as they are to be built"; second-hand):
//   g_R = g - A sym(A^T g),   M = beta M + (1 - beta) g_R,   A <- polar(A - alpha polar(M)),   polar by Newton and Schulz
// MAPL's tables of rank r and its residual quantiser are not built.
#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/subspace_network.h"
#include "experiments/claims/sharded_compression/cells/kept_numbers.h"
#include "models/capture/spectrum.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"
#include "models/gpt/gpt.h"
#include "models/optimizer/optimizer.h"

namespace thinwire::claims {
namespace {

using low_bandwidth_pipeline::Doubles;
using Numbers = std::map<std::string, std::vector<double>>;

constexpr std::int64_t layers = 4, seq = 64, sequences = 8;
constexpr std::size_t d = 128, r = d / 8;
constexpr int steps = 300;
constexpr double rate = 3e-3, beta = 0.95, alpha = 0.002;  // a tenth of the 0.02 that Muon has there

/// x^T y of x [rows, a], y [rows, b].
Doubles inner(const Doubles& x, const Doubles& y, std::size_t a, std::size_t b) {
  Doubles to(a * b);
  for (std::size_t row = 0; row < x.size() / a; ++row)
    for (std::size_t i = 0; i < a; ++i)
      for (std::size_t j = 0; j < b; ++j) to[i * b + j] += x[row * a + i] * y[row * b + j];
  return to;
}
/// x y of x [rows, a], y [a, b].
Doubles times(const Doubles& x, const Doubles& y, std::size_t a, std::size_t b) {
  Doubles to(x.size() / a * b);
  for (std::size_t row = 0; row < x.size() / a; ++row)
    for (std::size_t i = 0; i < a; ++i)
      for (std::size_t j = 0; j < b; ++j) to[row * b + j] += x[row * a + i] * y[i * b + j];
  return to;
}
double square(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}

/// The orthogonal factor of m [d, r]: x <- 1.5 x - 0.5 x x^T x from m over its norm, until x^T x = 1.
Doubles polar(Doubles m) {
  const double norm = std::sqrt(square(m));
  if (norm == 0) return m;
  for (double& v : m) v /= norm;
  for (int i = 0; i < 200; ++i) {
    Doubles gram = inner(m, m, r, r);
    double off = 0;
    for (std::size_t a = 0; a < r; ++a)
      for (std::size_t b = 0; b < r; ++b) off = std::max(off, std::abs(gram[a * r + b] - (a == b ? 1 : 0)));
    if (off < 1e-12) break;
    const Doubles cubed = times(m, gram, r, r);
    for (std::size_t k = 0; k < m.size(); ++k) m[k] = 1.5 * m[k] - 0.5 * cubed[k];
  }
  return m;
}

class Projection {
 public:
  explicit Projection(std::uint64_t seed, const std::string& name) : a_(d * r) {
    const Random random(seed, name);
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = random.normal(i);
    a_ = polar(std::move(a_));
  }
  /// Part of the square of `rest` [rows, d] that lies in the span.
  double kept(const Doubles& rest) const { return square(times(rest, a_, d, r)) / square(rest); }

  /// rest <- rest A A^T; it is remembered for the way back.
  void project(Doubles& rest) {
    coordinates_ = times(rest, a_, d, r), rest_ = rest;
    rest = back(coordinates_);
  }
  /// gradient <- gradient A A^T; A's own is kept.
  void project_gradient(Doubles& gradient) {
    const Doubles coordinates = times(gradient, a_, d, r);
    own_ = inner(rest_, coordinates, d, r);  // R^T G A + G^T R A
    const Doubles other = inner(gradient, coordinates_, d, r);
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] += other[i];
    gradient = back(coordinates);
  }
  void step() {
    const Doubles common = inner(a_, own_, r, r);
    Doubles symmetric(r * r);
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t j = 0; j < r; ++j) symmetric[i * r + j] = 0.5 * (common[i * r + j] + common[j * r + i]);
    const Doubles along = times(a_, symmetric, r, r);
    memory_.resize(a_.size());
    for (std::size_t i = 0; i < a_.size(); ++i) memory_[i] = beta * memory_[i] + (1 - beta) * (own_[i] - along[i]);
    const Doubles direction = polar(memory_);
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] -= alpha * direction[i];
    a_ = polar(std::move(a_));
  }

 private:
  Doubles back(const Doubles& coordinates) const {
    Doubles x(coordinates.size() / r * d);
    for (std::size_t row = 0; row < coordinates.size() / r; ++row)
      for (std::size_t i = 0; i < d; ++i)
        for (std::size_t j = 0; j < r; ++j) x[row * d + i] += coordinates[row * r + j] * a_[i * r + j];
    return x;
  }
  Doubles a_, memory_, own_, rest_, coordinates_;
};

class Training {
 public:
  explicit Training(int seed) : corpus_(Corpus::open("")), batches_(corpus_.training(), static_cast<std::uint64_t>(seed), "data.training"), model_(config(seed)), optimizer_(model_.parameters(), {}) {
    for (int layer = 1; layer < layers; ++layer) learnt_.emplace_back(static_cast<std::uint64_t>(seed), "learnt " + std::to_string(layer)), drawn_.emplace_back(static_cast<std::uint64_t>(seed), "drawn " + std::to_string(layer));
    model_.at_boundaries([this](int layer, const PassContext&, Tensor& gradient) {
      float* g = data_of<float>(gradient);
      Doubles whole(g, g + gradient.elements());
      learnt_[static_cast<std::size_t>(layer - 1)].project_gradient(whole);
      std::ranges::copy(whole, g);
    });
  }

  Numbers run() {
    Numbers numbers;
    double loss = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const Batch batch = batches_.batch(step, 0, sequences, seq);
      model_.zero_gradients();
      loss = forward(batch, true, nullptr);
      model_.backward(batch, saved_);
      model_.join_table_gradients();
      optimizer_.step(nn::CosineSchedule{rate, rate / 10, steps / 10, steps}.at(static_cast<std::int64_t>(step)), 1.0);
      for (Projection& p : learnt_) p.step();
    }
    forward(batches_.batch(steps, 0, sequences, seq), false, &numbers);
    numbers["learned"] = {corpus_.unigram_entropy() - loss};
    return numbers;
  }

 private:
  static GptConfig config(int seed) {
    GptConfig c;
    c.vocab = byte_vocabulary, c.hidden = d, c.layers = layers, c.heads = 4, c.max_seq = seq, c.seed = static_cast<std::uint64_t>(seed);
    return c;
  }

  /// With `numbers`, what each subspace keeps at each boundary is added to them.
  double forward(const Batch& batch, bool train, Numbers* numbers) {
    const std::vector<std::int32_t>& tokens = batch.ints("tokens");
    const float* table = model_.parameter("embedding.token").w();
    PassContext pass{batch.batch, batch.seq, train};
    pass.why = train ? Pass::train : Pass::evaluate;
    model_.place(pass, batch, saved_);
    for (std::size_t unit = 0; unit < model_.units().size(); ++unit) {
      model_.forward_unit(unit, 1.0, saved_);
      const int layer = model_.units()[unit].layer;
      if (layer < 0 || layer + 1 >= layers) continue;
      float* x = data_of<float>(saved_.blocks[static_cast<std::size_t>(layer)].output);
      const auto known = [&](std::size_t i) { return double{table[static_cast<std::size_t>(tokens[i / d]) * d + i % d]}; };
      Doubles rest(tokens.size() * d);
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = x[i] - known(i);
      if (numbers) look(static_cast<std::size_t>(layer), rest, *numbers);
      learnt_[static_cast<std::size_t>(layer)].project(rest);
      for (std::size_t i = 0; i < rest.size(); ++i) x[i] = static_cast<float>(known(i) + rest[i]);
    }
    return read_number(saved_.head.loss);
  }
  void look(std::size_t boundary, const Doubles& rest, Numbers& numbers) const {
    const std::vector<float> as_floats(rest.begin(), rest.end());
    const auto rows = static_cast<std::int64_t>(rest.size() / d);
    const std::vector<double> singular = normalised_singular_values(rows, d, as_floats.data(), false, rows);
    double best = 0, all = 0;
    for (std::size_t i = 0; i < singular.size(); ++i) all += singular[i] * singular[i], best += i < r ? singular[i] * singular[i] : 0;
    numbers["drawn"].push_back(drawn_[boundary].kept(rest)), numbers["learnt"].push_back(learnt_[boundary].kept(rest)), numbers["best"].push_back(best / all);
  }

  Corpus corpus_;
  BatchSampler batches_;
  Gpt<float> model_;
  Optimizer<float> optimizer_;
  Gpt<float>::Activations saved_;
  std::vector<Projection> learnt_, drawn_;
};

Finding measure(JudgeContext& context) {
  Table table{"part of the activation's square beyond the token's embedding that is kept", {"drawn", "learnt", "best"}, {}};
  std::vector<double> gains;
  double below = INFINITY, learned = INFINITY;
  for (int seed = 1; seed <= context.seeds(); ++seed) {
    const Numbers n = sharded_compression::kept_numbers(context, "kept-energy-seed" + std::to_string(seed), 1, "a training in this process with learnt projections, seed " + std::to_string(seed) + " (a minute)", [&] { return Training(seed).run(); });
    double gain = 0;
    for (std::size_t b = 0; b < n.at("drawn").size(); ++b) {
      gain += (n.at("learnt")[b] - n.at("drawn")[b]) / static_cast<double>(n.at("drawn").size());
      below = std::min(below, n.at("best")[b] - std::max(n.at("learnt")[b], n.at("drawn")[b]));
      table.rows.push_back({"layer " + std::to_string(b + 1) + ", seed " + std::to_string(seed), {n.at("drawn")[b], n.at("learnt")[b], n.at("best")[b]}});
    }
    gains.push_back(gain), learned = std::min(learned, n.at("learned").front());
  }
  Finding found;
  found.measures = {measure_of("part that a learnt subspace keeps less that of a drawn one", interval_of(gains), 0.2, "", "gain"), {"control: part that PCA keeps less the larger of both, least", below, no_number, no_number, 0, "", "below"},
                    {"control: unigram entropy - training loss at the end, least of the seeds", learned, no_number, no_number, no_number, "nats per token", "learned"}};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  Rule rule;
  rule.settings = {{"training", "GPT of 4 layers, hidden 128, 300 steps of 8 x 64 bytes at 0.003, in one process, a learnt projection to 16 dimensions in front of layers 1 to 3; alpha 0.002, beta 0.95"},
                   {"judged on", "8 x 64 bytes that it was not trained on, X less the token's row of the embedding table"}};
  rule.quantities = {{"gain", "part of the square of X - E[t] that the learnt subspace keeps less that of a drawn one, mean of the boundaries; mean over seeds with its 95 % interval"},
                     {"below", "part that the 16 largest singular values hold less the larger of both, least of boundaries and seeds"},
                     {"learned", "entropy of the text's single bytes less the training loss at the end, least of the seeds, nats per token"}};
  rule.constants = {{"none", 0, "no difference"}, {"rounding", 1e-6, "of the square"}, {"stated", 0.2, "of the square; 0.44 is stated for larger models"}, {"little", 0.1, "of it"}, {"smallest", 0.05, "of it: the smallest difference worth naming"}};
  rule.scatter = {{"gain", "stated", "smallest"}};
  rule.clauses = {{Verdict::invalid, "below < none - rounding"}, {Verdict::unstable, "learned <= none"}, {Verdict::confirmed, "gain.low > stated"}, {Verdict::not_reproduced, "gain.high < little"}, {Verdict::direction_only, "gain.low > none"}};
  rule.smallest_effect = "smallest";
  return {.id = "low_bandwidth_pipeline.C13",
          .statement = "Learned subspaces keep more of the activations than fixed ones.",
          .provenance = "second-hand (MAPL); derived (tables of rank r left out)",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3, 6},
          .measure = measure};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
