#include "models/data/batches.h"

#include <cstdio>

#include "core/error.h"
#include "core/random.h"

namespace thinwire {

BatchSampler::BatchSampler(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream)
    : text_(text), seed_(seed), stream_(hash_name(stream)) {}

Batch BatchSampler::batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const {
  const auto length = static_cast<std::int64_t>(text_.size());
  if (length < seq + 1)
    throw UsageError("The text has " + std::to_string(length) + " bytes here, fewer than the " +
                     std::to_string(seq + 1) + " that one sequence of " + std::to_string(seq) +
                     " tokens needs. Name a longer text by --text, or shorten the sequence.");
  Batch out(count, seq, first_sample);
  std::vector<std::int32_t>&tokens = out.ints("tokens"), &targets = out.ints("targets");
  tokens.reserve(static_cast<std::size_t>(count * seq));
  targets.reserve(static_cast<std::size_t>(count * seq));
  const Random random(seed_, mix_stream(stream_, step));
  for (std::int64_t b = 0; b < count; ++b) {
    const auto sample = static_cast<std::uint64_t>(first_sample + b);
    const auto begin = static_cast<std::int64_t>(random.below(sample, static_cast<std::uint64_t>(length - seq)));
    const auto start = text_.begin() + begin;
    tokens.insert(tokens.end(), start, start + seq);
    targets.insert(targets.end(), start + 1, start + seq + 1);
    out.sample_ids.push_back(begin);
  }
  out.weight = static_cast<double>(count * seq);
  return out;
}

double BatchSampler::weight(std::uint64_t, std::int64_t count, std::int64_t seq) const { return static_cast<double>(count * seq); }

DataSource text_data(const Corpus& corpus, std::uint64_t seed) {
  DataSource source;
  source.training = std::make_unique<BatchSampler>(corpus.training(), seed, "data.training");
  source.validation = std::make_unique<BatchSampler>(corpus.validation(), validation_seed, "data.validation");
  source.hash = corpus.hash();
  char remark[64];
  std::snprintf(remark, sizeof remark, "text: bigram entropy %.4f", corpus.bigram_entropy());
  source.remark = remark;
  return source;
}

namespace {

/// A corpus that goes with its windows.
class OwningWindows final : public Dataset {
 public:
  OwningWindows(std::shared_ptr<const Corpus> corpus, std::unique_ptr<Dataset> windows) : corpus_(std::move(corpus)), windows_(std::move(windows)) {}
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override {
    return windows_->batch(step, first_sample, count, seq);
  }
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override { return windows_->weight(step, count, seq); }
  std::int64_t samples() const override { return windows_->samples(); }

 private:
  std::shared_ptr<const Corpus> corpus_;
  std::unique_ptr<Dataset> windows_;
};

const RegisterData text({"text", "windows of a text at random (--text)", [](const DataRequest& request) {
                           if (!request.options.empty()) throw UsageError("--data text:" + request.options + ": windows of text have no options");
                           const auto corpus = std::make_shared<const Corpus>(Corpus::open(request.path));
                           DataSource source = text_data(*corpus, request.seed);
                           for (auto* half : {&source.training, &source.validation}) *half = std::make_unique<OwningWindows>(corpus, std::move(*half));
                           return source;
                         }});

}  // namespace

}  // namespace thinwire
