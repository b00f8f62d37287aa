// Rows of bench_device about codecs: verified against the host's, then timed against the device's own copy rate.
#pragma once

#include <string>

#include "bench/harness/inputs.h"
#include "kernels/codec/codec.h"

namespace thinwire::bench {

/// Bytes that a codec must move at least, per direction: what its bound is made of.
struct CodecTraffic {
  double encode = 0, decode = 0;
};
/// Encode reads what the codec says it must at least (Codec::least_bytes_read) and writes the payload; decode reads the payload and writes the tensor.
CodecTraffic codec_traffic(const Codec& codec, const Shape& shape, double payload_bytes);

/// Measures one codec of host tensor `x` (of `series`) on the device of `p`: one row of the message, and with --replicas above 1 one per protocol of an all-reduce,
/// modelled from it (compute "modelled"). Adds rows and samples; a codec that decodes wrongly gets a row WRONG and no times.
void measure_device_codec(BenchContext& context, const CellParameters& p, const std::string& expression, const Series& series, const Tensor& x,
                          Measured& measured);

}  // namespace thinwire::bench
