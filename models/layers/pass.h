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
  std::int64_t rows() const { return batch * seq; }
};

}  // namespace thinwire
