// Windows of a text, drawn at random: tokens and the tokens that follow them.
#pragma once

#include <cstdint>
#include <span>

#include "models/data/corpus.h"
#include "models/data/dataset.h"

namespace thinwire {

/// Fields "tokens" and "targets" [batch, seq]; a sample's id is where its window begins. Every position counts.
class BatchSampler final : public Dataset {
 public:
  /// `text` outlives the sampler.
  BatchSampler(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream);
  /// UsageError when the text is shorter than one sequence and its next token.
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override;
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override;
  std::int64_t samples() const override { return 0; }

 private:
  std::span<const std::uint8_t> text_;
  std::uint64_t seed_, stream_;
};

/// Training and validation windows of `corpus`, which outlives them. `seed` chooses those of training; validation sees the same under every seed.
DataSource text_data(const Corpus& corpus, std::uint64_t seed);

}  // namespace thinwire
