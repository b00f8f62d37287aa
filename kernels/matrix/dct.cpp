#include "kernels/matrix/dct.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/nn/gemm/gemm.h"

namespace thinwire {
namespace {

std::vector<float> cosines(std::int64_t n) {
  std::vector<float> c(static_cast<std::size_t>(n * n));
  for (std::int64_t u = 0; u < n; ++u)
    for (std::int64_t i = 0; i < n; ++i)
      c[static_cast<std::size_t>(u * n + i)] =
          static_cast<float>(std::sqrt((u == 0 ? 1.0 : 2.0) / static_cast<double>(n)) * std::cos(std::numbers::pi * static_cast<double>((2 * i + 1) * u) / static_cast<double>(2 * n)));
  return c;
}

constexpr auto plain = nn::Transpose::no, transposed = nn::Transpose::yes;

}  // namespace

BandDct::BandDct(std::int64_t height, std::int64_t width) : height_(height), width_(width), down_(cosines(height)), across_(cosines(width)) {}

void BandDct::forward(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, std::int64_t tiles, float* out) {
  const std::int64_t length = tiles * width_;
  float* const half = half_.as<float>(static_cast<std::size_t>(height_ * length));
  for (std::int64_t r = 0; columns < length && r < height_; ++r) std::fill(half + r * length + columns, half + (r + 1) * length, 0.0f);
  nn::gemm<float>(plain, plain, height_, columns, rows, 1, down_.data(), height_, x, stride, 0, half, length);
  nn::gemm<float>(plain, transposed, height_ * tiles, width_, width_, 1, half, width_, across_.data(), width_, 0, out, width_);
}

void BandDct::begin_inverse(std::int64_t tiles) {
  tiles_ = tiles;
  const auto size = static_cast<std::size_t>(height_ * tiles * width_);
  std::fill_n(half_.as<float>(size), size, 0.0f);
}

void BandDct::add(std::int64_t tile, std::int64_t position, float value) {
  const std::int64_t row = position / width_, column = position % width_;
  float* const to = reinterpret_cast<float*>(half_.data()) + (row * tiles_ + tile) * width_;
  const float* const cosine = across_.data() + column * width_;
#pragma omp simd
  for (std::int64_t i = 0; i < width_; ++i) to[i] += value * cosine[i];
}

void BandDct::end_inverse(float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, bool accumulate) {
  nn::gemm<float>(transposed, plain, rows, columns, height_, 1, down_.data(), height_, reinterpret_cast<const float*>(half_.data()), tiles_ * width_, accumulate ? 1.0f : 0.0f, x, stride);
}

}  // namespace thinwire
