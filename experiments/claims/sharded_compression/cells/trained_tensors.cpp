#include "experiments/claims/sharded_compression/cells/trained_tensors.h"

#include <cmath>

#include "core/half.h"
#include "experiments/claims/sharded_compression/cells/messages.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"
#include "models/gpt/trainer.h"

namespace thinwire::claims::sharded_compression {
namespace {

constexpr std::int64_t micro_batch = 8, seq = 64;
constexpr double learning_rate = 3e-3;
constexpr const char* int4 = "group:bits=4,group=128,round=stochastic";

GptConfig sizes(int seed) {
  GptConfig c;
  c.vocab = byte_vocabulary, c.hidden = 128, c.layers = 2, c.heads = 4, c.max_seq = seq, c.seed = static_cast<std::uint64_t>(seed);
  return c;
}

double times_smaller(Wire& lossless, const Values& x) {
  Values rounded(x.size());  // f32 that holds bf16 numbers travels as those
  for (std::size_t i = 0; i < x.size(); ++i) rounded[i] = to_float(to_bfloat16(x[i]));
  (void)lossless.arrives(rounded, {});
  return 2.0 * static_cast<double>(x.size()) / static_cast<double>(lossless.payload().size());
}

Numbers train(int seed, std::int64_t steps) {
  const Corpus corpus = Corpus::open("");
  const BatchSampler batches(corpus.training(), static_cast<std::uint64_t>(seed), "data.training");
  Gpt<float> model(sizes(seed));
  TrainerOptions options;
  options.schedule = {learning_rate, learning_rate / 10, steps / 20, steps};
  Trainer<float> trainer(model, options);
  Numbers numbers;
  Wire lossless("lossless"), plain(int4), rotated(std::string(int4) + "+hadamard:block=32");
  const auto for_matrices = [&](const auto& body) {
    for (Parameter<float>* p : model.parameters())
      if (p->decays) body(*p);
  };
  const auto copy = [](const float* x, std::int64_t count) { return Values(x, x + count); };
  for_matrices([&](Parameter<float>& p) { numbers["lossless_initial"].push_back(times_smaller(lossless, copy(p.w(), p.elements()))); });
  for (std::int64_t step = 0; step < steps; ++step) {
    const Batch batch = batches.batch(static_cast<std::uint64_t>(step), 0, micro_batch, seq);
    numbers["loss"] = {trainer.step({&batch, 1}).loss};
  }
  numbers["unigram"] = {corpus.unigram_entropy()};
  for_matrices([&](Parameter<float>& p) {  // gradients are those of the last step
    const Values gradient = copy(p.g(), p.elements());
    const std::int64_t rows = p.shape().rows();
    numbers["hadamard"].push_back(relative_error(rotated.arrives(gradient, {}, rows), gradient) / relative_error(plain.arrives(gradient, {}, rows), gradient));
    numbers["lossless_gradients"].push_back(times_smaller(lossless, gradient));
    numbers["lossless_weights"].push_back(times_smaller(lossless, copy(p.w(), p.elements())));
  });
  return numbers;
}

}  // namespace

Numbers trained_tensors(const JudgeContext& context, int seed) {
  const std::int64_t steps = context.steps();
  const std::string name = "seed" + std::to_string(seed) + "-steps" + std::to_string(steps);
  return kept_numbers(context, name, 1, "a training in this process, seed " + std::to_string(seed) + " (a minute)", [&] { return train(seed, steps); }, trained_by);
}

std::vector<Numbers> trained_seeds(const JudgeContext& context) {
  std::vector<Numbers> seeds;
  for (int seed = 1; seed <= context.seeds(); ++seed) seeds.push_back(trained_tensors(context, seed));
  return seeds;
}

Rule trained_rule() {
  const GptConfig c = sizes(1);
  Rule rule;
  rule.settings = {{"training", "GPT of " + std::to_string(c.layers) + " layers, hidden " + std::to_string(c.hidden) + ", micro-batches of " + std::to_string(micro_batch) + " x " + std::to_string(seq) +
                                    ", learning rate 0.003, in one process"},
                   {"steps", "300 (1000 in the profile full)"}};
  rule.quantities = {{"learned", "entropy of the text's single bytes less the training loss at the end, least of the seeds, nats per token"}};
  rule.clauses = {{Verdict::unstable, "learned <= 0"}};
  return rule;
}

Measure learned_measure(const std::vector<Numbers>& seeds) {
  double least = no_number;
  for (const Numbers& s : seeds) least = std::fmin(least, s.at("unigram").at(0) - s.at("loss").at(0));
  return {"control: unigram entropy - training loss at the end, least of the seeds", least, no_number, no_number, no_number, "nats per token", "learned"};
}

}  // namespace thinwire::claims::sharded_compression
