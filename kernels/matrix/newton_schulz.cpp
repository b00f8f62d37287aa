#include "kernels/matrix/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/joined.h"
#include "kernels/nn/gemm/gemm.h"

namespace thinwire {
namespace {

const std::map<std::string, NewtonSchulz>& all() {
  static const std::array<double, 3> quintic = {3.4445, -4.7750, 2.0315};
  static const std::map<std::string, NewtonSchulz> by_name = {
      {"muon", {{quintic, quintic, quintic, quintic, quintic}}},
      {"muloco",
       {{{4.0848, -6.8946, 2.9270},
         {3.9505, -6.3029, 2.6377},
         {3.7418, -5.5913, 2.3037},
         {2.8769, -3.1427, 1.2046},
         {2.8366, -3.0525, 1.2012}}}},
      {"polar_express",
       {{{8.156554524902461, -22.48329292557795, 15.878769915207462},
         {4.042929935166739, -2.808917465908714, 0.5000178451051316},
         {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
         {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
         {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}},
        1.02,
        1e-6}}};
  return by_name;
}

}  // namespace

std::vector<std::string> newton_schulz_names() {
  std::vector<std::string> names;
  for (const auto& [name, by] : all()) names.push_back(name);
  return names;
}

const NewtonSchulz& newton_schulz(const std::string& name) {
  const auto found = all().find(name);
  if (found != all().end()) return found->second;
  throw UsageError("no Newton-Schulz polynomials are called '" + name + "'; there are: " + joined_keys(all()));
}

template <typename T>
void Orthogonaliser<T>::apply(std::int64_t rows, std::int64_t columns, T* x) {
  using nn::Transpose;
  const std::int64_t count = rows * columns, n = std::min(rows, columns);
  if (count == 0) return;
  const bool tall = rows > columns;
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const auto factor = static_cast<T>(1 / (by_.norm_factor * std::sqrt(squares) + by_.epsilon));
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
  gram_.resize(static_cast<std::size_t>(n * n)), polynomial_.resize(gram_.size()),
      next_.resize(static_cast<std::size_t>(count));
  T *now = x, *then = next_.data(), *const gram = gram_.data(), *const polynomial = polynomial_.data();
  for (const auto& [a, b, c] : by_.polynomials) {
    nn::gemm<T>(tall ? Transpose::yes : Transpose::no, tall ? Transpose::no : Transpose::yes, n, n,
                std::max(rows, columns), T{1}, now, columns, now, columns, T{0}, gram, n);
    std::ranges::copy(gram_, polynomial);
    nn::gemm<T>(Transpose::no, Transpose::no, n, n, n, static_cast<T>(c), gram, n, gram, n, static_cast<T>(b),
                polynomial, n);
    std::copy_n(now, count, then);
    if (tall)
      nn::gemm<T>(Transpose::no, Transpose::no, rows, n, n, T{1}, now, columns, polynomial, n,
                  static_cast<T>(a), then, columns);
    else
      nn::gemm<T>(Transpose::no, Transpose::no, n, columns, n, T{1}, polynomial, n, now, columns,
                  static_cast<T>(a), then, columns);
    std::swap(now, then);
  }
  if (now != x) std::copy_n(now, count, x);
}

template class Orthogonaliser<float>;
template class Orthogonaliser<double>;

}  // namespace thinwire
