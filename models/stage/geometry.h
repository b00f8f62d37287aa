// What a model is, in numbers, without making it: units and parameters as its stages have them, the arithmetic of a pass, and what a rank must
// hold for one. A kind of model declares it once, in a file of its own (ModelKind::geometry); memory estimate, FLOPs and cluster model ask here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/layout/grid_shape.h"
#include "models/layout/layout.h"

namespace thinwire {

/// How tensor ranks split a model, as one of them sees it. By default nothing is split.
struct TensorSplit {
  GridShape shape;  ///< one_d: Megatron-LM over shape.ranks()
  int rank = 0;
  bool sequence_parallel = false;  ///< 1-D only

  static TensorSplit one_d(int ranks, int rank = 0, bool sequence_parallel = false) { return {{GridKind::one_d, {ranks, 1, 1}}, rank, sequence_parallel}; }
};

/// A micro-batch whose sizes are asked for.
struct PassShape {
  std::int64_t batch = 1, seq = 1;
  bool recompute = false;  ///< layers keep their output alone, and run again before their backward pass
  bool rounds = false;     ///< layers split in one dimension keep what they multiply in bf16 (block.h)

  std::int64_t rows() const { return batch * seq; }
};

/// What a parameter's rows, as wide as the boundary, are to the activations between layers, where those are sums: nothing, or terms that are added as they are; of a token table row t is where token t
/// stands. With dropout off, activations then lie in any space that all such rows lie in.
enum class StreamRows { none, added, by_token };

struct DeclaredParameter {
  ParameterLayout layout;  ///< name, whole shape, and what of it lies on this rank
  bool decays = false;     ///< a matrix; else a bias, scale or shift
  bool tied = false;       ///< the table that the first and the last position of a pipeline both hold
  bool looked_up = false;  ///< its unit picks rows of it, and multiplies nothing by it
  StreamRows stream = StreamRows::none;

  const std::string& name() const { return layout.name(); }
  std::int64_t whole() const { return layout.global().elements(); }
  std::int64_t local() const { return layout.local().elements(); }
};

/// Name, layer and parameters as Unit's. Arithmetic: every matrix that is not looked up multiplies every row of the unit's passes.
struct DeclaredUnit {
  std::string name = {};
  int layer = 0;
  std::vector<DeclaredParameter> parameters = {};
  std::int64_t attention = 0;   ///< columns of what attends: every token to all tokens of its sequence
  bool per_sequence = false;    ///< it works on one row of each sequence, not on each token
  bool recomputed = false;      ///< a layer: under recomputation it runs forward twice
  int tensor_sums = 0;          ///< tensors of the boundary's size that a forward pass sums over the tensor ranks of 1-D

  std::int64_t rows(const PassShape& pass) const { return per_sequence ? pass.batch : pass.rows(); }
  /// Numbers in parameters that passes compute with, of all tensor ranks together: all but what is looked up.
  std::int64_t computes_with() const;
  /// Floating-point operations of a forward pass, two per product and sum, of all tensor ranks together. A causal mask halves nothing.
  double product_flops(const PassShape& pass) const;
  double attention_flops(const PassShape& pass) const;
  double flops(const PassShape& pass) const { return product_flops(pass) + attention_flops(pass); }
};

/// What passes take on one rank beside parameters, in numbers of the model's type unless said otherwise.
struct PassMemory {
  std::int64_t boundary = 0;   ///< a tensor at either end of the part
  std::int64_t saved = 0;      ///< kept of a micro-batch from its forward to its backward pass, the part's input among it
  std::int64_t again = 0;      ///< kept once: what the layer saves that runs again
  std::int64_t kept = 0;       ///< buffers that the part holds all the time
  std::int64_t scratch = 0;    ///< contents live within one unit's pass: parts of a rank take turns
  // Buffers of the channels over tensor ranks.
  std::int64_t exact = 0;      ///< of sums that always travel in the model's type
  std::int64_t wire = 0;       ///< in numbers of the wire's type
  std::int64_t converted = 0;  ///< copies in the wire's type, where it is another than the model's
};

/// Of the part of a model that one position of a pipeline holds, on one tensor rank.
struct Geometry {
  std::vector<DeclaredUnit> units;  ///< as Stage::units() in name, layer, parameters and order
  std::int64_t width = 0;           ///< columns of the boundary, of all tensor ranks together
  std::function<PassMemory(const PassShape&)> memory;

  /// Every parameter once; a tied table that two units read stands where it comes first.
  std::vector<DeclaredParameter> parameters() const;
};

/// Operations of a training step per token, by 6 N + 12 L hidden seq (Chowdhery et al., "PaLM", arXiv 2204.02311, appendix B) where every unit works
/// on every token: a backward pass is two forward passes; N counts what units compute with, vectors too. Recomputation does not count: it is the
/// trainer's choice, not the model's need. `whole`: of all layers, unsplit.
double training_flops_per_token(const Geometry& whole, std::int64_t seq);

}  // namespace thinwire
