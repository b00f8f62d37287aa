// Measures codecs alone: encode and decode of one tensor against memcpy, and products against bare BLAS.
#pragma once

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// The whole of bench_codec but its main.
BenchProgram codec_bench();

}  // namespace thinwire::bench
