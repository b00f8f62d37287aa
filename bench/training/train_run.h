// One training run: the loop over steps, validations and checkpoints, and the record it leaves.
#pragma once

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// Collective. Trains the cell's configuration and hands the record to context.finish.
/// Real compute: loss curve, validation, bytes. Timed compute: one warm-up step, `serial_steps` measured one
/// rank at a time, `steps` replayed; step times and bytes, no losses (docs/measuring.md). UsageError when the
/// mesh does not fit the launched ranks; RuntimeFailure naming step, rank and last checkpoint when the
/// loss is not finite.
void run_training(BenchContext& context, const Cell& cell);

}  // namespace thinwire::bench
