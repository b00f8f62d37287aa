// Floats of 8 bits with an f32 scale for the tensor, a row, or a block of a row (Micikevicius et al., "FP8 Formats for Deep Learning", arXiv 2209.05433; blocks of
// 128 as in DeepSeek-V3, arXiv 2412.19437). In f32:
//   scale = max |x| / max, max the largest number of the element (448, 57344); 1 where all are zero
//   code  = element of x * (1 / scale), rounded half to even, clamped to +-max;  decoded = value * scale
// Scales are at least 2^-100, so that their inverse is finite.
// Payload: scales f32, codes, one byte each.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/codec/codecs/block/block_float.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

constexpr float smallest_scale = 0x1p-100f;

/// `most`: the largest number of the element.
inline float scale_of(float largest, float most) {
  const float scale = std::max(largest / most, smallest_scale);
  return largest == 0 ? 1 : scale;
}

class Fp8 final : public BlockFloat {
 public:
  /// `block` 0: a scale for each row; of_tensor: one for all.
  Fp8(const simd::MiniFloat& format, std::int64_t block, bool of_tensor)
      : BlockFloat("fp8", format, {.bits = 0, .block = of_tensor ? 4096 : block, .head_bytes = of_tensor ? sizeof(float) : 0u, .scale_bytes = of_tensor ? 0u : sizeof(float), .reads_twice = of_tensor}),
        of_tensor_(of_tensor) {}

 private:
  float largest_scale() const { return std::numeric_limits<float>::max() / format().largest; }
  float write_head(float largest, std::byte* head) const override {
    const float scale = scale_of(largest, format().largest);
    std::memcpy(head, &scale, sizeof scale);
    return scale;
  }
  float read_head(const std::byte* head, const MessageKey& key) const override {
    float scale = 0;
    std::memcpy(&scale, head, sizeof scale);
    if (!(scale >= smallest_scale && scale <= largest_scale())) throw CorruptData("fp8: the scale of " + text_of(key) + " is none that is ever written: the payload is damaged");
    return scale;
  }
  void write_scales(std::span<const std::uint32_t> maxima, float head, std::byte* scales, float* factors) const override {
    if (of_tensor_) {
      std::fill_n(factors, maxima.size(), 1.0f / head);
      return;
    }
    const float largest = format().largest;
    const std::uint32_t* const most = maxima.data();
    const std::size_t blocks = maxima.size();
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) factors[b] = scale_of(std::bit_cast<float>(most[b]), largest);
    std::memcpy(scales, factors, blocks * sizeof(float));
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) factors[b] = 1.0f / factors[b];
  }
  bool read_scales(const std::byte* scales, std::size_t count, float head, float* factors) const override {
    if (of_tensor_) {
      std::fill_n(factors, count, head);
      return true;
    }
    std::memcpy(factors, scales, count * sizeof(float));
    const float most = largest_scale();
    int misfits = 0;
#pragma omp simd reduction(+ : misfits)
    for (std::size_t b = 0; b < count; ++b) misfits += (factors[b] >= smallest_scale ? 0 : 1) + (factors[b] <= most ? 0 : 1);
    return misfits == 0;
  }
  bool of_tensor_;
};

// The nearest number of the element by its spacing, in float64; scale and x * (1 / scale) are rounded to f32, as the formula has them: a tie of theirs is one here.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Parameters& p = stack.expression.codec.parameters;
  const simd::MiniFloat f = mini_float_named(p.choice("element"));
  const std::span<const float> x = tensor.as<float>();
  const std::string& of = p.choice("scale");
  const std::size_t row_width = of == "tensor" ? x.size() : static_cast<std::size_t>(tensor.shape().columns());
  const std::size_t width = of == "block" ? static_cast<std::size_t>(p.integer("block")) : row_width;
  std::vector<double> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += row_width)
    for (std::size_t begin = row; begin < row + row_width; begin += width) {
      const std::size_t end = std::min(begin + width, row + row_width);
      float most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(x[i]));
      const float scale = scale_of(most, f.largest), factor = 1.0f / scale;
      for (std::size_t i = begin; i < end; ++i) {
        const double y = std::min(std::fabs(x[i]) * factor, f.largest);
        const int exponent = y == 0 ? f.min_exponent : std::max(std::ilogb(y), f.min_exponent);
        const double step = std::ldexp(1.0, exponent - f.mantissa);
        out[i] = std::copysign(std::nearbyint(y / step) * step * double{scale}, x[i]);
      }
    }
  require_near_reference(decoded, out, 1e-6);
  return "scalar formula in float64";
}

const bool registered = register_codec(
    {.name = "fp8",
     .summary = "floats of 8 bits, an f32 scale for the tensor, a row or a block",
     .source = "Micikevicius et al. (arXiv 2209.05433); blocks: DeepSeek-V3 (arXiv 2412.19437)",
     .parameters = {{.name = "element", .kind = ParameterSpec::Kind::choice, .default_value = "e4m3", .choices = {"e4m3", "e5m2"}, .help = "exponent and mantissa bits"},
                    {.name = "scale", .kind = ParameterSpec::Kind::choice, .default_value = "block", .choices = {"tensor", "row", "block"}, .help = "what shares a scale"},
                    {.name = "block", .kind = ParameterSpec::Kind::integer, .default_value = "128", .minimum = 16, .maximum = 4096, .help = "neighbours of a row that share a scale; a multiple of 16"}},
     .presets = {"element=e5m2", "scale=tensor"},
     .make =
         [](const Parameters& p, Form) {
           const std::int64_t block = p.integer("block");
           if (block % 16 != 0) throw UsageError("'fp8:block=" + std::to_string(block) + "': a block is a multiple of 16");
           return std::make_unique<Fp8>(mini_float_named(p.choice("element")), p.choice("scale") == "row" ? 0 : block, p.choice("scale") == "tensor");
         },
     .check = check_formula});

}  // namespace
}  // namespace thinwire
