// Pieces of a codec's work that can be timed by themselves: where encoding and decoding spend their time (bench_codec --breakdown).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

struct CodecPart {
  std::string name;
  std::function<void()> run;         ///< again and again, with the same result
  double read = 0, written = 0;      ///< bytes that memory must move for it at least
};

/// What a codec implements beside Codec.
class Parts {
 public:
  virtual ~Parts() = default;
  /// Of a message like `x` of one rank, and of its decoding into `out`, f32 of its shape; both outlive the parts. Empty for a message that travels as it is.
  virtual std::vector<CodecPart> parts(ConstTensorView x, TensorView out) = 0;
};

}  // namespace thinwire
