// Exact selection of the k largest |x| of a tensor; among equal magnitudes the lower position wins. No sort:
//   1. a random sample bounds the k-th magnitude from below (with a margin of some standard deviations),
//   2. one SIMD pass collects every element from the bound on (and again with a lower bound in the rare case
//   that
//      these are fewer than k),
//   3. histograms of the collected magnitudes, each 2048 times finer than the last, find the k-th exactly,
//   4. the collected elements above it stay, and the first of those equal to it.
// The result does not depend on the sample or on the number of threads.
#pragma once

#include "core/device/tensor.h"
#include "kernels/codec/payload/message_key.h"
#include "kernels/sparse/positions.h"

namespace thinwire {

class TopMagnitudes final : public SparsePositions {
 public:
  /// Selects min(k, elements) elements of `x`; throws RuntimeFailure naming the message and the position when
  /// x holds NaN or infinity. Until the next call this object is the selection, values included.
  void select(ConstTensorView x, std::int64_t k, const MessageKey& key);

  /// Deep gradient compression's selection (kernels/sparse/sampled_magnitudes.cpp): about k, and at most k, elements from a threshold on that a sample gives.
  struct Sampling {
    double share = 0.01;    ///< of the elements that are looked at for the threshold, at least
    bool in_order = false;  ///< a few too many are cut off at the end of the tensor (released); else the smallest are
  };
  void select_sampled(ConstTensorView x, std::int64_t k, const Sampling& sampling, const MessageKey& key);

  std::int64_t elements() const override { return elements_; }
  std::int64_t start(std::int64_t block) const override { return starts_[static_cast<std::size_t>(block)]; }
  std::span<const std::uint16_t> offsets(std::int64_t block, std::uint16_t*) const override;
  const float* values(std::int64_t block) const override;

 private:
  /// What one thread collected: blocks in order, each a run of (offset, value).
  struct Collected {
    Buffer offsets, values, work;
    std::size_t count = 0, inside = 0;
    std::int64_t first_block = 0, last_block = 0;
    std::vector<std::uint32_t> histogram;
    void make_room(std::size_t more);
  };
  struct Run {
    int thread = 0;
    std::size_t first = 0, count = 0;
  };
  struct Threshold {
    std::uint32_t bits = 0;  // magnitude of the k-th element
    std::int64_t equal = 0;  // how many of that magnitude are kept
  };

  template <typename Body>
  void over_lists(const Body& body);
  void begin(std::int64_t elements);
  float sampled_threshold(std::span<const float> x, std::int64_t k, double share, const MessageKey& key);
  void keep_first(std::int64_t k);
  std::uint32_t sampled_bound(std::span<const float> x, std::int64_t rank_in_sample);
  std::int64_t collect(std::span<const float> x, std::uint32_t lower, std::uint32_t& maximum);
  Threshold find_threshold(std::uint32_t lower, std::uint32_t maximum, std::int64_t k);
  void keep(Threshold threshold);

  std::int64_t elements_ = 0;
  std::vector<Collected> collected_;
  std::vector<Run> runs_;  // per block
  std::vector<std::int64_t> starts_;
  std::vector<std::uint32_t> sample_, rest_;
  std::vector<float> strided_;
};

}  // namespace thinwire
