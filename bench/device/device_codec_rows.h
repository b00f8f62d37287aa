// Rows of bench_device about codecs: verified against the host's, then timed against the device's own copy rate.
#pragma once

#include <string>

#include "bench/harness/inputs.h"

namespace thinwire::bench {

/// Bytes that a codec must move at least, per direction: what its bound is made of.
struct CodecTraffic {
  double encode = 0, decode = 0;
};
/// Dense codecs read the tensor and write the payload, and the other way round; PowerSGD reads the tensor twice, because its second product
/// needs the whole first one; Random-K reads one 32-byte sector per element that it keeps.
CodecTraffic codec_traffic(const std::string& expression, std::int64_t elements, double payload_bytes, std::int64_t kept);

/// Fraction of that bound which the project aims at: 0.85 for element-wise codecs, 0.5 for exact top-k, NaN for others.
double codec_target(const std::string& name);

/// Measures one codec of host tensor `x` (of `series`) on the device of `p`: one row of the message, and with --replicas above 1 one per protocol of an all-reduce,
/// modelled from it (compute "modelled"). Adds rows and samples; a codec that decodes wrongly gets a row WRONG and no times.
void measure_device_codec(BenchContext& context, const CellParameters& p, const std::string& expression, const Series& series, const Tensor& x,
                          Measured& measured);

}  // namespace thinwire::bench
