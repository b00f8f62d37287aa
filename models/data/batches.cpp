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
  source.unigram_entropy = corpus.unigram_entropy(), source.bigram_entropy = corpus.bigram_entropy();
  char remark[64];
  std::snprintf(remark, sizeof remark, "text: bigram entropy %.4f", corpus.bigram_entropy());
  source.remark = remark;
  return source;
}

Batch OtherRounds::batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const {
  Batch all(count, seq, first_sample);
  std::vector<std::int32_t>&tokens = all.ints("tokens"), &targets = all.ints("targets");
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t number = static_cast<std::int64_t>(step) * own_ + first_sample + b;
    const Batch one = inner_->batch(static_cast<std::uint64_t>(number / other_), number % other_, 1, seq);
    tokens.insert(tokens.end(), one.ints("tokens").begin(), one.ints("tokens").end());
    targets.insert(targets.end(), one.ints("targets").begin(), one.ints("targets").end());
    all.sample_ids.insert(all.sample_ids.end(), one.sample_ids.begin(), one.sample_ids.end());
  }
  all.weight = inner_->weight(0, count, seq);
  return all;
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

/// Options of text, each a count: 0 where it is not given.
struct TextOptions {
  std::int64_t windows = 0, validation_batch = 0;
};

TextOptions text_options(const std::string& text) {
  TextOptions options;
  for (std::size_t from = 0, to = 0; !text.empty() && to != std::string::npos; from = to + 1) {
    to = text.find(',', from);
    const std::string part = text.substr(from, to == std::string::npos ? to : to - from), name = part.substr(0, part.find('='));
    std::int64_t* const count = name == "windows" ? &options.windows : name == "validation_batch" ? &options.validation_batch : nullptr;
    const char *const begin = part.data() + std::min(part.size(), name.size() + 1), *const end = part.data() + part.size();
    const auto read = count ? std::from_chars(begin, end, *count) : std::from_chars_result{};
    if (!count || read.ec != std::errc() || read.ptr != end || *count < 1 || *count > 1'000'000'000)
      throw UsageError("--data text:" + text +
                       ": windows of text have the options windows=N, how many there are in an epoch, and validation_batch=N, whose global batch validations are drawn by (1 to 1000000000 both)");
  }
  return options;
}

const RegisterData registered_text({"text",
                         "windows of a text at random (--text); text:windows=N: a fixed number of them, epoch after epoch; validation_batch=N: validated on the windows of runs whose global batch is N",
                         [](const DataRequest& request) {
                           const TextOptions options = text_options(request.options);
                           const Epochs epochs{options.windows, request.global_batch};
                           const auto corpus = std::make_shared<const Corpus>(Corpus::open(request.path));
                           DataSource source = text_data(*corpus, request.seed, epochs);
                           if (options.validation_batch > 0) source.validation = std::make_unique<OtherRounds>(std::move(source.validation), request.global_batch, options.validation_batch);
                           for (auto* half : {&source.training, &source.validation}) *half = std::make_unique<OwningWindows>(corpus, std::move(*half));
                           return source;
                         },
                         true});

}  // namespace

}  // namespace thinwire
