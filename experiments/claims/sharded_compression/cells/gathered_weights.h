// Weights of a training that are gathered through a codec after every step, in one process: two ranks own the halves of each matrix' rows and exchange messages as a
// channel's coded all-gather does (collectives/protocol/gather.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/claims/sharded_compression/cells/messages.h"

namespace thinwire::claims::sharded_compression {

/// One matrix [rows, columns].
struct WeightMatrix {
  std::uint64_t id = 0;
  std::int64_t rows = 0, columns = 0;
  Values start;   ///< at the beginning
  Values main;    ///< in full precision, after this step
  Values update;  ///< what this step added
};

class TwoRankGather {
 public:
  explicit TwoRankGather(const std::string& codec) : ranks_{make_codec(codec), make_codec(codec)} {}
  /// What each rank holds of x after the gather of this step.
  std::array<Values, 2> gather(const WeightMatrix& matrix, std::span<const float> x, std::int64_t step);

 private:
  std::array<CodecStack, 2> ranks_;
};

/// Trains a small GPT for so many steps. Its passes compute with what `decoded` returns of each matrix, its updates are added to the full-precision weights.
/// Called with the matrix' number, from 0, and the step, from 1.
using DecodedWeights = std::function<Values(std::size_t number, const WeightMatrix& matrix, std::int64_t step)>;
void train_with_decoded_weights(std::int64_t steps, const DecodedWeights& decoded);
/// Sizes of that training, for a rule's settings.
std::string describe_weights_training();

}  // namespace thinwire::claims::sharded_compression
