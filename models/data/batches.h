// Which windows of text a step trains on: a function of (seed, step, sample) alone, so every way of sharing
// a global batch over replicas and micro-batches sees the same samples.
#pragma once

#include <cstdint>
#include <span>

#include "models/gpt/gpt.h"

namespace thinwire {

class BatchSampler {
 public:
  /// `text` outlives the sampler. UsageError when it is shorter than one sequence and its next token.
  BatchSampler(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream);
  /// Samples first_sample .. first_sample + batch - 1 of the step's global batch.
  TokenBatch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t batch, std::int64_t seq) const;

 private:
  std::span<const std::uint8_t> text_;
  std::uint64_t seed_, stream_;
};

}  // namespace thinwire
