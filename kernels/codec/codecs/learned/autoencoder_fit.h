// Adam on the reconstruction error of a linear auto-encoder: the part of a fit that is not closed-form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

struct AutoencoderFit {
  double start_error = 0;  ///< relative L2 error on the held-out rows before the first step
  double end_error = 0;    ///< after the last step
  bool kept_start = false;
};

/// Row r of the samples (counted through) is held out when r % 8 == 7; with fewer than 8 rows none is and the
/// error is that of the training rows. Mini-batches of 256 rows, drawn by Philox(seed); Adam with a step that
/// decays linearly to zero. E [e, h] and D [h, e] are left at the better of start and end. Deterministic.
AutoencoderFit refine_autoencoder(std::span<const ConstTensorView> samples, std::int64_t width, std::int64_t steps, std::uint64_t seed,
                                  std::vector<float>& encoder, std::vector<float>& decoder);

}  // namespace thinwire
