#include "kernels/sparse/top_magnitudes.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/codec/payload/wire_values.h"
#include "kernels/simd/magnitude.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr int bins = 2048;
constexpr std::int64_t sample_size = 16384;
constexpr std::int64_t sample_run = 16;  // neighbours per random position: one cache line

// Bits to drop so that [lower, upper] falls into the bins.
int shift_for(std::uint32_t lower, std::uint32_t upper) {
  return std::max(0, static_cast<int>(std::bit_width(upper - lower)) - 11);
}

// From the highest bin down: the bin that holds the element of rank `rank` (1: the largest). `rank` becomes
// the rank inside that bin.
std::uint32_t bin_of_rank(const std::uint32_t* histogram, std::int64_t& rank) {
  for (int b = bins - 1; b > 0; --b) {
    if (histogram[b] >= rank) return static_cast<std::uint32_t>(b);
    rank -= histogram[b];
  }
  return 0;
}

// The magnitude of rank `rank` among values of [lower, upper]; `rank` becomes the rank among equals.
// Reorders.
std::uint32_t value_of_rank(std::vector<std::uint32_t>& values, std::uint32_t lower, std::uint32_t upper,
                            std::int64_t& rank) {
  std::uint32_t histogram[bins];
  for (;;) {
    const int shift = shift_for(lower, upper);
    std::memset(histogram, 0, sizeof histogram);
    for (const std::uint32_t v : values) ++histogram[(v - lower) >> shift];
    const std::uint32_t bin = bin_of_rank(histogram, rank);
    lower += bin << shift;
    if (shift == 0) return lower;
    upper = lower + (1u << shift) - 1;
    std::size_t kept = 0;
    for (const std::uint32_t v : values) {
      values[kept] = v;
      kept += v >= lower && v <= upper ? 1 : 0;
    }
    values.resize(kept);
  }
}

}  // namespace

void TopMagnitudes::Collected::make_room(std::size_t more) {
  const auto grow = [&](Buffer& buffer, std::size_t size) {
    if ((count + more) * size <= buffer.capacity()) return;
    Buffer larger((count + more) * size + buffer.capacity());
    if (count > 0) std::memcpy(larger.data(), buffer.data(), count * size);
    buffer = std::move(larger);
  };
  grow(offsets, sizeof(std::uint16_t));
  grow(values, sizeof(float));
}

std::span<const std::uint16_t> TopMagnitudes::offsets(std::int64_t block, std::uint16_t*) const {
  const Run& run = runs_[static_cast<std::size_t>(block)];
  const auto* all =
      reinterpret_cast<const std::uint16_t*>(collected_[static_cast<std::size_t>(run.thread)].offsets.data());
  return {all + run.first, run.count};
}

const float* TopMagnitudes::values(std::int64_t block) const {
  const Run& run = runs_[static_cast<std::size_t>(block)];
  return reinterpret_cast<const float*>(collected_[static_cast<std::size_t>(run.thread)].values.data()) +
         run.first;
}

void TopMagnitudes::begin(std::int64_t elements) {
  elements_ = elements;
  collected_.resize(std::max(collected_.size(), static_cast<std::size_t>(omp_get_max_threads())));
  runs_.resize(static_cast<std::size_t>(sparse_blocks(elements_)));
  starts_.resize(runs_.size() + 1);
}

void TopMagnitudes::select(ConstTensorView x, std::int64_t k, const MessageKey& key) {
  const auto values = x.as<float>();
  begin(x.elements());
  k = std::min(k, elements_);

  // The rank in the sample that bounds the k-th magnitude from below: its expectation and a margin of four
  // standard deviations, doubled because neighbours resemble each other.
  const double expected =
      elements_ > 0 ? static_cast<double>(k) / static_cast<double>(elements_) * sample_size : 0;
  auto rank = static_cast<std::int64_t>(std::ceil(expected + 8 * std::sqrt(expected) + 16));
  std::uint32_t lower = 0, maximum = 0;
  for (;;) {
    lower = elements_ >= 4 * sample_size && rank < sample_size ? sampled_bound(values, rank) : 0;
    maximum = lower;
    if (collect(values, lower, maximum) >= k || lower == 0) break;
    rank = 2 * rank;
  }
  if (maximum >= simd::non_finite_bits) check_finite(x, text_of(key));
  keep(find_threshold(lower, maximum, k));
}

