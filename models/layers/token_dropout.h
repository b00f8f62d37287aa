// Dropout of activations whose rows are tokens.
#pragma once

#include "kernels/nn/elementwise.h"
#include "models/layers/pass.h"
#include "models/layout.h"

namespace thinwire {

/// x [own rows, hidden] -> y, which may be x. Rows are numbered through the step's global batch of whole sequences, so every split of batch
/// and tokens drops the same elements. `own`: which rows of the pass these are.
template <typename T>
void drop_tokens(const PassContext& pass, const RowBlock& own, std::int64_t hidden, double rate, const nn::DropoutKey& key, const T* x, T* y) {
  if (!pass.sliced()) return nn::dropout<T>(own.count * hidden, rate, key, (pass.first_sample * pass.seq + own.first) * hidden, x, y);
  for (std::int64_t b = 0; b < pass.batch; ++b) {
    const std::int64_t row = (pass.first_sample + b) * pass.length + pass.first_token, at = b * pass.seq * hidden;
    nn::dropout<T>(pass.seq * hidden, rate, key, row * hidden, x + at, y + at);
  }
}

}  // namespace thinwire
