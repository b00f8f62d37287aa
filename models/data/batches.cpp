#include "models/data/batches.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "core/error.h"
#include "core/random.h"

namespace thinwire {

BatchSampler::BatchSampler(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream, const Epochs& epochs)
    : text_(text), seed_(seed), stream_(hash_name(stream)), epochs_(epochs), order_(epochs.windows, epochs.global_batch, seed, stream_) {}

std::int64_t BatchSampler::begin_of(std::uint64_t step, std::int64_t sample, std::int64_t starts) const {
  const std::int64_t windows = epochs_.windows;
  if (windows == 0) {
    const Random random(seed_, mix_stream(stream_, step));
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(starts)));
  }
  // Evenly over the text.
  return order_.at(step, sample) * starts / windows;
}

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
  if (epochs_.windows > length - seq)
    throw UsageError("The text has " + std::to_string(length - seq) + " places for a sequence of " + std::to_string(seq) + " tokens here, fewer than the " +
                     std::to_string(epochs_.windows) + " windows that are asked for. Name a longer text by --text, or ask for fewer windows.");
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t begin = begin_of(step, first_sample + b, length - seq);
    const auto start = text_.begin() + begin;
    tokens.insert(tokens.end(), start, start + seq);
    targets.insert(targets.end(), start + 1, start + seq + 1);
    out.sample_ids.push_back(begin);
  }
  out.weight = static_cast<double>(count * seq);
  return out;
}

double BatchSampler::weight(std::uint64_t, std::int64_t count, std::int64_t seq) const { return static_cast<double>(count * seq); }

DataSource text_data(const Corpus& corpus, std::uint64_t seed, const Epochs& epochs) {
  DataSource source;
  source.training = std::make_unique<BatchSampler>(corpus.training(), seed, "data.training", epochs);
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

std::int64_t windows_of(const std::string& options) {
  if (options.empty()) return 0;
  constexpr std::string_view name = "windows=";
  std::int64_t windows = 0;
  const char* const end = options.data() + options.size();
  const bool named = options.starts_with(name);
  const auto read = named ? std::from_chars(options.data() + name.size(), end, windows) : std::from_chars_result{};
  if (!named || read.ec != std::errc() || read.ptr != end || windows < 1 || windows > 1'000'000'000)
    throw UsageError("--data text:" + options + ": windows of text have the option windows=N, how many there are in an epoch (1 to 1000000000)");
  return windows;
}

const RegisterData text({"text", "windows of a text at random (--text); text:windows=N: a fixed number of them, epoch after epoch", [](const DataRequest& request) {
                           const Epochs epochs{windows_of(request.options), request.global_batch};
                           const auto corpus = std::make_shared<const Corpus>(Corpus::open(request.path));
                           DataSource source = text_data(*corpus, request.seed, epochs);
                           for (auto* half : {&source.training, &source.validation}) *half = std::make_unique<OwningWindows>(corpus, std::move(*half));
                           return source;
                         }});

}  // namespace

}  // namespace thinwire
