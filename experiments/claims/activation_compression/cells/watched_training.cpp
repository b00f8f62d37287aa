#include "experiments/claims/activation_compression/cells/watched_training.h"

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "experiments/claims/activation_compression/cells/sent.h"
#include "models/capture/spectrum.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"
#include "models/gpt/trainer.h"
#include "models/parallel/channels/traffic_observer.h"

namespace thinwire::claims::activation_compression {
namespace {

constexpr std::int64_t micro_batch = 8, seq = 64, windows = 240, hidden = 128, steps_of_epoch = windows / micro_batch, steps = steps_of_epoch * watched_epochs;
constexpr double learning_rate = 3e-3;

class Watcher final : public TrafficObserver<float> {
 public:
  /// Of the step that comes.
  void next(const Batch& batch, std::int64_t epoch, bool looks) { samples_ = batch.sample_ids, epoch_ = epoch, looks_ = looks; }
  bool looks() const { return looks_; }

  void boundary_activation(int boundary, std::int64_t rows, std::int64_t width, const float* x) override {
    const std::int64_t of_sample = rows / micro_batch * width;
    for (std::int64_t s = 0; s < micro_batch; ++s) {
      std::vector<float>& m = remembered_[boundary][samples_[static_cast<std::size_t>(s)]];
      const float* own = x + s * of_sample;
      double change = 0, size = 0;
      for (std::int64_t i = 0; i < of_sample && !m.empty(); ++i) {
        const double d = double{own[i]} - m[static_cast<std::size_t>(i)];
        change += d * d, size += double{own[i]} * own[i];
      }
      if (!m.empty()) {
        std::vector<double>& of_epoch = numbers["change " + std::to_string(boundary)];
        of_epoch.resize(watched_epochs - 1);
        of_epoch[static_cast<std::size_t>(epoch_ - 1)] += std::sqrt(change / size) / static_cast<double>(windows);
      }
      m.resize(static_cast<std::size_t>(of_sample));
      for (std::int64_t i = 0; i < of_sample; ++i) m[static_cast<std::size_t>(i)] = round_to_half(own[i]);
    }
    if (!looks_) return;
    numbers["activation"].push_back(share_of_energy(normalised_singular_values(rows, width, x, false, rows)));
    numbers["centred"].push_back(share_of_energy(normalised_singular_values(rows, width, x, true, rows)));
    const Floats activation(x, x + rows * width);
    for (const auto& [name, codec] : watched_codecs) {
      const Sent sent = send(codec, activation, Shape{rows, width});
      numbers["error, " + name].push_back(square_error(sent.decoded, activation));
      numbers["bits, " + name].push_back(8 * static_cast<double>(sent.payload.size()) / static_cast<double>(rows * width));
    }
  }
  void boundary_gradient(int, std::int64_t rows, std::int64_t width, const float* gradient) override {
    if (looks_) numbers["returning"].push_back(share_of_energy(normalised_singular_values(rows, width, gradient, false, rows)));
  }

  Numbers numbers;

 private:
  std::map<int, std::map<std::int64_t, std::vector<float>>> remembered_;  ///< by boundary and sample
  std::vector<std::int64_t> samples_;
  std::int64_t epoch_ = 0;
  bool looks_ = false;
};

Numbers train(int seed) {
  const Corpus corpus = Corpus::open("");
  const BatchSampler batches(corpus.training(), static_cast<std::uint64_t>(seed), "data.training", {windows, micro_batch});
  GptConfig c;
  c.vocab = byte_vocabulary, c.hidden = hidden, c.layers = watched_boundaries + 1, c.heads = 4, c.max_seq = seq, c.seed = static_cast<std::uint64_t>(seed);
  Gpt<float> model(c);
  TrainerOptions options;
  options.schedule = {learning_rate, learning_rate / 10, steps / 20, steps};
  Trainer<float> trainer(model, options);
  Watcher watcher;
  double loss = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Batch batch = batches.batch(static_cast<std::uint64_t>(step), 0, micro_batch, seq);
    watcher.next(batch, step / steps_of_epoch, step + 1 == steps / 10 || step + 1 == steps / 2 || step + 1 == steps);
    loss = trainer.step({&batch, 1}, [&](int) { return &watcher; }).loss;
    if (!watcher.looks()) continue;
    for (int layer = 1; layer <= watched_boundaries; ++layer) {
      const Parameter<float>& p = model.parameter("layer" + std::to_string(layer) + ".mlp.expand.weight");  // its gradient is that of this step
      watcher.numbers["weight"].push_back(share_of_energy(normalised_singular_values(p.shape().rows(), p.shape().columns(), p.g(), false, p.shape().rows())));
    }
  }
  watcher.numbers["loss"] = {loss};
  watcher.numbers["unigram"] = {corpus.unigram_entropy()};
  return std::move(watcher.numbers);
}

}  // namespace

double share_of_energy(const std::vector<double>& singular) {
  double all = 0, held = 0;
  for (const double s : singular) all += s * s;
  std::size_t count = 0;
  while (count < singular.size() && held < 0.9 * all) held += singular[count] * singular[count], ++count;
  return static_cast<double>(count) / static_cast<double>(singular.size());
}

Numbers watched_training(const JudgeContext& context, int seed) {
  return kept_numbers(context, "watched-seed" + std::to_string(seed), 2, "a training in this process whose boundaries are watched, seed " + std::to_string(seed) + " (half a minute)",
                      [&] { return train(seed); }, watched_by);
}

std::vector<Numbers> watched_seeds(const JudgeContext& context) {
  std::vector<Numbers> seeds;
  for (int seed = 1; seed <= context.seeds(); ++seed) seeds.push_back(watched_training(context, seed));
  return seeds;
}

Rule watched_rule() {
  Rule rule;
  rule.settings = {{"training", "GPT of 4 layers, hidden " + std::to_string(hidden) + ", micro-batches of " + std::to_string(micro_batch) + " x " + std::to_string(seq) + ", " + std::to_string(watched_epochs) +
                                    " epochs of " + std::to_string(windows) + " windows, learning rate 0.003, in one process, nothing coded"}};
  rule.quantities = {{"learned", "entropy of the text's single bytes less the training loss at the end, least of the seeds, nats per token"}};
  rule.clauses = {{Verdict::unstable, "learned <= 0"}};
  return rule;
}

Measure learned_measure(const std::vector<Numbers>& seeds) {
  double least = no_number;
  for (const Numbers& s : seeds) least = std::fmin(least, s.at("unigram").at(0) - s.at("loss").at(0));
  return {"control: unigram entropy - training loss at the end, least of the seeds", least, no_number, no_number, no_number, "nats per token", "learned"};
}

}  // namespace thinwire::claims::activation_compression
