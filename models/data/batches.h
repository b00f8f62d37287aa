// Windows of a text: tokens and the tokens that follow them; drawn at random without end, or a fixed number of them, epoch after epoch.
#pragma once

#include <cstdint>
#include <span>

#include "models/data/corpus.h"
#include "models/data/dataset.h"
#include "models/data/epoch_order.h"

namespace thinwire {

/// A fixed number of windows: in every epoch each comes once, in an order of its own (EpochOrder).
struct Epochs {
  std::int64_t windows = 0;  ///< 0: no epochs, windows begin anywhere
  std::int64_t global_batch = 1;  ///< samples of a step
};

/// Fields "tokens" and "targets" [batch, seq]; a sample's id is where its window begins. Every position counts.
class BatchSampler final : public Dataset {
 public:
  /// `text` outlives the sampler.
  BatchSampler(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream, const Epochs& epochs = {});
  /// UsageError when the text is shorter than one sequence and its next token.
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override;
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override;
  std::int64_t samples() const override { return epochs_.windows; }

 private:
  std::int64_t begin_of(std::uint64_t step, std::int64_t sample, std::int64_t starts) const;

  std::span<const std::uint8_t> text_;
  std::uint64_t seed_, stream_;
  Epochs epochs_;
  EpochOrder order_;
};

/// The windows that rounds of another global batch draw, in the same order: sample n of round r is number r `own` + n of them all. A validation is then one of the same windows whatever a run's own
/// global batch, where the number of its sequences is a multiple of both.
class OtherRounds final : public Dataset {
 public:
  /// `inner`: tokens and targets, every position of which counts, without epochs.
  OtherRounds(std::unique_ptr<Dataset> inner, std::int64_t own, std::int64_t other) : inner_(std::move(inner)), own_(own), other_(other) {}
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override;
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override { return inner_->weight(step, count, seq); }
  std::int64_t samples() const override { return 0; }

 private:
  std::unique_ptr<Dataset> inner_;
  std::int64_t own_, other_;
};

/// Training and validation windows of `corpus`, which outlives them. `seed` chooses those of training; validation sees the same under every seed, and
/// draws at random.
DataSource text_data(const Corpus& corpus, std::uint64_t seed, const Epochs& epochs = {});

}  // namespace thinwire
