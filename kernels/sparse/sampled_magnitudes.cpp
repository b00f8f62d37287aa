// TopMagnitudes::select_sampled, after deep gradient compression (docs/papers/gradient_compression.md, "Deep gradient compression"):
//   every stride-th element from a drawn start on is looked at; the threshold is the magnitude that the share k / n of these reaches
//   fewer than 0.8 k from it on: the threshold times 0.8, at most ten times; more than k: the k largest of those
#include <bit>
#include <cmath>

#include "core/random.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/simd/magnitude.h"
#include "kernels/sparse/top_magnitudes.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::uint64_t start_seed = 0x73616d706c65ull;  // "sample"
constexpr double fewest_above = 2;                       // of the sample, where the tensor has so many elements
constexpr double low = 0.8, high = 1.3;                  // of k
constexpr int most_rounds = 10;

}  // namespace

float TopMagnitudes::sampled_threshold(std::span<const float> x, std::int64_t k, double share, const MessageKey& key) {
  const double n = static_cast<double>(elements_), wanted = std::max(share * n, fewest_above * n / static_cast<double>(k));
  auto stride = std::max<std::int64_t>(1, static_cast<std::int64_t>(n / wanted));
  stride -= stride % 2 == 0 ? 1 : 0;  // odd: not always the same columns
  const auto start = static_cast<std::int64_t>(Random(start_seed, key.random_stream()).below(0, static_cast<std::uint64_t>(stride)));
  const std::int64_t count = (elements_ - start + stride - 1) / stride;
  strided_.resize(static_cast<std::size_t>(count));
  parallel_for(count, default_grain / 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) strided_[static_cast<std::size_t>(i)] = x[static_cast<std::size_t>(start + i * stride)];
  });
  const auto rank = std::clamp<std::int64_t>(std::llround(static_cast<double>(k) * static_cast<double>(count) / n), 1, count);
  const std::uint32_t cut = simd::cut_of_rank(strided_.data(), strided_.size(), static_cast<std::size_t>(rank), 0, 0x7fffffffu);
  std::uint32_t least = 0x7fffffffu;
  for (const float v : strided_)
    if (const std::uint32_t bits = simd::magnitude_bits(v); bits >= cut) least = std::min(least, bits);
  return std::bit_cast<float>(least);
}

void TopMagnitudes::select_sampled(ConstTensorView x, std::int64_t k, const Sampling& sampling, const MessageKey& key) {
  const auto values = x.as<float>();
  begin(x.elements());
  k = std::min(k, elements_);
  float threshold = k > 0 ? sampled_threshold(values, k, sampling.share, key) : 0;
  std::uint32_t lower = 0, maximum = 0;
  std::int64_t found = 0;
  for (int round = 0;; ++round, threshold *= static_cast<float>(low)) {
    lower = simd::magnitude_bits(threshold), maximum = lower;
    found = collect(values, lower, maximum);
    if (maximum >= simd::non_finite_bits) check_finite(x, text_of(key));
    if (static_cast<double>(found) >= low * static_cast<double>(k) || round == most_rounds) break;
  }
  const bool exact = static_cast<double>(found) > (sampling.in_order ? high : 1.0) * static_cast<double>(k);
  keep(exact ? find_threshold(lower, maximum, k) : Threshold{lower, found});
  if (!exact) keep_first(k);
}

void TopMagnitudes::keep_first(std::int64_t k) {
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    runs_[b].count = static_cast<std::size_t>(std::clamp<std::int64_t>(k - starts_[b], 0, static_cast<std::int64_t>(runs_[b].count)));
    starts_[b] = std::min(starts_[b], k);
  }
  starts_.back() = std::min(starts_.back(), k);
}

}  // namespace thinwire