// Calls body(first, last) on ranges of the threads' lists, by their threads if there is enough in them.
template <typename Body>
void TopMagnitudes::over_lists(const Body& body) {
  std::size_t total = 0;
  for (const Collected& c : collected_) total += c.count;
  const auto lists = static_cast<std::int64_t>(collected_.size());
  if (static_cast<std::int64_t>(total) <= default_grain) return body(std::int64_t{0}, lists);
  parallel_ranges(lists, 1, 1, [&](std::int64_t first, std::int64_t last, int) { body(first, last); });
}

std::uint32_t TopMagnitudes::sampled_bound(std::span<const float> x, std::int64_t rank) {
  const std::uint64_t lines = static_cast<std::uint64_t>(elements_ / sample_run);
  sample_.resize(static_cast<std::size_t>(sample_size));
  for (std::int64_t i = 0; i < sample_size / sample_run; ++i) {
    // Upper 32 random bits times the number of lines: fine for any tensor below 2^32 lines.
    const std::uint64_t line = (mix_stream(0x746f706bull, static_cast<std::uint64_t>(i)) >> 32) * lines >> 32;
    for (std::int64_t j = 0; j < sample_run; ++j)
      sample_[static_cast<std::size_t>(i * sample_run + j)] = simd::magnitude_bits(
          x[static_cast<std::size_t>(line * sample_run + static_cast<std::uint64_t>(j))]);
  }
  return value_of_rank(sample_, 0, 0x7fffffffu, rank);
}

std::int64_t TopMagnitudes::collect(std::span<const float> x, std::uint32_t lower, std::uint32_t& maximum) {
  for (Collected& c : collected_) c.count = 0, c.first_block = c.last_block = 0;
  std::int64_t total = 0;
  parallel_ranges(
      elements_, default_grain, sparse_block, [&](std::int64_t begin, std::int64_t end, int thread) {
        Collected& c = collected_[static_cast<std::size_t>(thread)];
        c.first_block = begin / sparse_block;
        c.last_block = (end + sparse_block - 1) / sparse_block;
        std::uint32_t largest = lower;
        for (std::int64_t b = c.first_block; b < c.last_block; ++b) {
          const auto length = static_cast<std::size_t>(std::min(sparse_block, end - b * sparse_block));
          c.make_room(length + simd::collect_slack);
          const std::size_t found =
              simd::collect_at_least(x.data() + b * sparse_block, length, lower,
                                     reinterpret_cast<std::uint16_t*>(c.offsets.data()) + c.count,
                                     reinterpret_cast<float*>(c.values.data()) + c.count, largest);
          runs_[static_cast<std::size_t>(b)] = {thread, c.count, found};
          c.count += found;
        }
#pragma omp critical(thinwire_top_magnitudes)
        {
          maximum = std::max(maximum, largest);
          total += static_cast<std::int64_t>(c.count);
        }
      });
  return total;
}

