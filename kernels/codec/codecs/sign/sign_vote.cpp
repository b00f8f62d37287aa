// Majority vote of signs over W ranks (Bernstein et al., arXiv 1810.05291), as dense sums:
//   negatives[i] = sum over ranks of (x[i] < 0), one byte per element (two beyond 255 ranks)
//   s            = sum over ranks of their scales (scale=none: W, and no second round)
//   sum[i]       = 2 * negatives[i] > W ? -s : s
// so the mean over ranks is the majority's sign times the mean scale; ties are +, as in the vote's code (docs/papers/gradient_compression.md, "Signs"). A vote is no sum
// of payloads: this codec has rounds alone. A parameter server would send one bit each way (`gradient_compression.C28`); a sum of counts sends eight.
#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "kernels/codec/codecs/sign/sign.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/simd/signs.h"

namespace thinwire {
namespace {

template <typename Count>
void count_negatives(const float* x, std::int64_t n, Count* counts) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) counts[i] = x[i] < 0 ? Count{1} : Count{0};
}

/// out[i] = -scale where more than `limit` are negative.
template <typename Count>
void vote(const Count* counts, std::int64_t n, int limit, float scale, float* out) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = counts[i] > limit ? -scale : scale;
}

}  // namespace

DType type_of_votes(int world) {
  if (world > most_votes) throw UsageError("sign:vote=majority counts votes in 16 bits: at most " + std::to_string(most_votes) + " ranks, not " + std::to_string(world));
  return world <= most_votes_in_bytes ? DType::u8 : DType::u16;
}

SignVote::SignVote(const SignOptions& options) : Sign(options) {
  traits_.gather = false;
  traits_.loss_is_own = false;  // the majority is no sum of what the ranks sent
  traits_.rounds = options.scale == SignScale::none ? 1 : 2;
  traits_.rounds_per_shard = traits_.rounds == 1;
  traits_.operators = {ReduceOp::sum};
}

Round SignVote::begin_round(int r, ConstTensorView x, const MessageKey& key, int world) {
  const SignLines lines(x.shape(), options_);
  const auto scale_bytes = static_cast<std::size_t>(lines.scales) * sizeof(float);
  if (r == 1) return {{held_->sent_scales.data(), scale_bytes}, {held_->received_scales.data(), scale_bytes}, DType::f32, ReduceOp::sum};
  const DType type = type_of_votes(world);
  const std::size_t bytes = static_cast<std::size_t>(lines.elements) * size_of(type);
  held_->sent.reserve(bytes);
  held_->received.reserve(bytes);
  narrow_ = type == DType::u8;
  auto* const bytes_of = reinterpret_cast<std::uint8_t*>(held_->sent.data());
  auto* const words_of = reinterpret_cast<std::uint16_t*>(held_->sent.data());
  const std::span<const float> scales = scan(x, lines, key, [&](const float* values, std::int64_t line, std::int64_t from, std::int64_t count) {
    const std::int64_t at = line * lines.length + from;
    narrow_ ? count_negatives(values, count, bytes_of + at) : count_negatives(values, count, words_of + at);
    const auto n = static_cast<std::size_t>(count);
    return options_.scale == SignScale::l2 ? simd::sum_of_squares(values, n) : simd::sum_of_magnitudes(values, n);
  });
  held_->received_scales.reserve(scale_bytes);
  if (scale_bytes > 0) std::memcpy(held_->sent_scales.as<float>(scales.size()), scales.data(), scale_bytes);
  return {{held_->sent.data(), bytes}, {held_->received.data(), bytes}, type, ReduceOp::sum};
}

void SignVote::end_rounds(const MessageKey& key, int world, TensorView sum) {
  const SignLines lines(sum.shape(), options_);
  const float* const scales = held_->received_scales.as<float>(static_cast<std::size_t>(lines.scales));
  for (std::int64_t line = 0; line < lines.scales; ++line)
    if (!std::isfinite(scales[line]))
      throw NonFiniteData("sign: the sum of scales " + std::to_string(line) + " of " + text_of(key) + " is not finite: it is damaged, or overflowed f32");
    else if (scales[line] < 0)
      throw CorruptData("sign: the sum of scales " + std::to_string(line) + " of " + text_of(key) + " is negative: it is damaged");
  expand(held_->received, lines.scales > 0 ? scales : nullptr, lines, world, sum);
}

void SignVote::own_decoded(const MessageKey&, TensorView out) {
  const SignLines lines(out.shape(), options_);
  expand(held_->sent, lines.scales > 0 ? held_->sent_scales.as<float>(static_cast<std::size_t>(lines.scales)) : nullptr, lines, 1, out);
}

void SignVote::expand(const Buffer& counts, const float* scales, const SignLines& lines, int voters, TensorView out) const {
  float* const values = out.as<float>().data();
  const auto* const bytes_of = reinterpret_cast<const std::uint8_t*>(counts.data());
  const auto* const words_of = reinterpret_cast<const std::uint16_t*>(counts.data());
  const int limit = voters / 2;
  lines.for_stripes(false, [&](std::int64_t, std::int64_t line, std::int64_t from, std::int64_t count) {
    const std::int64_t at = line * lines.length + from;
    const float scale = scales != nullptr ? scales[line] : static_cast<float>(voters);
    narrow_ ? vote(bytes_of + at, count, limit, scale, values + at) : vote(words_of + at, count, limit, scale, values + at);
  });
}

}  // namespace thinwire
