// A subspace network (SSN; docs/papers/low_bandwidth_pipeline.md, "Subspace networks") in float64, in this process: a GPT whose blocks but the last write into the span of an orthonormal U [d, k], so
// that an activation between layers is what is known of its token, F[t], plus a vector of that span. Two forms of the same thing:
//   reparametrised  what writes into the residual stream is W = Z U^T (projections of attention and MLP, their biases, positions; the token table is E U^T + F); Z and E are trained
//   constrained     W is trained as it is, and projected onto the span after every update
// F and U are drawn by a seed and never trained. Boundaries lie in front of every layer but the first. Single sequences of bytes, no dropout.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/nn/optimizer.h"
#include "models/data/batch.h"
#include "models/gpt/gpt.h"

namespace thinwire::claims::low_bandwidth_pipeline {

using Doubles = std::vector<double>;

struct SubspaceSizes {
  std::int64_t hidden = 64, layers = 4, heads = 4, seq = 64, rank = 10;
  std::uint64_t seed = 1;
};

enum class SubspaceForm { reparametrised, constrained };

/// What one pass over a batch shows.
struct SubspacePass {
  double loss = 0;            ///< nats per token
  double off_span = 0;        ///< largest |part of x - F[t] outside the span| / |x| of a row at any boundary
  Doubles last_boundary;      ///< activation that arrives behind the last boundary
  Doubles boundary_gradient;  ///< of the loss by the activation at the first boundary, as it leaves the layers behind it
};

class SubspaceNetwork {
 public:
  SubspaceNetwork(const SubspaceSizes& sizes, SubspaceForm form);

  /// Forward and backward. `coded`: at every boundary U^T (x - F[t]) travels, and U^T g comes back.
  SubspacePass pass(const Batch& batch, bool coded);

  /// Gradients of the pass before, by parameter: of what is trained (Z and E in place of the matrices that they make); of "fixed", which is not.
  std::map<std::string, Doubles> gradients() const;

  /// One step from them: plain descent, or AdamW without decay.
  void descend(double rate);
  void adamw(double rate);

  /// The matrices that the layers multiply by, by name, as they are now.
  std::map<std::string, Doubles> weights() const;

 private:
  struct Spanned {  ///< a parameter that writes into the residual stream
    Doubles z;      ///< [rows, k]
    bool table = false;
  };
  using Update = std::function<void(const std::string& name, const Doubles& gradient, double* weight)>;

  Doubles project(const double* rows_of_hidden, std::int64_t rows) const;   ///< x U
  void expand(const Doubles& z, bool table, double* rows_of_hidden) const;  ///< z U^T, of the table + F
  void code(const std::vector<std::int32_t>& tokens, double* x) const;
  double outside(const std::vector<std::int32_t>& tokens, const double* x) const;
  void update(const Update& step);

  SubspaceSizes sizes_;
  SubspaceForm form_;
  Gpt<double> model_;
  Gpt<double>::Activations saved_;
  Doubles basis_, fixed_;  ///< U [hidden, k]; F [vocabulary, hidden]
  std::map<std::string, Spanned> spanned_;
  std::map<std::string, std::pair<Doubles, Doubles>> moments_;
  std::int64_t steps_ = 0;
  bool coded_ = false;
  SubspacePass seen_;
};

/// ||a - b|| / ||b|| over all that both hold.
double distance(const std::map<std::string, Doubles>& a, const std::map<std::string, Doubles>& b);

}  // namespace thinwire::claims::low_bandwidth_pipeline
