#include "experiments/claims/low_bandwidth_pipeline/cells/projected_training.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/subspace_network.h"
#include "models/capture/spectrum.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"
#include "models/optimizer/optimizer.h"

namespace thinwire::claims::low_bandwidth_pipeline {
namespace {

constexpr std::int64_t layers = 4, heads = 4;
constexpr std::size_t d = projected_hidden, r = projected_rank;
constexpr double beta = 0.95, alpha = 0.002;  // a tenth of the 0.02 that Muon has there
constexpr int validations = 8, tuning_seed = 101;

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
  Projection(std::uint64_t seed, const std::string& name, bool naive) : naive_(naive), a_(d * r) {
    const Random random(seed, name);
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = random.normal(i);
    a_ = polar(std::move(a_));
  }
  /// A orthonormal: part of the square of `rest` [rows, d] that lies in the span.
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
  void step(std::int64_t number, double rate) {
    memory_.resize(a_.size()), squares_.resize(a_.size());
    if (naive_) return nn::adamw_step<double>({}, 0, rate, number + 1, 1, static_cast<std::int64_t>(a_.size()), own_.data(), a_.data(), memory_.data(), squares_.data());
    const Doubles common = inner(a_, own_, r, r);
    Doubles symmetric(r * r);
    for (std::size_t i = 0; i < r; ++i)
      for (std::size_t j = 0; j < r; ++j) symmetric[i * r + j] = 0.5 * (common[i * r + j] + common[j * r + i]);
    const Doubles along = times(a_, symmetric, r, r);
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
  bool naive_;
  Doubles a_, memory_, squares_, own_, rest_, coordinates_;
};

class Projected {
 public:
  Projected(int seed, bool naive) : model_(config(seed)), optimizer_(model_.parameters(), {.weight_decay = 0}) {
    for (int layer = 1; layer < layers; ++layer) {
      learnt_.emplace_back(static_cast<std::uint64_t>(seed), "learnt " + std::to_string(layer), naive);
      drawn_.emplace_back(static_cast<std::uint64_t>(seed), "drawn " + std::to_string(layer), false);
    }
    model_.at_boundaries([this](int layer, const PassContext&, Tensor& gradient) {
      double* g = data_of<double>(gradient);
      Doubles whole(g, g + gradient.elements());
      learnt_[static_cast<std::size_t>(layer - 1)].project_gradient(whole);
      std::ranges::copy(whole, g);
    });
  }

  void train(const Batch& batch, std::int64_t step, double rate) {
    model_.zero_gradients();
    loss(batch, true);
    model_.backward(batch, saved_);
    model_.join_table_gradients();
    optimizer_.step(rate, 1e9);
    for (Projection& p : learnt_) p.step(step, rate);
  }
  /// With `numbers`, what each subspace keeps at each boundary is added to them.
  double loss(const Batch& batch, bool train, Numbers* numbers = nullptr) {
    const std::vector<std::int32_t>& tokens = batch.ints("tokens");
    const double* table = model_.parameter("embedding.token").w();
    PassContext pass{batch.batch, batch.seq, train};
    pass.why = train ? Pass::train : Pass::evaluate;
    model_.place(pass, batch, saved_);
    for (std::size_t unit = 0; unit < model_.units().size(); ++unit) {
      model_.forward_unit(unit, 1.0, saved_);
      const int layer = model_.units()[unit].layer;
      if (layer < 0 || layer + 1 >= layers) continue;
      double* x = data_of<double>(saved_.blocks[static_cast<std::size_t>(layer)].output);
      const auto known = [&](std::size_t i) { return table[static_cast<std::size_t>(tokens[i / d]) * d + i % d]; };
      Doubles rest(tokens.size() * d);
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = x[i] - known(i);
      if (numbers) look(static_cast<std::size_t>(layer), rest, *numbers);
      learnt_[static_cast<std::size_t>(layer)].project(rest);
      for (std::size_t i = 0; i < rest.size(); ++i) x[i] = known(i) + rest[i];
    }
    return read_number(saved_.head.loss);
  }

