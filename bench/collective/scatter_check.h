// What a reduce-scatter of partial weight gradients loses to a codec: pieces encoded once and summed by their owner, against a ring that
// encodes its partial sums at every hop.
#pragma once

#include "bench/harness/check_rows.h"

namespace thinwire::bench {

struct ScatterCheckSizes {
  std::int64_t rows = 64, in = 240, out = 240;  ///< rows: of every rank's X and dY; the ranks must divide `in`
};

/// Partial gradients X^T dY of independent normal rows ("independent") and of rows around a common mean ("alike"), one over every rank, in
/// f32. Rows by `codec`: operation "all-to-all" and "ring", relative_l2 of the sum of all ranks' shards against the float64 sum;
/// "..., encodings of a contribution" has, in dense_bytes, how often the contribution was encoded that was encoded most often.
void check_scatter(Communicator& world, const std::string& codec, const ScatterCheckSizes& sizes, std::uint64_t seed, CheckRows& rows);

}  // namespace thinwire::bench
