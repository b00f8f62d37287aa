// Rows as coordinates in a subspace of few dimensions, and back:   code = (x - known) U      x = known + code U^T
// x [rows, columns], U [columns, width] with orthonormal columns, code [rows, width], row-major; `known` has for each row what both ends know of it. In stripes
// of rows that stay in a core's cache, so x is read, or written, once; results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

class RowSubspace {
 public:
  /// `basis` [columns, width], whose columns must be orthonormal.
  RowSubspace(std::int64_t columns, std::int64_t width, std::vector<float> basis);
  /// The orthonormal factor of a matrix of independent normal numbers: any subspace is as likely as any other. Of one seed, a smaller one lies in a larger one.
  static RowSubspace random(std::int64_t columns, std::int64_t width, std::uint64_t seed);

  std::int64_t width() const { return width_; }
  std::span<const float> basis() const { return basis_; }

  /// A row of `columns` values for each row of the tensor, or none at all: zeros.
  using Known = std::span<const BFloat16* const>;
  void project(ConstTensorView x, Known known, TensorView code);
  /// x, or with `add` x +, the row of each code.
  void expand(ConstTensorView code, Known known, bool add, TensorView x) const;
  /// Whether rows of these codes are finite numbers: no coordinate beyond largest f32 / (2 sqrt(width)).
  bool in_range(ConstTensorView code) const;

 private:
  template <typename Body>
  void for_stripes(std::int64_t rows, const Body& body) const;

  std::int64_t columns_, width_, stripe_;
  std::vector<float> basis_;
  Buffer difference_;  ///< x - known: a stripe for each thread
};

}  // namespace thinwire
