// t(b, s, c): how long a pipeline stage takes for s tokens of b sequences after c tokens of context, from measured samples. The model is
// TeraPipe's (docs/papers/tensor_parallel.md, "The methods, as built here", as read in the authors' code): t(b, s, 0) as measured, between
// grid points linear, and for the context a0 + a1 b s + a2 b c + a3 b s c, fitted by least squares of the errors relative to the time.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "models/parallel/schedule/token_slices.h"

namespace thinwire {

struct SliceSample {
  int batch = 1, tokens = 0, context = 0;
  double forward_us = 0, backward_us = 0;
};

class SliceTimes {
 public:
  /// UsageError without samples of context 0, with a time that is not above 0, or with fewer than four samples of another context (none:
  /// the context costs nothing).
  explicit SliceTimes(std::vector<SliceSample> samples);

  /// Microseconds. UsageError for a batch that was not measured, and for tokens outside of the measured ones.
  double forward_us(int batch, int tokens, int context) const;
  double backward_us(int batch, int tokens, int context) const;
  double pass_us(int batch, int tokens, int context) const { return forward_us(batch, tokens, context) + backward_us(batch, tokens, context); }
  BatchSliceTime times() const;

  const std::vector<SliceSample>& samples() const { return samples_; }
  /// Largest |model - sample| / sample of a pass over the samples with a context; 0 without any.
  double largest_context_error() const;

 private:
  using Coefficients = std::array<double, 4>;
  double without_context(int batch, int tokens, double SliceSample::*part) const;
  Coefficients fit(double SliceSample::*part) const;
  double at(int batch, int tokens, int context, double SliceSample::*part, const Coefficients& a) const;

  std::vector<SliceSample> samples_;
  std::map<int, std::map<int, SliceSample>> base_;  ///< of context 0, by batch and tokens
  Coefficients forward_{}, backward_{};
};

}  // namespace thinwire