TopMagnitudes::Threshold TopMagnitudes::find_threshold(std::uint32_t lower, std::uint32_t maximum,
                                                       std::int64_t k) {
  if (k == 0) return {simd::non_finite_bits, 0};
  std::int64_t rank = k;
  // The first histogram and cut over all that was collected, by the threads that collected it.
  const int shift = shift_for(lower, maximum);
  over_lists([&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      Collected& c = collected_[static_cast<std::size_t>(t)];
      // Two histograms in turn: neighbours in one bin do not wait for each other's increment.
      c.histogram.assign(2 * bins, 0);
      const auto* values = reinterpret_cast<const float*>(c.values.data());
      for (std::size_t i = 0; i < c.count; ++i)
        ++c.histogram[(i & 1) * bins + ((simd::magnitude_bits(values[i]) - lower) >> shift)];
    }
  });
  std::vector<std::uint32_t>& merged = sample_;
  merged.assign(bins, 0);
  for (const Collected& c : collected_)
    for (std::size_t b = 0; b < c.histogram.size(); ++b) merged[b % bins] += c.histogram[b];
  lower += bin_of_rank(merged.data(), rank) << shift;
  if (shift == 0) return {lower, rank};
  const std::uint32_t upper = lower + (1u << shift) - 1;
  over_lists([&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      Collected& c = collected_[static_cast<std::size_t>(t)];
      auto* bits = c.work.as<std::uint32_t>(c.count + simd::collect_slack);
      c.inside = simd::magnitudes_between(reinterpret_cast<const float*>(c.values.data()), c.count, lower,
                                          upper, bits);
    }
  });
  rest_.clear();
  for (Collected& c : collected_) {
    const auto* bits = reinterpret_cast<const std::uint32_t*>(c.work.data());
    rest_.insert(rest_.end(), bits, bits + c.inside);
  }
  lower = value_of_rank(rest_, lower, upper, rank);
  return {lower, rank};
}

void TopMagnitudes::keep(Threshold threshold) {
  // The first `equal` elements of the threshold's magnitude, in order of position, stay: how many of them
  // belong to each thread's list?
  std::vector<std::uint32_t>& equal_in = sample_;
  equal_in.assign(collected_.size(), 0);
  over_lists([&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      Collected& c = collected_[static_cast<std::size_t>(t)];
      auto* bits = c.work.as<std::uint32_t>(c.count + simd::collect_slack);
      equal_in[static_cast<std::size_t>(t)] = static_cast<std::uint32_t>(simd::magnitudes_between(
          reinterpret_cast<const float*>(c.values.data()), c.count, threshold.bits, threshold.bits, bits));
    }
  });
  over_lists([&](std::int64_t first, std::int64_t last) {
    std::int64_t before = 0;
    for (std::int64_t t = 0; t < last; ++t) {
      const std::int64_t here = equal_in[static_cast<std::size_t>(t)];
      std::int64_t budget = std::clamp<std::int64_t>(threshold.equal - before, 0, here);
      // All of this list's equals stay, or none: then one bound decides.
      const bool by_bound = budget == here || budget == 0;
      const std::uint32_t bound = threshold.bits + (budget == here ? 0 : 1);
      before += here;
      if (t < first) continue;
      Collected& c = collected_[static_cast<std::size_t>(t)];
      auto* offsets = reinterpret_cast<std::uint16_t*>(c.offsets.data());
      auto* values = reinterpret_cast<float*>(c.values.data());
      std::size_t write = 0;
      for (std::int64_t b = c.first_block; b < c.last_block; ++b) {
        Run& run = runs_[static_cast<std::size_t>(b)];
        const std::size_t begin = write;
        if (by_bound) {
          const std::size_t kept =
              simd::keep_at_least(offsets + run.first, values + run.first, run.count, bound);
          if (begin != run.first) {
            std::memmove(offsets + begin, offsets + run.first, kept * sizeof(std::uint16_t));
            std::memmove(values + begin, values + run.first, kept * sizeof(float));
          }
          write += kept;
          run = {run.thread, begin, kept};
          continue;
        }
        for (std::size_t i = run.first; i < run.first + run.count; ++i) {
          const float value = values[i];
          const std::uint32_t bits = simd::magnitude_bits(value);
          const bool tie = bits == threshold.bits && budget > 0;
          offsets[write] = offsets[i];
          values[write] = value;
          budget -= tie ? 1 : 0;
          write += bits > threshold.bits || tie ? 1 : 0;
        }
        run = {run.thread, begin, write - begin};
      }
      c.count = write;
    }
  });
  std::int64_t total = 0;
  for (std::size_t b = 0; b < runs_.size(); ++b) {
    starts_[b] = total;
    total += static_cast<std::int64_t>(runs_[b].count);
  }
  starts_[runs_.size()] = total;
}

}  // namespace thinwire
