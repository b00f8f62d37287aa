// Which library multiplies f32 matrices on the host: OpenBLAS, oneDNN, or either by class of shape. Chosen once per machine (`doctor --tune`) and
// part of a result's identity, since the two round differently; never chosen by timing inside a run. Without a choice every product is OpenBLAS's.
//
// As text: NAME[:key=value,...]. NAME is the library of all classes, a key CLASS=LIBRARY an exception, `kernels` OpenBLAS's kernels by its own name:
//   openblas:kernels=SkylakeX,large_nn=onednn,large_tn=onednn
// Classes are SIZE_TRANSPOSES. nn is the forward pass of a linear layer (X W), nt the gradient of its input (dY W^T), tn that of its weight
// (X^T dY). Small is below 2^26 operations (2 m n k), medium below 2^30, large the rest: at 512 rows these are layers of hidden size below 128,
// below 512, and above. Products with alpha other than 1, beta other than 0 or 1, both matrices transposed, an empty one, and those
// inside an OpenMP parallel region (attention) are OpenBLAS's whatever the choice says.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/nn/gemm/gemm.h"

namespace thinwire::nn {

inline constexpr std::array<const char*, 9> product_classes = {"small_nn",  "small_nt",  "small_tn",  "medium_nn", "medium_nt",
                                                               "medium_tn", "large_nn", "large_nt", "large_tn"};

/// Index into product_classes; -1: in none of them.
int product_class(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k);

struct ProductLibrary {
  std::string kernels;              ///< of OpenBLAS; empty: as it comes
  std::array<bool, 9> onednn = {};  ///< by class; else OpenBLAS

  /// The one spelling of this choice: equal choices have equal texts.
  std::string text() const;
  bool operator==(const ProductLibrary&) const = default;
};

/// UsageError naming the faulty part, with what there is. An empty text is the choice of nothing: OpenBLAS as it comes.
ProductLibrary parse_product_library(const std::string& text);

/// Empty, or why this process cannot multiply as the choice says: oneDNN is not here.
std::string why_not(const ProductLibrary& choice);

/// For the whole process, before its first product; `kernels` must be in use already (core/process/blas_kernels.h).
void set_product_library(const ProductLibrary& choice);
const ProductLibrary& product_library();

}  // namespace thinwire::nn
