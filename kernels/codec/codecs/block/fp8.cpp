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
#include "kernels/codec/cuda/cuda_codec.h"
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

struct Options {
  simd::MiniFloat element;
  std::int64_t block = 128;  ///< 0: a scale for each row
  bool of_tensor = false;    ///< one for all
  BlockLayout layout() const {
    return {.bits = element.bits, .block = of_tensor ? 4096 : block, .head_bytes = of_tensor ? sizeof(float) : 0u, .scale_bytes = of_tensor ? 0u : sizeof(float), .reads_twice = of_tensor};
  }
};

class Fp8 final : public BlockFloat {
 public:
  explicit Fp8(const Options& o) : BlockFloat("fp8", o.element, o.layout()), of_tensor_(o.of_tensor) {}

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

class CudaFp8 final : public CudaCodec {
 public:
  CudaFp8(std::unique_ptr<Codec> host, const Options& options) : CudaCodec("fp8", std::move(host)), options_(options), largest_code_(mini_code(options.element.largest, options.element)) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<int(const float*, BlockCut, simd::MiniFloat, void*, std::uint32_t*, std::uint32_t*, int, void*)> entry("thinwire_cuda_fp8_encode");
    const BlockCut cut = cut_of(shape);
    const std::int64_t known_before = options_.of_tensor ? 1 : cut.block > longest_device_block ? cut.rows : 0;
    std::byte* const maxima = known_before > 0 ? device_workspace(static_cast<std::size_t>(known_before) * sizeof(std::uint32_t)) : nullptr;
    entry(x, cut, options_.element, static_cast<void*>(payload.data()), reinterpret_cast<std::uint32_t*>(maxima), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<int(const void*, BlockCut, simd::MiniFloat, int, float*, int, std::uint32_t*, int, void*)> entry("thinwire_cuda_fp8_decode");
    entry(static_cast<const void*>(payload.data()), cut_of(shape), options_.element, int{largest_code_}, out, add ? 1 : 0, payload_status());
  }
  void queue_empty(const Shape&, std::span<std::byte> payload) override {
    static constexpr float scale = 1;
    copy_bytes(payload.data(), &scale, options_.layout().head_bytes);
  }
  BlockCut cut_of(const Shape& shape) const { return {shape.rows(), shape.columns(), options_.layout()}; }

  Options options_;
  std::uint8_t largest_code_;
};

Options options_of(const Parameters& p) {
  Options o;
  o.element = mini_float_named(p.choice("element"));
  o.block = p.integer("block");
  if (p.choice("scale") != "block" && p.given("block")) throw UsageError("'fp8:block=" + std::to_string(o.block) + "' needs scale=block");
  if (o.block % 16 != 0) throw UsageError("'fp8:block=" + std::to_string(o.block) + "': a block is a multiple of 16");
  if (p.choice("scale") == "row") o.block = 0;
  o.of_tensor = p.choice("scale") == "tensor";
  return o;
}

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
     .wire = "scales f32, then a byte an element",
     .parameters = {{.name = "element", .kind = ParameterSpec::Kind::choice, .default_value = "e4m3", .choices = {"e4m3", "e5m2"}, .help = "exponent and mantissa bits"},
                    {.name = "scale", .kind = ParameterSpec::Kind::choice, .default_value = "block", .choices = {"tensor", "row", "block"}, .help = "what shares a scale"},
                    {.name = "block", .kind = ParameterSpec::Kind::integer, .default_value = "128", .minimum = 16, .maximum = 4096, .help = "neighbours of a row that share a scale; a multiple of 16"}},
     .presets = {"element=e5m2", "scale=tensor"},
     .make = [](const Parameters& p, Form) { return std::make_unique<Fp8>(options_of(p)); },
     .check = check_formula});
const bool cuda = register_cuda("fp8", [](const Parameters& p, Form, std::unique_ptr<Codec> host) { return std::make_unique<CudaFp8>(std::move(host), options_of(p)); });

}  // namespace
}  // namespace thinwire
