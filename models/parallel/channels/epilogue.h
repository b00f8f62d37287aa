// Which backward messages of a pipeline lie on its critical path: Optimus-CC's epilogue (docs/papers/optimus_cc.md, "The method, as built
// here").
#pragma once

#include <algorithm>

namespace thinwire {

/// Whether the gradient of micro-batch `i` of `micro_batches`, sent by stage `sender` of `stages` (1F1B, not interleaved), belongs to
/// the epilogue: the last min(stages - sender, micro_batches) messages of that stage. Sender and receiver must both ask with the
/// sender's stage. Over a mini-batch P (P - 1) / 2 of M (P - 1) messages, a share of P / (2 M), for M >= P - 1.
constexpr bool in_epilogue(int i, int sender, int stages, int micro_batches) {
  return i >= micro_batches - std::min(stages - sender, micro_batches);
}

}  // namespace thinwire