 private:
  static GptConfig config(int seed) {
    GptConfig c;
    c.vocab = byte_vocabulary, c.hidden = projected_hidden, c.layers = layers, c.heads = heads, c.max_seq = projected_seq, c.seed = static_cast<std::uint64_t>(seed);
    return c;
  }
  void look(std::size_t boundary, const Doubles& rest, Numbers& numbers) const {
    const std::vector<float> as_floats(rest.begin(), rest.end());
    const auto rows = static_cast<std::int64_t>(rest.size() / d);
    const std::vector<double> singular = normalised_singular_values(rows, d, as_floats.data(), false, rows);
    double best = 0, all = 0;
    for (std::size_t i = 0; i < singular.size(); ++i) all += singular[i] * singular[i], best += i < r ? singular[i] * singular[i] : 0;
    numbers["drawn"].push_back(drawn_[boundary].kept(rest)), numbers["learnt"].push_back(learnt_[boundary].kept(rest)), numbers["best"].push_back(best / all);
  }

  Gpt<double> model_;
  Optimizer<double> optimizer_;
  Gpt<double>::Activations saved_;
  std::vector<Projection> learnt_, drawn_;
};

/// Trains an arm; its validation loss, and with `numbers` what is kept.
double train(const std::string& arm, int seed, double peak, Numbers* numbers) {
  const Corpus corpus = Corpus::open("");
  const BatchSampler training(corpus.training(), static_cast<std::uint64_t>(seed), "data.training"), validation(corpus.validation(), 1, "data.validation");
  const nn::CosineSchedule schedule{peak, peak / 10, projected_steps / 10, projected_steps};
  const auto batch = [](const BatchSampler& of, int step) { return of.batch(static_cast<std::uint64_t>(step), 0, projected_sequences, projected_seq); };
  double loss = 0;
  if (arm == "fixed") {
    SubspaceNetwork network({.hidden = projected_hidden, .layers = layers, .heads = heads, .seq = projected_seq, .rank = projected_rank, .seed = static_cast<std::uint64_t>(seed)},
                            SubspaceForm::reparametrised);
    for (int step = 0; step < projected_steps; ++step) network.pass(batch(training, step), true), network.adamw(schedule.at(step));
    for (int i = 0; i < validations; ++i) loss += network.pass(batch(validation, i), true).loss / validations;
    return loss;
  }
  Projected model(seed, arm == "naive");
  for (int step = 0; step < projected_steps; ++step) model.train(batch(training, step), step, schedule.at(step));
  for (int i = 0; i < validations; ++i) loss += model.loss(batch(validation, i), false, i == 0 && arm == "learnt" ? numbers : nullptr) / validations;
  return loss;
}

Numbers tuned() {
  Numbers numbers;
  for (const std::string& arm : projected_arms)
    for (const std::string& rate : projected_rates) numbers[arm].push_back(train(arm, tuning_seed, std::stod(rate), nullptr));
  return numbers;
}

}  // namespace

Numbers projected_training(const JudgeContext& context, int seed) {
  const Numbers losses = kept_numbers(context, "projected-rates", 2, "fifteen trainings in this process, a rate for each kind of projection (minutes)", tuned, projected_by);
  const auto compute = [&] {
    Numbers numbers;
    for (const std::string& arm : projected_arms) {
      const std::vector<double>& tried = losses.at(arm);
      std::size_t best = 0;
      for (std::size_t i = 1; i < tried.size(); ++i)
        if (tried[i] < tried[best]) best = i;  // a rate that diverged has no number, or a large one
      numbers["loss " + arm] = {train(arm, seed, std::stod(projected_rates[best]), &numbers)};
    }
    numbers["unigram"] = {Corpus::open("").unigram_entropy()};
    return numbers;
  };
  return kept_numbers(context, "projected-seed" + std::to_string(seed), 2, "three trainings in this process with projections, seed " + std::to_string(seed) + " (minutes)", compute, projected_by);
}

}  // namespace thinwire::claims::low_bandwidth_pipeline
