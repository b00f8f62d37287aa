#include "models/data/batches.h"

#include "core/random.h"

namespace thinwire {

BatchSampler::BatchSampler(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream)
    : text_(text), seed_(seed), stream_(hash_name(stream)) {}

TokenBatch BatchSampler::batch(std::uint64_t step, std::int64_t first_sample, std::int64_t batch,
                               std::int64_t seq) const {
  const auto length = static_cast<std::int64_t>(text_.size());
  if (length < seq + 1)
    throw UsageError("The text has " + std::to_string(length) + " bytes here, fewer than the " +
                     std::to_string(seq + 1) + " that one sequence of " + std::to_string(seq) +
                     " tokens needs. Name a longer text by --text, or shorten the sequence.");
  TokenBatch out{batch, seq, first_sample, {}, {}};
  out.tokens.reserve(static_cast<std::size_t>(batch * seq));
  out.targets.reserve(static_cast<std::size_t>(batch * seq));
  const Random random(seed_, mix_stream(stream_, step));
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto sample = static_cast<std::uint64_t>(first_sample + b);
    const auto start = text_.begin() + static_cast<std::int64_t>(
                                           random.below(sample, static_cast<std::uint64_t>(length - seq)));
    out.tokens.insert(out.tokens.end(), start, start + seq);
    out.targets.insert(out.targets.end(), start + 1, start + seq + 1);
  }
  return out;
}

}  // namespace thinwire
