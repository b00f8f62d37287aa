// Which pass over which data: keys of dropout, of messages and of random codecs.
#pragma once

#include <cstdint>

#include "kernels/codec/codec.h"

namespace thinwire {

struct PassContext {
  std::int64_t batch = 0, seq = 0;
  bool train = true;  ///< dropout acts
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;  ///< number of the first sequence within the step's global batch
  std::int32_t micro = 0;         ///< micro-batch within the replica's share of the step
  Pass why = Pass::train;
  // A slice of a token-sliced pipeline: tokens [first_token, first_token + seq) of sequences of `length` tokens; length 0: whole sequences.
  std::int64_t first_token = 0, length = 0;
  std::int32_t slice = 0;  ///< its number
  std::int64_t rows() const { return batch * seq; }
  bool sliced() const { return length > 0; }
};

}  // namespace thinwire
