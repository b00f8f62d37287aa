// OCP Microscaling (MX) v1.0: blocks of 32 neighbours of the last axis share a scale, a power of two in one byte, s = e + 127; elements are floats of 4, 6 or 8
// bits. Scale rules and roundings as of torchao's prototype/mx_formats (docs/papers/low_bandwidth_pipeline.md, "MX and NVFP4"), with a = max |x| of the block,
// emax the exponent and max the size of the largest number of the element:
//   floor (the specification)  e = floor(log2 a) - emax; the largest elements may saturate
//   ceil                       e + 1 where a is no power of two
//   even                       floor of a rounded to the element's mantissa bits
//   rceil                      least e with a <= max 2^e, as a * fp32(1/max) says
//   s clamped to 0 .. 254 - emax, so that every element is a finite f32 (ours; the specification ends at 254); element = round half even(x 2^(127 - s)), clamped to +-max
// Payload: scale bytes of all blocks, codes; 4 bits: first element in the low half of a byte; 6 bits: one stream, first code in the highest bits (ours: torchao spends a
// byte on each).
#include "kernels/codec/codecs/block/mx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "kernels/codec/codecs/block/block_float.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

constexpr std::int64_t block = 32;
constexpr BlockLayout layout_of(const simd::MiniFloat& format) { return {.bits = format.bits, .block = block, .head_bytes = 0, .scale_bytes = 1, .reads_twice = false}; }
constexpr std::uint32_t mantissa_bits = 0x7fffff;

/// What loses least on normal numbers (docs/papers/low_bandwidth_pipeline.md, claim C19).
MxScaleRule best_rule(const std::string& element) { return element == "e2m1" || element == "e2m3" ? MxScaleRule::even : MxScaleRule::rceil; }

MxScaleRule rule_of(const Parameters& p) {
  const std::string& name = p.choice("scale");
  return name == "auto" ? best_rule(p.choice("element")) : name == "floor" ? MxScaleRule::floor : name == "ceil" ? MxScaleRule::ceil : name == "even" ? MxScaleRule::even : MxScaleRule::rceil;
}

/// Of a block whose largest magnitude has these bits.
template <MxScaleRule rule>
inline int scale_of(std::uint32_t bits, const simd::MiniFloat& f, float inverse_largest) {
  int s = 0;
  if constexpr (rule == MxScaleRule::rceil) {
    const auto v = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) * inverse_largest);
    s = static_cast<int>(v >> 23);
    s += s > 0 ? static_cast<int>((v & mantissa_bits) != 0) : static_cast<int>(v > 0x400000);  // below the normal numbers 2^-127, s = 0, is half their step
  } else {
    const std::uint32_t half_step = rule == MxScaleRule::even ? std::uint32_t{1} << (22 - f.mantissa) : 0;
    s = static_cast<int>((bits + half_step) >> 23) - f.max_exponent;
    if (rule == MxScaleRule::ceil) s += static_cast<int>((bits & mantissa_bits) != 0);
  }
  return bits == 0 ? 0 : std::clamp(s, 0, 254 - f.max_exponent);
}

using ScaleOf = int (*)(std::uint32_t, const simd::MiniFloat&, float);
ScaleOf scale_function(MxScaleRule rule) {
  constexpr std::array<ScaleOf, 4> of = {scale_of<MxScaleRule::floor>, scale_of<MxScaleRule::ceil>, scale_of<MxScaleRule::even>, scale_of<MxScaleRule::rceil>};
  return of[static_cast<std::size_t>(rule)];
}

/// 2^n for -127 <= n <= 127.
float power_of_two(int n) { return std::bit_cast<float>(n > -127 ? static_cast<std::uint32_t>(n + 127) << 23 : 0x400000u); }

class Mx final : public BlockFloat {
 public:
  Mx(const simd::MiniFloat& format, MxScaleRule rule)
      : BlockFloat("mx", format, layout_of(format)), rule_(rule), inverse_largest_(1.0f / format.largest) {}

 private:
  template <MxScaleRule rule>
  void write(std::span<const std::uint32_t> maxima, std::byte* scales, float* factors) const {
    const simd::MiniFloat f = format();
    const float inverse_largest = inverse_largest_;
    const std::uint32_t* const most = maxima.data();
    const std::size_t blocks = maxima.size();
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) {
      const int s = scale_of<rule>(most[b], f, inverse_largest);
      scales[b] = static_cast<std::byte>(s);
      factors[b] = power_of_two(127 - s);
    }
  }
  void write_scales(std::span<const std::uint32_t> maxima, float, std::byte* scales, float* factors) const override {
    switch (rule_) {
      case MxScaleRule::floor:
        return write<MxScaleRule::floor>(maxima, scales, factors);
      case MxScaleRule::ceil:
        return write<MxScaleRule::ceil>(maxima, scales, factors);
      case MxScaleRule::even:
        return write<MxScaleRule::even>(maxima, scales, factors);
      case MxScaleRule::rceil:
        return write<MxScaleRule::rceil>(maxima, scales, factors);
    }
  }
  bool read_scales(const std::byte* scales, std::size_t count, float, float* factors) const override {
    const int above = 255 - format().max_exponent;  // 255 itself is the format's NaN
    int misfits = 0;
#pragma omp simd reduction(+ : misfits)
    for (std::size_t b = 0; b < count; ++b) {
      const int s = static_cast<int>(scales[b]);
      misfits += s < above ? 0 : 1;
      factors[b] = power_of_two(std::min(s, 254) - 127);
    }
    return misfits == 0;
  }
  MxScaleRule rule_;
  float inverse_largest_;
};

