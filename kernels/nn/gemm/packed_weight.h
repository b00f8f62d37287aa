// Weights in bf16 in the layout in which oneDNN multiplies them fastest, made once for all products in which they have the same values: all
// micro-batches of a step. (oneDNN's developer guide, "Memory format propagation": format_tag::any for the weights and one reorder; PyTorch's
// packed linears of inference do the same, for good.)
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/nn/gemm/bf16_product.h"

namespace thinwire::nn {

/// What is kept: 2 bytes per element of each weight and way of multiplying with it, from its first product in a PackedWeightsScope on, until a scope
/// has passed in which it was not used.
class PackedWeights {
 public:
  PackedWeights();
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  std::int64_t packed() const;  ///< how often a weight was packed, in all scopes
  std::int64_t bytes() const;   ///< that are kept

  struct Kept;
  std::unique_ptr<Kept> kept;
};

/// Products of this thread take weights from `weights` while it lives: who opens it promises that no weight changes, moves or ends in it. Each scope
/// packs anew. The innermost counts.
class PackedWeightsScope {
 public:
  explicit PackedWeightsScope(PackedWeights& weights);
  ~PackedWeightsScope();
  PackedWeightsScope(const PackedWeightsScope&) = delete;
  PackedWeightsScope& operator=(const PackedWeightsScope&) = delete;
  static PackedWeights* current();  ///< null: none is open

 private:
  PackedWeights* outer_;
};

/// C [m, n] = A op(W) as gemm_bf16, A [m, k], with W packed and kept by the scope that is open (TW_ASSERT). No extent is 0. The same call gives the same
/// bits whether W was packed by it or before. UsageError as gemm.
void gemm_packed(Transpose trans_w, std::int64_t m, std::int64_t n, std::int64_t k, const Bf16Operand& a, const float* w, std::int64_t ldw,
                 const Bf16Result& c);

}  // namespace thinwire::nn
