// A cell of bench_tensor_parallel: one module in one mode or in every mode that the ranks make.
#pragma once

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// Measures the cell and hands its rows to the recorder. UsageError for sizes, modes and codecs that cannot be; WrongResult where a mode
/// without codecs does not give what one rank gives. Collective.
void run_split_cell(BenchContext& context, const Cell& cell);

}  // namespace thinwire::bench
