// Orthonormal columns of a tall matrix in f32 or f64, by Gram-Schmidt done twice ("twice is enough", Kahan
// and Parlett): the Q of a thin QR, with a positive diagonal of R. In f64 inside; for matrices of few
// columns. Orthonormaliser (orthonormalise.h) is the fast one for f32 codecs.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire {

/// In place on `a` [rows, columns], row-major, on the host. A column that depends on earlier ones (what is
/// left of it is rounding of T) becomes exactly zero. Returns how many do not. `work` is scratch.
template <typename T>
std::int64_t orthonormal_columns(std::int64_t rows, std::int64_t columns, T* a, std::vector<double>& work);

}  // namespace thinwire
