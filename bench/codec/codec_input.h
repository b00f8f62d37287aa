// The tensor that bench_codec measures, and what a codec that must be fitted sees before: never the same data.
#pragma once

#include <memory>
#include <vector>

#include "bench/harness/inputs.h"

namespace thinwire::bench {

/// Of several captured or generated steps the last is measured and up to four before it are for the fit. Of one tensor (a user's file) codecs
/// that are fitted get the first half of the rows and are measured on the second; all others are measured on the whole.
struct CodecInput {
  Tensor whole, second_half;
  std::vector<Tensor> training;
  std::unique_ptr<Series> series;

  const Tensor& measured(bool fitted) const { return fitted && second_half.elements() > 0 ? second_half : whole; }
};

/// `fits`: whether a codec wants to see other data before. UsageError for a tensor without elements, and as TrafficSource.
CodecInput load_codec_input(const CellParameters& parameters, bool fits);

}  // namespace thinwire::bench
