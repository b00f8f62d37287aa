// The nearest orthogonal matrix, nearly, by products alone: Muon's orthogonaliser (Jordan et al. 2024, "Muon:
// An optimizer for hidden layers"; docs/papers/low_communication.md, "Muon").
//   X = G / (f ||G||_F + e);   a few times   A = X X^T,   X = a X + (b A + c A^2) X        tall: A = X^T
//   X, from the right
// Singular vectors stay; each singular value s goes through a s + b s^3 + c s^5, so that those from about
// 0.01 to 1 end near 1, by how much says which coefficients are taken.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace thinwire {

struct NewtonSchulz {
  std::vector<std::array<double, 3>> polynomials = {};  ///< (a, b, c), in their order
  double norm_factor = 1;  ///< f: above 1 where no singular value may exceed 1 by rounding
  double epsilon = 1e-7;   ///< e
};

/// muon: one polynomial five times, values end within .68 to 1.13. muloco: five, .98 to 1.03, those of
/// MuLoCo's and Dion's code. polar_express: five, .86 to 1.14 (Amsel et al. 2025).
std::vector<std::string> newton_schulz_names();
/// UsageError listing them.
const NewtonSchulz& newton_schulz(const std::string& name);

/// Keeps its scratch: two matrices of the smaller extent, and one like x.
template <typename T>
class Orthogonaliser {
 public:
  explicit Orthogonaliser(const NewtonSchulz& by) : by_(by) {}
  /// In place on `x` [rows, columns], row-major, on the host. Zeros stay zeros. Equal bits for equal input on
  /// equally many threads.
  void apply(std::int64_t rows, std::int64_t columns, T* x);

 private:
  NewtonSchulz by_;
  std::vector<T> gram_, polynomial_, next_;
};

}  // namespace thinwire
