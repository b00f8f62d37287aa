// The layers of a grid against the float64 reference: errors, bytes that really travelled, elements stored.
#pragma once

#include "bench/harness/check_rows.h"
#include "collectives/communicator/cost_terms.h"
#include "models/parallel/tensor/grid_check_cases.h"

namespace thinwire::bench {

/// What the checks run on: a communicator whose messages are counted in `count`.
struct CountedWorld {
  Communicator& comm;
  const LinkBytes& count;
  std::uint64_t seed = 0;

  /// Bytes that this rank receives while `body` runs.
  template <typename Body>
  std::int64_t received_in(Body&& body) const {
    const std::int64_t before = count.received;
    body();
    return count.received - before;
  }
};

// Each on the sizes of GridCheckSizes, in float64 with a float64 wire. Rows: "output", "input gradient", ... with the relative distance,
// "forward" and "backward" with the bytes received.

/// Bias-free linears, every case of the grid, and the tied head's transposed product; also what each rank stores.
void check_linears(const CountedWorld& world, const GridShape& shape, CheckRows& rows);
/// Bias, layernorm, embedding, final norm with tied head and cross-entropy.
void check_layers(const CountedWorld& world, const GridShape& shape, CheckRows& rows);
/// Megatron's pair of a column- and a row-parallel linear.
void check_line_pair(const CountedWorld& world, CheckRows& rows);
/// Chains of 1 to 4 bias-free linears, forward and backward: what is received outside of their collectives, and the layout of the output.
void check_chains(const CountedWorld& world, const GridShape& shape, CheckRows& rows);
/// 2.5-D: the weight gradient with the sum over the depth, and without it, as every depth layer for itself has it.
void check_depth_sum(const CountedWorld& world, const GridShape& shape, CheckRows& rows);

}  // namespace thinwire::bench
