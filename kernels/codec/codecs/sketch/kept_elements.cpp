#include "kernels/codec/codecs/sketch/kept_elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr float ladder[] = {1e-20f, 1e-15f, 1e-10f, 1e-8f, 1e-7f, 2e-7f, 5e-7f, 1e-6f, 2e-6f, 5e-6f, 1e-5f, 2e-5f, 5e-5f,
                            1e-4f,  2e-4f,  5e-4f,  1e-3f, 2e-3f, 5e-3f, 1e-2f, 2e-2f, 5e-2f, 1e-1f, 2e-1f, 5e-1f};
static_assert(std::size(ladder) == 25);

std::int64_t count_below(std::span<const float> x, float threshold) {
  std::int64_t total = 0;
  parallel_for(static_cast<std::int64_t>(x.size()), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t below = 0;
#pragma omp simd reduction(+ : below)
    for (std::int64_t i = begin; i < end; ++i) below += std::fabs(x[static_cast<std::size_t>(i)]) < threshold ? 1 : 0;
#pragma omp atomic
    total += below;
  });
  return total;
}

}  // namespace

float ladder_threshold(std::span<const float> x, double target) {
  const auto* const reached = std::partition_point(
      std::begin(ladder), std::end(ladder), [&](float threshold) { return static_cast<double>(count_below(x, threshold)) < target * static_cast<double>(x.size()); });
  return reached == std::begin(ladder) ? 0 : *(reached - 1);
}

void KeptElements::select(ConstTensorView x, ThresholdRule rule, double target, const MessageKey& key, std::span<std::uint64_t> words) {
  const std::int64_t n = x.elements();
  const std::int64_t k = rule == ThresholdRule::ladder ? n - count_below(x.as<float>(), ladder_threshold(x.as<float>(), target))
                                                       : std::max<std::int64_t>(1, std::llround((1 - target) * static_cast<double>(n)));
  selection_.select(x, k, key);
  constexpr std::int64_t block_words = sparse_block / 64;
  parallel_ranges(sparse_blocks(n), 1, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t b = first; b < last; ++b) {
      std::uint64_t* const own = words.data() + b * block_words;
      const auto left = static_cast<std::int64_t>(words.size()) - b * block_words;
      std::memset(own, 0, static_cast<std::size_t>(std::min(block_words, left)) * sizeof *own);
      const auto offsets = selection_.offsets(b, nullptr);
      const float* const values = selection_.values(b);
      const auto set = [&](std::size_t i) { own[offsets[i] / 64] |= std::uint64_t{values[i] != 0 ? 1u : 0u} << offsets[i] % 64; };
      // Neighbours of a list share a word and wait for each other's store: four stretches of the list in turn do not.
      const std::size_t stretch = offsets.size() / 4;
      for (std::size_t i = 0; i < stretch; ++i) set(i), set(stretch + i), set(2 * stretch + i), set(3 * stretch + i);
      for (std::size_t i = 4 * stretch; i < offsets.size(); ++i) set(i);
    }
  });
}

void KeptElements::expand(std::span<float> out) const {
  TW_ASSERT(static_cast<std::int64_t>(out.size()) == selection_.elements());
  parallel_ranges(sparse_blocks(selection_.elements()), 1, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t b = first; b < last; ++b) {
      const auto own = out.subspan(static_cast<std::size_t>(b * sparse_block));
      std::memset(own.data(), 0, std::min(own.size(), static_cast<std::size_t>(sparse_block)) * sizeof(float));
      const auto offsets = selection_.offsets(b, nullptr);
      const float* const values = selection_.values(b);
      for (std::size_t i = 0; i < offsets.size(); ++i) own[offsets[i]] = values[i];
    }
  });
}

}  // namespace thinwire
