// Small BERTs of every task and form, with batches that have padding, token types, positions and samples without a label.
#pragma once

#include "core/random.h"
#include "models/bert/bert.h"
#include "models/data/dataset.h"
#include "models/data/masked_text.h"

namespace thinwire::testing {

/// Bytes that depend on those before them, so that there is something to learn.
inline std::string bert_text() {
  const Random random(7, "bert text");
  std::string text;
  std::uint64_t state = 0;
  for (std::uint64_t i = 0; i < 8000; ++i) text += static_cast<char>(state = random.below(i, 6) > 0 ? (5 * state + 3) % 31 : random.below(2 * i + 1, 31));
  return text;
}

/// Masked samples for all tasks: labels of sequences are classes, of which some are missing, or numbers; by task the batch weighs positions or samples.
class BertSamples final : public Dataset {
 public:
  BertSamples(BertTask task, std::uint64_t seed, const char* stream)
      : task_(task), text_(bert_text()), masked_({reinterpret_cast<const std::uint8_t*>(text_.data()), text_.size()}, seed, stream, {0.2, 0.6}, 8) {}
  Batch batch(std::uint64_t step, std::int64_t first, std::int64_t count, std::int64_t seq) const override {
    Batch out = masked_.batch(step, first, count, seq);
    if (task_ == BertTask::masked || task_ == BertTask::pretraining) return out;
    std::vector<std::int32_t> classes;
    std::vector<float> numbers;
    out.weight = 0;
    for (std::int64_t b = 0; b < count; ++b) {
      // Something that can be learned: of the token behind the first.
      const std::int32_t token = out.ints("tokens")[static_cast<std::size_t>(b * seq + 1)], label = labelled(step, first + b) ? token % 3 : -1;
      classes.push_back(label);
      numbers.push_back(static_cast<float>(token % 7) / 4);
      out.weight += task_ == BertTask::regression || label >= 0;
    }
    Field& labels = out.fields["labels"];
    if (task_ == BertTask::regression)
      labels.values = numbers;
    else
      labels.values = classes;
    return out;
  }
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override {
    if (task_ == BertTask::masked || task_ == BertTask::pretraining) return masked_.weight(step, count, seq);
    double sum = 0;
    for (std::int64_t s = 0; s < count; ++s) sum += task_ == BertTask::regression || labelled(step, s);
    return sum;
  }
  std::int64_t samples() const override { return 0; }

 private:
  static bool labelled(std::uint64_t step, std::int64_t sample) { return (step + static_cast<std::uint64_t>(sample)) % 4 != 0; }
  BertTask task_;
  std::string text_;
  MaskedText masked_;
};

inline DataSource bert_samples(BertTask task) {
  DataSource source;
  source.training = std::make_unique<BertSamples>(task, 5, "training");
  source.validation = std::make_unique<BertSamples>(task, validation_seed, "validation");
  source.hash = "samples of " + std::to_string(static_cast<int>(task));
  return source;
}

/// A micro-batch that is its own global batch.
inline Batch whole_batch(const Dataset& data, std::uint64_t step, std::int64_t count, std::int64_t seq) {
  Batch batch = data.batch(step, 0, count, seq);
  batch.global_weight = data.weight(step, count, seq);
  batch.global_samples = count;
  return batch;
}

struct BertCase {
  const char* options;
  BertTask task;
};
inline constexpr BertCase bert_cases[] = {{"task=masked", BertTask::masked},
                                          {"task=masked,norm=pre,gelu=tanh,types=0", BertTask::masked},
                                          {"task=pretraining", BertTask::pretraining},
                                          {"task=pretraining,norm=pre", BertTask::pretraining},
                                          {"task=classification,classes=3", BertTask::classification},
                                          {"task=classification,classes=3,norm=pre,epsilon=1e-5", BertTask::classification},
                                          {"task=regression", BertTask::regression}};

}  // namespace thinwire::testing
