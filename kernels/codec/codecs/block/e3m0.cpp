// e3m0: a sign and a power of two, as Streaming DiLoCo codes its outer gradients (Douillard et al. 2025, arXiv 2501.18512; recollected, the scale is ours:
// docs/papers/low_communication.md, "Four bits"). With a = max |x| of a block of neighbours:
//   decoded = 0 or +-2^(k - 7) a, k = 1 .. 7: what is nearest to x, halfway between two the smaller
// Payload: a of all blocks f32, then codes of 4 bits, the first of two in the low half of a byte: bit 3 is the sign, the rest k.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/mini_floats.h"
#include "kernels/simd/magnitude.h"

namespace thinwire {
namespace {

constexpr std::array levels = {0.0f, 0x1p-6f, 0x1p-5f, 0x1p-4f, 0x1p-3f, 0x1p-2f, 0x1p-1f, 1.0f};

class E3m0 final : public BlockCodec {
 public:
  explicit E3m0(std::int64_t block)
      : BlockCodec("e3m0", {.bits = 4, .block = block, .scale_bytes = sizeof(float)}) {}

 private:
  bool encode_unit(const float* x, const Unit& unit, const MessageKey&, std::byte* scales, std::uint8_t* codes,
                   Scratch& scratch) const override {
    std::uint32_t* const maxima = scratch.maxima.as<std::uint32_t>(unit.blocks);
    if (simd::block_maxima(x, unit.count, unit.block, maxima) >= simd::non_finite_bits) return false;
    std::memcpy(scales, maxima, unit.blocks * sizeof(float));
    std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(unit.count + 1);
    apart[unit.count] = 0;
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      const auto most = std::bit_cast<float>(maxima[b]);
      // Between two neighbours lies the middle; of the smallest blocks some are below what f32 can tell apart.
      std::array<float, levels.size() - 1> middle{};
      for (std::size_t k = 0; k < middle.size(); ++k) middle[k] = most * ((levels[k] + levels[k + 1]) / 2);
      const std::size_t end = std::min((b + 1) * unit.block, unit.count);
#pragma omp simd
      for (std::size_t i = b * unit.block; i < end; ++i) {
        const float size = std::fabs(x[i]);
        int code = x[i] < 0 ? 8 : 0;
        for (const float m : middle) code += size > m ? 1 : 0;
        apart[i] = static_cast<std::uint8_t>(code);
      }
    }
    for (std::size_t i = 0; i < unit.count; i += 2)
      codes[i / 2] = static_cast<std::uint8_t>(apart[i] | apart[i + 1] << 4);
    return true;
  }

  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add,
                   Scratch&) const override {
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      float most = 0;
      std::memcpy(&most, scales + b * sizeof most, sizeof most);
      if (!std::isfinite(most) || most < 0) return false;
      std::array<float, 16> values{};
      for (std::size_t k = 0; k < levels.size(); ++k)
        values[k] = levels[k] * most, values[k + levels.size()] = -levels[k] * most;
      for (std::size_t i = b * unit.block, end = std::min(i + unit.block, unit.count); i < end; ++i) {
        const float v = values[codes[i / 2] >> (i % 2 * 4) & 15];
        out[i] = add ? out[i] + v : v;
      }
    }
    return true;
  }
};

// The nearest of the fifteen, looked for among all of them in float64.
std::string check_nearest(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const std::span<const float> x = tensor.as<float>();
  const auto columns = static_cast<std::size_t>(tensor.shape().columns()),
             width = static_cast<std::size_t>(stack.expression.codec.parameters.integer("block"));
  std::vector<double> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns)
    for (std::size_t begin = row; begin < row + columns; begin += width) {
      const std::size_t end = std::min(begin + width, row + columns);
      double most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(double{x[i]}));
      for (std::size_t i = begin; i < end; ++i) {
        double best = 0;
        for (const float level : levels)
          if (std::fabs(level * most - std::fabs(x[i])) < std::fabs(best - std::fabs(x[i]))) best = level * most;
        out[i] = std::copysign(best, double{x[i]});
      }
    }
  require_as_near(x, decoded, out);
  return "nearest power of two, in float64";
}

const bool registered = register_codec(
    {.name = "e3m0",
     .summary = "4 bits: a sign and a power of two, scaled by the largest of a block",
     .source = "Streaming DiLoCo (arXiv 2501.18512), recollected; scale ours",
     .wire = "largest magnitude of each block f32, then a code of 4 bits an element, first in the low half of a byte",
     .parameters = {{.name = "block",
                     .kind = ParameterSpec::Kind::integer,
                     .default_value = "256",
                     .minimum = 16,
                     .maximum = 1e9,
                     .help = "neighbours with one scale, a multiple of 16"}},
     .make = [](const Parameters& p, Form) -> std::unique_ptr<Codec> {
       const std::int64_t block = p.integer("block");
       if (block % 16 != 0)
         throw UsageError("'e3m0:block=" + std::to_string(block) + "': a block is a multiple of 16");
       return std::make_unique<E3m0>(block);
     },
     .check = check_nearest});

}  // namespace
}  // namespace thinwire
