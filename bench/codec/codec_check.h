// Verifies a codec on one tensor before it is timed, against scalar float64 references that share no code with
// the codecs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness/error_metrics.h"
#include "kernels/codec/registry.h"

namespace thinwire::bench {

struct CodecCheck {
  ErrorMetrics error;           ///< decoded tensor against the input
  std::string reference;        ///< what it was compared with, in words
  std::size_t payload_bytes = 0;
};

/// Token ids that benches name for the rows of a message, bytes of a text drawn evenly: nobody knows those of a captured tensor.
std::vector<std::int32_t> bench_tokens(std::int64_t rows);

/// Encodes and decodes `x` with the codec of `stack` (no wrappers with hooks) under an evaluation key, so no state is left
/// behind. Throws WrongResult when
///  - the payload is larger than declared, decoding twice differs, decode_add is not out + decode, or a payload
///    that lost its last byte is accepted;
///  - the result disagrees with the codec's own reference (CodecInfo::check), or is not bit-equal where the codec calls itself lossless. Of a codec behind a
///    transform, what it makes of the transformed tensor is compared, and then the way back.
CodecCheck check_codec(CodecStack& stack, ConstTensorView x);

}  // namespace thinwire::bench
