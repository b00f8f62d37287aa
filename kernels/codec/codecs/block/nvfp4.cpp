// NVFP4: e2m1 elements in blocks of 16 neighbours, each with an e4m3 scale, and one f32 scale of the tensor (docs/papers/low_bandwidth_pipeline.md, "MX and
// NVFP4"; arithmetic as of torchao's prototype/mx_formats, in f32):
//   g = amax of the tensor / 2688 (= 448 * 6);  s = e4m3(clamp((a / 6) / g, 2^-6, 448)), a the block's largest magnitude
//   y = x * ((1 / g) / s), rounded half to even, clamped to +-6;  decoded = code * (s * g)
// levels=1: g = 1, not sent; then a block whose largest magnitude is beyond 2688 saturates there, and numbers below 2^-8 become 0 (a quarter of the least code,
// 0.5, times the least scale). Ours: g is at least 2^-100, so that 1 / g is finite; of a tensor of zeros g is 0.
// Payload: g (f32, levels=2), scale bytes of all blocks, codes, first element in the low half of a byte.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/codec/codecs/block/block_float.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

constexpr std::int64_t block = 16;
constexpr float smallest_scale = 0x1p-6f, smallest_head = 0x1p-100f;

const simd::MiniFloat element = mini_float_named("e2m1"), scale_format = mini_float_named("e4m3");

float head_of(float largest) { return largest == 0 ? 0 : std::max(largest / 2688.0f, smallest_head); }

BlockLayout layout_of(bool two_levels) {
  return {.bits = element.bits, .block = block, .head_bytes = two_levels ? sizeof(float) : 0u, .scale_bytes = 1, .reads_twice = two_levels};
}

/// `head` is 1 where g = 0: then all are zero.
inline float wanted_scale(float largest, float head, float most) { return std::clamp((largest / 6.0f) / head, smallest_scale, most); }

class Nvfp4 final : public BlockFloat {
 public:
  explicit Nvfp4(bool two_levels) : BlockFloat("nvfp4", element, layout_of(two_levels)) {}

 private:
  float write_head(float largest, std::byte* head) const override {
    const float g = head_of(largest);
    std::memcpy(head, &g, sizeof g);
    return g;
  }
  float read_head(const std::byte* head, const MessageKey& key) const override {
    float g = 0;
    std::memcpy(&g, head, sizeof g);
    if (!(g >= 0) || g * 2688.0f > std::numeric_limits<float>::max())
      throw CorruptData("nvfp4: the scale of " + text_of(key) + " is negative, infinite or NaN: the payload is damaged");
    return g;
  }
  void write_scales(std::span<const std::uint32_t> maxima, float g, std::byte* scales, float* factors) const override {
    const float inverse = g == 0 ? 0 : 1.0f / g, head = g == 0 ? 1 : g, largest = scale_format.largest, one = 1;
    const std::uint32_t* const most = maxima.data();
    const std::size_t blocks = maxima.size();
    auto* const codes = reinterpret_cast<std::uint8_t*>(scales);
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) factors[b] = wanted_scale(std::bit_cast<float>(most[b]), head, largest);
    simd::encode_mini_floats(factors, blocks, blocks, &one, scale_format, codes);
    simd::decode_mini_floats(codes, blocks, blocks, &one, scale_format, factors, false, false);
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) factors[b] = inverse / factors[b];
  }
  bool read_scales(const std::byte* scales, std::size_t count, float g, float* factors) const override {
    simd::decode_mini_floats(reinterpret_cast<const std::uint8_t*>(scales), count, count, &g, scale_format, factors, false, false);
    int misfits = 0;
#pragma omp simd reduction(+ : misfits)
    for (std::size_t b = 0; b < count; ++b) {
      const int code = static_cast<int>(scales[b]);
      misfits += code >= 8 && code <= 126 ? 0 : 1;  // from 2^-6 to 448; others are never written
    }
    return misfits == 0;
  }
};

class CudaNvfp4 final : public CudaCodec {
 public:
  CudaNvfp4(std::unique_ptr<Codec> host, bool two_levels) : CudaCodec("nvfp4", std::move(host)), two_levels_(two_levels) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<int(const float*, BlockCut, simd::MiniFloat, simd::MiniFloat, void*, std::uint32_t*, std::uint32_t*, int, void*)> entry("thinwire_cuda_nvfp4_encode");
    std::byte* const maximum = two_levels_ ? device_workspace(sizeof(std::uint32_t)) : nullptr;
    entry(x, cut_of(shape), element, scale_format, static_cast<void*>(payload.data()), reinterpret_cast<std::uint32_t*>(maximum), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<int(const void*, BlockCut, simd::MiniFloat, simd::MiniFloat, float*, int, std::uint32_t*, int, void*)> entry("thinwire_cuda_nvfp4_decode");
    entry(static_cast<const void*>(payload.data()), cut_of(shape), element, scale_format, out, add ? 1 : 0, payload_status());
  }
  BlockCut cut_of(const Shape& shape) const { return {shape.rows(), shape.columns(), layout_of(two_levels_)}; }

  bool two_levels_;
};

// The formula at the top with the nearest of the eight sizes, in float64 but for the scales, whose roundings are part of it.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const std::span<const float> x = tensor.as<float>();
  const std::int64_t columns = tensor.shape().columns();
  float all = 0;
  for (const float v : x) all = std::max(all, std::fabs(v));
  const float g = stack.expression.codec.parameters.integer("levels") == 2 ? head_of(all) : 1.0f;
  constexpr std::array sizes = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  std::vector<double> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(columns))
    for (std::size_t begin = row; begin < row + static_cast<std::size_t>(columns); begin += block) {
      const std::size_t end = std::min(begin + block, row + static_cast<std::size_t>(columns));
      float most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(x[i]));
      const std::uint8_t code = mini_code(wanted_scale(most, g == 0 ? 1 : g, scale_format.largest), scale_format);
      const double scale = double{mini_value(code, scale_format)} * g;
      for (std::size_t i = begin; i < end; ++i) {
        const double y = scale == 0 ? 0 : std::fabs(x[i]) / scale;
        std::size_t best = 0;
        for (std::size_t c = 1; c < sizes.size(); ++c)
          if (std::fabs(sizes[c] - y) < std::fabs(sizes[best] - y) || (std::fabs(sizes[c] - y) == std::fabs(sizes[best] - y) && c % 2 == 0)) best = c;
        out[i] = std::copysign(sizes[best] * scale, x[i]);
      }
    }
  require_as_near(x, decoded, out);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "nvfp4",
                    .summary = "floats of 4 bits (e2m1), an e4m3 scale for 16 neighbours, an f32 scale for the tensor",
                    .source = "NVIDIA's NVFP4; arithmetic of torchao prototype/mx_formats",
                    .wire = "f32 scale of the tensor (levels=2), a scale byte for each 16 elements, then codes, first in the low half of a byte",
                    .parameters = {{.name = "levels", .kind = ParameterSpec::Kind::integer, .default_value = "2", .minimum = 1, .maximum = 2, .help = "2: block and tensor have scales; 1: blocks alone, and values beyond 2688 saturate"}},
                    .make = [](const Parameters& p, Form) { return std::make_unique<Nvfp4>(p.integer("levels") == 2); },
                    .check = check_formula});
const bool cuda = register_cuda("nvfp4", [](const Parameters& p, Form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaNvfp4>(std::move(host), p.integer("levels") == 2);
});

}  // namespace
}  // namespace thinwire
