// Signs with scales; formulas and payload: sign.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/device/device.h"
#include "kernels/codec/capabilities.h"
#include "kernels/simd/uniform_codes.h"
#include "kernels/threads.h"

namespace thinwire {

enum class SignScale { l1, l2, none };
enum class SignScope { tensor, row, block };

struct SignOptions {
  SignScale scale = SignScale::l1;
  SignScope scope = SignScope::tensor;
  std::int64_t block = 4096;
};

/// A tensor as lines: the elements that share a scale. Lines are worked on in stripes, cut by their length alone, so that sums do not depend on threads.
struct SignLines {
  static constexpr std::int64_t stripe = 4096;  ///< 16 KiB of f32: the second look at them finds them in the cache

  SignLines(const Shape& shape, const SignOptions& o)
      : elements(shape.elements()),
        length(o.scope == SignScope::tensor ? elements : o.scope == SignScope::row ? shape.columns() : o.block),
        count(elements == 0 ? 0 : (elements + length - 1) / length),
        stripes(elements == 0 ? 0 : (length + stripe - 1) / stripe),
        scales(o.scale == SignScale::none ? 0 : count) {}
  std::int64_t elements, length, count, stripes, scales;

  /// The last line may be shorter.
  std::int64_t length_of(std::int64_t line) const { return std::min(length, elements - line * length); }
  std::size_t bits_at(std::int64_t line) const { return static_cast<std::size_t>(4 * scales + line * ((length + 7) / 8)); }
  std::size_t payload_bytes() const { return count == 0 ? 0 : bits_at(count - 1) + static_cast<std::size_t>((length_of(count - 1) + 7) / 8); }

  /// Calls body(number of the stripe, its line, its first element in the line, its elements), on several threads. `stream`: body's stores may bypass the caches.
  template <typename Body>
  void for_stripes(bool stream, const Body& body) const {
    const std::int64_t grain = std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, std::min(stripe, length)));
    parallel_ranges(count * stripes, grain, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t number = begin; number < end; ++number) {
        const std::int64_t line = number / stripes, from = number % stripes * stripe, left = length_of(line) - from;
        if (left > 0) body(number, line, from, std::min(stripe, left));
      }
      if (stream) simd::stream_fence();
    });
  }
};

class Sign : public Codec {
 public:
  explicit Sign(const SignOptions& options) : options_(options) {}

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return SignLines(shape, options_).payload_bytes(); }
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override;
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

 protected:
  /// Calls sum_of(values, stripe as of for_stripes) for every stripe of x, which returns the stripe's sum of what the scale is a mean of, and returns the scale of each
  /// line (1 without scales), in memory of this codec.
  template <typename SumOf>
  std::span<const float> scan(ConstTensorView x, const SignLines& lines, const MessageKey& key, const SumOf& sum_of);

  SignOptions options_;
  CodecTraits traits_;

 private:
  std::span<const float> scales_of(const SignLines& lines, ConstTensorView x, const MessageKey& key);
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add);

  Buffer partials_, scales_;
};

template <typename SumOf>
std::span<const float> Sign::scan(ConstTensorView x, const SignLines& lines, const MessageKey& key, const SumOf& sum_of) {
  const float* const values = x.as<float>().data();
  double* const partials = partials_.as<double>(static_cast<std::size_t>(lines.count * lines.stripes));
  lines.for_stripes(false, [&](std::int64_t number, std::int64_t line, std::int64_t from, std::int64_t count) {
    partials[number] = sum_of(values + line * lines.length + from, line, from, count);
  });
  return scales_of(lines, x, key);
}

/// The majority of signs over ranks (capability Rounds).
class SignVote final : public Sign, public Rounds {
 public:
  explicit SignVote(const SignOptions& options);
  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) override;
  void end_rounds(const MessageKey& key, int world, TensorView sum) override;
  void own_decoded(const MessageKey& key, TensorView out) override;

 private:
  /// out = what so many voters say by these counts; `scales` null: 1 of each voter.
  void expand(const Buffer& counts, const float* scales, const SignLines& lines, int voters, TensorView out) const;

  Buffer sent_, received_;  ///< negative signs, by element
  Buffer sent_scales_, received_scales_;
  bool narrow_ = true;      ///< counts are bytes, else words
};

}  // namespace thinwire
