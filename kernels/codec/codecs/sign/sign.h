// Signs with scales; formulas and payload: sign.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/device/device.h"
#include "kernels/codec/capabilities.h"
#include "kernels/codec/codecs/sign/sign_cut.h"
#include "kernels/simd/codes/uniform_codes.h"
#include "kernels/threads.h"

namespace thinwire {

class Parameters;

enum class SignScope { tensor, row, block };

struct SignOptions {
  SignScale scale = SignScale::l1;
  SignScope scope = SignScope::tensor;
  std::int64_t block = 4096;
};

/// UsageError for what cannot be.
SignOptions sign_options(const Parameters& p);

/// A tensor as lines. They are worked on in stripes, cut by their length alone, so that sums do not depend on threads; of 16 KiB of f32: the second look at them finds them
/// in the cache.
struct SignLines : SignCut {
  SignLines(const Shape& shape, const SignOptions& o)
      : SignCut(shape.elements(), o.scope == SignScope::tensor ? shape.elements() : o.scope == SignScope::row ? shape.columns() : o.block, o.scale != SignScale::none) {}

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
  explicit Sign(const SignOptions& options) : options_(options) { traits_.encode_goal = traits_.decode_goal = 0.7; }

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

/// Votes are counted in bytes up to the one number of ranks, in words up to the other.
inline constexpr int most_votes_in_bytes = 255, most_votes = 65535;
/// The type of such counts; UsageError beyond.
DType type_of_votes(int world);

/// The majority of signs over ranks (capability Rounds).
class SignVote final : public Sign, public Rounds {
 public:
  explicit SignVote(const SignOptions& options);
  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) override;
  void end_rounds(const MessageKey& key, int world, TensorView sum) override;
  void own_decoded(const MessageKey& key, TensorView out) override;
  bool keeps_apart() const override { return true; }
  void use_place(int place) override { held_.use(place); }

 private:
  /// out = what so many voters say by these counts; `scales` null: 1 of each voter.
  void expand(const Buffer& counts, const float* scales, const SignLines& lines, int voters, TensorView out) const;

  struct Held {
    Buffer sent, received;  ///< negative signs, by element
    Buffer sent_scales, received_scales;
  };
  Places<Held> held_;
  bool narrow_ = true;  ///< counts are bytes, else words: by the number of ranks
};

}  // namespace thinwire
