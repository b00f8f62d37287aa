#include "kernels/matrix/gram_schmidt.h"

#include <cmath>
#include <limits>
#include <span>

namespace thinwire {
namespace {

using Column = std::span<double>;

double dot(Column a, Column b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

template <typename T>
std::int64_t orthonormal_columns(std::int64_t rows, std::int64_t columns, T* a, std::vector<double>& work) {
  // Columns lie one after another here.
  work.resize(static_cast<std::size_t>(rows * columns));
  const auto column = [&](std::int64_t j) {
    return Column(work).subspan(static_cast<std::size_t>(j * rows), static_cast<std::size_t>(rows));
  };
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      work[static_cast<std::size_t>(j * rows + i)] = static_cast<double>(a[i * columns + j]);
  constexpr double rounding = 16 * std::numeric_limits<T>::epsilon();
  std::int64_t independent = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    const Column own = column(j);
    const double length = std::sqrt(dot(own, own));
    for (int round = 0; round < 2; ++round)
      for (std::int64_t k = 0; k < j; ++k) {
        const Column other = column(k);
        const double along = dot(own, other);
        for (std::size_t i = 0; i < own.size(); ++i) own[i] -= along * other[i];
      }
    const double left = std::sqrt(dot(own, own));
    const bool depends = !(left > rounding * length);
    independent += depends ? 0 : 1;
    for (double& value : own) value = depends ? 0 : value / left;
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      a[i * columns + j] = static_cast<T>(work[static_cast<std::size_t>(j * rows + i)]);
  return independent;
}
template std::int64_t orthonormal_columns<float>(std::int64_t, std::int64_t, float*, std::vector<double>&);
template std::int64_t orthonormal_columns<double>(std::int64_t, std::int64_t, double*, std::vector<double>&);

}  // namespace thinwire
