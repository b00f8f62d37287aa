#include "kernels/codec/wrappers/row_subspace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "core/random.h"
#include "kernels/matrix/orthonormalise.h"
#include "kernels/matrix/product.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int64_t stripe_elements = 64 * 1024;  // 256 KiB: of x, or of its difference

}  // namespace

RowSubspace::RowSubspace(std::int64_t columns, std::int64_t width, std::vector<float> basis)
    : columns_(columns), width_(width), stripe_(std::max<std::int64_t>(1, stripe_elements / std::max<std::int64_t>(1, columns))), basis_(std::move(basis)) {
  TW_ASSERT(width > 0 && width <= columns && static_cast<std::int64_t>(basis_.size()) == columns * width);
}

RowSubspace RowSubspace::random(std::int64_t columns, std::int64_t width, std::uint64_t seed) {
  const Random random(seed, mix_stream(hash_name("subspace.basis"), static_cast<std::uint64_t>(columns)));
  std::vector<float> basis(static_cast<std::size_t>(columns * width));
  parallel_for(columns * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) basis[static_cast<std::size_t>(i)] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i % width * columns + i / width)));
  });
  // Its sums are cut by the number of threads, and both ends must hold one basis.
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::int64_t independent = Orthonormaliser().apply(basis.data(), columns, width);
  omp_set_num_threads(threads);
  TW_ASSERT(independent == width);
  return {columns, width, std::move(basis)};
}

template <typename Body>
void RowSubspace::for_stripes(std::int64_t rows, const Body& body) const {
  parallel_ranges((rows + stripe_ - 1) / stripe_, 1, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t s = begin; s < end; ++s) body(s * stripe_, std::min(stripe_, rows - s * stripe_), thread);
  });
}

void RowSubspace::project(ConstTensorView x, Known known, TensorView code) {
  const std::int64_t rows = x.shape().rows();
  TW_ASSERT(x.shape().columns() == columns_ && code.elements() == rows * width_ && (known.empty() || static_cast<std::int64_t>(known.size()) == rows));
  const float* const from = x.as<float>().data();
  float* const to = code.as<float>().data();
  float* const scratch = known.empty() ? nullptr : difference_.as<float>(static_cast<std::size_t>(omp_get_max_threads() * stripe_ * columns_));
  for_stripes(rows, [&](std::int64_t first, std::int64_t count, int thread) {
    const float* part = from + first * columns_;
    if (scratch != nullptr) {
      float* const difference = scratch + thread * stripe_ * columns_;
      for (std::int64_t r = 0; r < count; ++r) {
        const BFloat16* const row = known[static_cast<std::size_t>(first + r)];
#pragma omp simd
        for (std::int64_t c = 0; c < columns_; ++c) difference[r * columns_ + c] = part[r * columns_ + c] - to_float(row[c]);
      }
      part = difference;
    }
    matrix_product(Op::plain, Op::plain, count, width_, columns_, part, basis_.data(), to + first * width_);
  });
}

void RowSubspace::expand(ConstTensorView code, Known known, bool add, TensorView x) const {
  const std::int64_t rows = x.shape().rows();
  TW_ASSERT(x.shape().columns() == columns_ && code.elements() == rows * width_ && (known.empty() || static_cast<std::int64_t>(known.size()) == rows));
  const float* const from = code.as<float>().data();
  float* const to = x.as<float>().data();
  for_stripes(rows, [&](std::int64_t first, std::int64_t count, int) {
    float* const part = to + first * columns_;
    for (std::int64_t r = 0; r < count && !known.empty(); ++r) {
      const BFloat16* const row = known[static_cast<std::size_t>(first + r)];
      float* const out = part + r * columns_;
      if (add) {
#pragma omp simd
        for (std::int64_t c = 0; c < columns_; ++c) out[c] += to_float(row[c]);
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < columns_; ++c) out[c] = to_float(row[c]);
      }
    }
    matrix_product(Op::plain, Op::transposed, count, columns_, width_, from + first * width_, basis_.data(), part, add || !known.empty());
  });
}

// A row of U is at most 1 long, so |code U^T| <= |code| <= sqrt(width) largest coordinate; what is known comes on top.
bool RowSubspace::in_range(ConstTensorView code) const {
  const auto most = static_cast<float>(std::numeric_limits<float>::max() / (2 * std::sqrt(static_cast<double>(width_))));
  const std::span<const float> values = code.as<float>();
  int beyond = 0;  // NaN counts, too
#pragma omp simd reduction(| : beyond)
  for (std::size_t i = 0; i < values.size(); ++i) beyond |= std::abs(values[i]) <= most ? 0 : 1;
  return beyond == 0;
}

}  // namespace thinwire
