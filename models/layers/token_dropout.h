// Dropout of activations whose rows are tokens.
#pragma once

#include "collectives/communicator/cost_terms.h"
#include "kernels/nn/elementwise.h"
#include "models/compute/pass.h"
#include "models/layout/layout.h"

namespace thinwire {

/// x [own rows, hidden] -> y, which may be x. Rows are numbered through the step's global batch of whole sequences, so every split of batch
/// and tokens drops the same elements. `own`: which rows of the pass these are.
template <typename T>
void drop_tokens(const PassContext& pass, const RowBlock& own, std::int64_t hidden, double rate, const nn::DropoutKey& key, const T* x, T* y) {
  if (!pass.sliced()) return nn::dropout<T>(own.count * hidden, rate, key, (pass.first_sample * pass.seq + own.first) * hidden, x, y);
  nn::dropout_rows<T>(pass.batch, pass.seq * hidden, pass.length * hidden, rate, key, (pass.first_sample * pass.length + pass.first_token) * hidden, x, y);
}

}  // namespace thinwire
