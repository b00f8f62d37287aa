// Encode and decode speed of the CUDA implementations of codecs, against the device's own copy rate.
#pragma once

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

BenchProgram device_bench();

}  // namespace thinwire::bench
