// Signs with a scale. With x the n elements of a tensor, a row or a block of neighbours:
//   decoded[i] = s * sign(x[i]),   sign(0) = +1
//   scale=l1    s = mean |x|            EF-SGD (Karimireddy et al., arXiv 1901.09847)
//   scale=l2    s = ||x||_2 / sqrt(n)   1-bit Adam (Tang et al., arXiv 2102.02888)
//   scale=none  s = 1                   signSGD (Bernstein et al., arXiv 1802.04434)
// (docs/papers/gradient_compression.md, "Signs".) One bit has no third value: signSGD's and EF-SGD's own sign(0) = 0 cannot travel, and +1 is what 1-bit Adam and the
// code of the majority vote send. Zeros come back as s; with `+ef` the next message takes it back.
// Payload: scales f32, one per tensor, row or block (none: left out), then one bit per element, 1 = negative, lowest bit first; the bits of a row or block end with
// their last byte.
// vote=majority: sign_vote.cpp.
#include "kernels/codec/codecs/sign/sign.h"

#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/signs.h"

namespace thinwire {

namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches

/// Of the stripes of a line: sums t[j] of p[j], p[256 + j], ..., then t[j] + t[j + 128] and so on by halves. A device has a thread for each t[j].
double line_sum(const double* p, std::int64_t stripes) {
  if (stripes == 1) return p[0];
  std::array<double, SignCut::sums> t{};
  for (std::int64_t s = 0; s < stripes; ++s) t[static_cast<std::size_t>(s % SignCut::sums)] += p[s];
  for (std::size_t half = t.size() / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) t[j] += t[j + half];
  return t[0];
}

}  // namespace

std::span<const float> Sign::scales_of(const SignLines& lines, ConstTensorView x, const MessageKey& key) {
  const double* const partials = partials_.as<double>(static_cast<std::size_t>(lines.count * lines.stripes));
  float* const scales = scales_.as<float>(static_cast<std::size_t>(lines.count));
  parallel_for(lines.count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t length = lines.length_of(line);
      const double sum = line_sum(partials + line * lines.stripes, (length + SignCut::stripe - 1) / SignCut::stripe);
      if (!std::isfinite(sum)) check_finite(x, text_of(key));
      const double mean = sum / static_cast<double>(length);
      scales[line] = options_.scale == SignScale::none ? 1.0f : static_cast<float>(options_.scale == SignScale::l2 ? std::sqrt(mean) : mean);
    }
  });
  return {scales, static_cast<std::size_t>(lines.count)};
}

std::size_t Sign::write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  const SignLines lines(x.shape(), options_);
  TW_ASSERT(payload.size() >= lines.payload_bytes());
  auto* const bytes = reinterpret_cast<std::uint8_t*>(payload.data());
  const auto pack = options_.scale == SignScale::l2 ? simd::pack_signs_and_sum_squares : simd::pack_signs_and_sum_magnitudes;  // without a scale: whether all are finite
  const std::span<const float> scales = scan(x, lines, key, [&](const float* values, std::int64_t line, std::int64_t from, std::int64_t count) {
    return pack(values, static_cast<std::size_t>(count), bytes + lines.bits_at(line) + from / 8);
  });
  if (lines.scales > 0) std::memcpy(payload.data(), scales.data(), scales.size_bytes());
  return lines.payload_bytes();
}

void Sign::expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
  const SignLines lines(out.shape(), options_);
  check_payload_size(payload.size(), lines.payload_bytes(), "sign", out.shape(), key);
  float* const values = out.as<float>().data();
  const bool stream = !add && out.bytes() >= stream_from_bytes;
  lines.for_stripes(stream, [&](std::int64_t, std::int64_t line, std::int64_t from, std::int64_t count) {
    float scale = 1;
    if (lines.scales > 0) std::memcpy(&scale, payload.data() + 4 * line, sizeof scale);
    if (!std::isfinite(scale) || scale < 0) throw CorruptData("sign: scale " + std::to_string(line) + " of " + text_of(key) + " is not a finite magnitude: the payload is damaged");
    const auto* const bits = reinterpret_cast<const std::uint8_t*>(payload.data()) + lines.bits_at(line) + from / 8;
    simd::unpack_signs(bits, static_cast<std::size_t>(count), scale, values + line * lines.length + from, add, stream);
  });
}

SignOptions sign_options(const Parameters& p) {
  SignOptions o;
  const std::string &scale = p.choice("scale"), &scope = p.choice("scope");
  o.scale = scale == "l1" ? SignScale::l1 : scale == "l2" ? SignScale::l2 : SignScale::none;
  o.scope = scope == "tensor" ? SignScope::tensor : scope == "row" ? SignScope::row : SignScope::block;
  o.block = p.integer("block");
  if (o.scope != SignScope::block && p.given("block")) throw UsageError("'sign:block=" + std::to_string(o.block) + "' needs scope=block");
  if (o.block % 8 != 0) throw UsageError("'sign:block=" + std::to_string(o.block) + "': a block is a multiple of 8");
  return o;
}

namespace {

// The formulas at the top, summed in float64 in one go.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const SignOptions o = sign_options(stack.expression.codec.parameters);
  const SignLines lines(tensor.shape(), o);
  const std::span<const float> x = tensor.as<float>();
  std::vector<double> out(x.size());
  for (std::int64_t line = 0; line < lines.count; ++line) {
    const auto first = static_cast<std::size_t>(line * lines.length), end = first + static_cast<std::size_t>(lines.length_of(line));
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += o.scale == SignScale::l2 ? double{x[i]} * x[i] : std::fabs(double{x[i]});
    const double mean = sum / static_cast<double>(end - first), scale = o.scale == SignScale::none ? 1 : o.scale == SignScale::l2 ? std::sqrt(mean) : mean;
    for (std::size_t i = first; i < end; ++i) out[i] = x[i] < 0 ? -scale : scale;
  }
  require_near_reference(decoded, out, 1e-6);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "sign",
                    .summary = "1 bit per element and the mean magnitude",
                    .source = "signSGD (arXiv 1802.04434), EF-SGD (1901.09847), 1-bit Adam (2102.02888)",
                    .wire = "scales f32, then a bit an element, 1 = negative, lowest first; vote=majority: a count a byte, added up over ranks",
                    .parameters = {{.name = "scale", .kind = ParameterSpec::Kind::choice, .default_value = "l1", .choices = {"l1", "l2", "none"}, .help = "mean magnitude, root mean square, or 1"},
                                   {.name = "scope", .kind = ParameterSpec::Kind::choice, .default_value = "tensor", .choices = {"tensor", "row", "block"}, .help = "what shares a scale"},
                                   {.name = "block", .kind = ParameterSpec::Kind::integer, .default_value = "4096", .minimum = 8, .maximum = 1 << 24, .help = "neighbours that share a scale, across rows; a multiple of 8"},
                                   {.name = "vote", .kind = ParameterSpec::Kind::choice, .default_value = "mean", .choices = {"mean", "majority"}, .help = "a reduction is the mean of what ranks send, or the sign that most of them have"}},
                    .presets = {"scope=block", "scale=l2"},
                    .make = [](const Parameters& p, Form) -> std::unique_ptr<Codec> {
                      if (p.choice("vote") == "majority") return std::make_unique<SignVote>(sign_options(p));
                      return std::make_unique<Sign>(sign_options(p));
                    },
                    .check = check_formula});

}  // namespace
}  // namespace thinwire
