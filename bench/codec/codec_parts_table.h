// bench_codec --breakdown: how long the pieces of codecs take that name them (kernels/codec/codec_parts.h), against what memory must move for each.
#pragma once

#include <cstdio>
#include <span>
#include <string>

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// Times the parts of each codec on `x` in turn, medians, and writes a table: microseconds, and the fraction of the bound of moving its bytes at twice the memcpy rate.
void print_codec_parts(std::FILE* to, const CellParameters& p, std::span<const std::string> codecs, ConstTensorView x);

}  // namespace thinwire::bench