class CudaMx final : public CudaCodec {
 public:
  CudaMx(std::unique_ptr<Codec> host, const simd::MiniFloat& format, MxScaleRule rule)
      : CudaCodec("mx", std::move(host)), format_(format), rule_(rule), largest_code_(mini_code(format.largest, format)) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<int(const float*, BlockCut, simd::MiniFloat, MxScaleRule, void*, std::uint32_t*, int, void*)> entry("thinwire_cuda_mx_encode");
    entry(x, cut_of(shape), format_, rule_, static_cast<void*>(payload.data()), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<int(const void*, BlockCut, simd::MiniFloat, int, float*, int, std::uint32_t*, int, void*)> entry("thinwire_cuda_mx_decode");
    entry(static_cast<const void*>(payload.data()), cut_of(shape), format_, int{largest_code_}, out, add ? 1 : 0, payload_status());
  }
  BlockCut cut_of(const Shape& shape) const { return {shape.rows(), shape.columns(), layout_of(format_)}; }

  simd::MiniFloat format_;
  MxScaleRule rule_;
  std::uint8_t largest_code_;
};

/// Sizes of all codes without sign, ascending.
std::vector<double> sizes_of(const simd::MiniFloat& f) {
  std::vector<double> sizes;
  for (int code = 0; code <= mini_code(f.largest, f); ++code) sizes.push_back(mini_value(static_cast<std::uint8_t>(code), f));
  return sizes;
}

/// Nearest of them, of two equally near ones that of the even code.
double nearest(const std::vector<double>& sizes, double y) {
  const auto above = static_cast<std::size_t>(std::lower_bound(sizes.begin(), sizes.end(), y) - sizes.begin());
  if (above == 0 || above == sizes.size()) return sizes[above == 0 ? 0 : above - 1];
  const double up = sizes[above] - y, down = y - sizes[above - 1];
  return up < down || (up == down && above % 2 == 0) ? sizes[above] : sizes[above - 1];
}

// The nearest of all numbers of the element, in float64.
std::string check_nearest(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Parameters& p = stack.expression.codec.parameters;
  const simd::MiniFloat f = mini_float_named(p.choice("element"));
  const std::vector<double> sizes = sizes_of(f);
  const ScaleOf scale = scale_function(rule_of(p));
  const std::span<const float> x = tensor.as<float>();
  const std::int64_t columns = tensor.shape().columns();
  std::vector<double> out(x.size());
  for (std::int64_t r = 0; r < tensor.shape().rows(); ++r)
    for (std::int64_t begin = 0; begin < columns; begin += block) {
      const std::int64_t end = std::min(columns, begin + block);
      float most = 0;
      for (std::int64_t c = begin; c < end; ++c) most = std::max(most, std::fabs(x[static_cast<std::size_t>(r * columns + c)]));
      const double unit = std::ldexp(1.0, scale(std::bit_cast<std::uint32_t>(most), f, 1.0f / f.largest) - 127);
      for (std::int64_t c = begin; c < end; ++c) {
        const auto i = static_cast<std::size_t>(r * columns + c);
        out[i] = std::copysign(nearest(sizes, std::fabs(x[i]) / unit) * unit, x[i]);
      }
    }
  require_near_reference(decoded, out, 0);
  return "nearest number of the format, in float64";
}

const bool registered = register_codec({.name = "mx",
                                        .summary = "floats of 4, 6 or 8 bits, a power of two as scale for 32 neighbours (MXFP4, MXFP6, MXFP8)",
                                        .source = "OCP Microscaling Formats v1.0; scale rules of torchao prototype/mx_formats",
                                        .wire = "a scale byte for each 32 elements, then codes; of 4 bits the first in the low half of a byte, of 6 bits one stream, first code highest",
                                        .parameters = {{.name = "element", .kind = ParameterSpec::Kind::choice, .default_value = "e4m3", .choices = mini_float_names(), .help = "exponent and mantissa bits of an element"},
                                                       {.name = "scale",
                                                        .kind = ParameterSpec::Kind::choice,
                                                        .default_value = "auto",
                                                        .choices = {"auto", "floor", "ceil", "even", "rceil"},
                                                        .help = "how the largest element chooses the scale; auto: even for e2m1 and e2m3, else rceil"}},
                                        .presets = {"element=e2m1", "element=e2m3", "element=e3m2"},
                                        .make = [](const Parameters& p, Form) { return std::make_unique<Mx>(mini_float_named(p.choice("element")), rule_of(p)); },
                                        .check = check_nearest});
const bool cuda = register_cuda("mx", [](const Parameters& p, Form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaMx>(std::move(host), mini_float_named(p.choice("element")), rule_of(p));
});

}  // namespace
}  // namespace thinwire
