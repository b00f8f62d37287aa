// QSGD (Alistarh et al., NeurIPS 2017) as GRACE sends it (docs/papers/gradient_compression.md, "QSGD"): a bucket of neighbours is its norm and a small integer per element.
// With s levels and the norm v = ||x||_2 of a bucket, in f32:
//   y = s |x| / v;   level = floor(y), or one more with the probability of its fraction, s at most;   decoded = sign(x) level (v / s)
// so the mean over draws is x, and the variance at most min(n/s^2, sqrt(n)/s) v^2 of n elements. A norm of 0 makes zeros (GRACE: NaN). Draws of 32 bits are keyed by message and
// element. Payload: norms f32, one per bucket, then sign * level as a signed byte each.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/group_codes.h"
#include "kernels/simd/codes/level_codes.h"
#include "kernels/simd/philox.h"
#include "kernels/simd/signs.h"

namespace thinwire {
namespace {

constexpr std::size_t drawn_at_once = 512;
constexpr std::uint64_t draws_seed = 0x71736764ull;  // "qsgd"

/// Whether every level times v / s is a finite number; false of NaN.
bool fits(float norm, float levels) { return norm >= 0 && norm / levels * levels <= std::numeric_limits<float>::max(); }

class Qsgd final : public BlockCodec {
 public:
  Qsgd(std::int64_t levels, std::int64_t bucket)
      : BlockCodec("qsgd", {.bits = 8, .block = bucket, .scale_bytes = sizeof(float)}), levels_(static_cast<float>(levels)) {
    aim_at(0.3, 0.75);
  }

 private:
  bool encode_unit(const float* x, const Unit& unit, const MessageKey& key, std::byte* norms, std::uint8_t* codes, Scratch& scratch) const override {
    float* const divisors = scratch.factors.as<float>(unit.blocks);
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      const std::size_t begin = b * unit.block, count = std::min(unit.block, unit.count - begin);
      const double squares = simd::sum_of_squares(x + begin, count);
      if (!std::isfinite(squares)) return false;
      const auto norm = static_cast<float>(std::sqrt(squares));
      if (!fits(norm, levels_)) throw NotRepresentable("qsgd: the norm of a bucket of " + text_of(key) + " is " + std::to_string(std::sqrt(squares)) + ", beyond f32; scale the tensor");
      std::memcpy(norms + b * sizeof norm, &norm, sizeof norm);
      divisors[b] = norm > 0 ? norm : 1;
    }
    // Draws and codes in turn: what is drawn stays in the cache.
    const std::uint64_t stream = key.rounding_stream();
    for_pieces(unit, drawn_at_once, [&](std::size_t i, std::size_t count) {
      simd::encode_levels(x + i, count, unit.block, divisors + i / unit.block, levels_, draws_of(unit.element + i, count, stream, scratch), codes + i);
    });
    return true;
  }

  bool decode_unit(const std::byte* norms, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const override {
    float* const steps = scratch.factors.as<float>(unit.blocks);
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      float norm = 0;
      std::memcpy(&norm, norms + b * sizeof norm, sizeof norm);
      if (!fits(norm, levels_)) return false;
      steps[b] = norm / levels_;
    }
    std::uint8_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < unit.count; ++i) largest = std::max(largest, static_cast<std::uint8_t>(codes[i] < 128 ? codes[i] : 256 - codes[i]));
    if (static_cast<float>(largest) > levels_) return false;
    simd::decode_group_codes(codes, unit.count, unit.block, steps, nullptr, 8, simd::CodePacking::bytes, out, add, unit.stream);
    return true;
  }

  /// Of elements first ..., whatever thread asks: four from each block of the generator.
  static const std::uint32_t* draws_of(std::size_t first, std::size_t count, std::uint64_t stream, Scratch& scratch) {
    const std::size_t block = first / 4, blocks = (first + count + 3) / 4 - block;
    auto* const words = scratch.more.as<std::uint32_t>(4 * blocks);
    simd::philox_blocks(draws_seed, stream, block, blocks, words);
    return words + (first - 4 * block);
  }

  float levels_;
};

// Every value within a level of its own, with the bucket's norm in float64.
std::string check_levels(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Parameters& p = stack.expression.codec.parameters;
  const auto columns = static_cast<std::size_t>(tensor.shape().columns()), bucket = static_cast<std::size_t>(p.integer("bucket"));
  const std::span<const float> x = tensor.as<float>();
  for (std::size_t row = 0; row < x.size(); row += columns)
    for (std::size_t begin = row; begin < row + columns; begin += bucket) {
      const std::size_t end = std::min(begin + bucket, row + columns);
      double squares = 0;
      for (std::size_t i = begin; i < end; ++i) squares += double{x[i]} * x[i];
      const double step = std::sqrt(squares) / static_cast<double>(p.integer("levels"));
      for (std::size_t i = begin; i < end; ++i)
        if (std::fabs(double{decoded[i]} - x[i]) > 1.0001 * step) throw WrongResult("element " + std::to_string(i) + " is more than a level from its value");
    }
  return "within a level of each value, in float64";
}

const bool registered =
    register_codec({.name = "qsgd",
                    .summary = "integers drawn without bias, scaled by the norm of a bucket of neighbours",
                    .source = "QSGD (Alistarh et al., NeurIPS 2017, arXiv 1610.02132); GRACE",
                    .wire = "norm of each bucket f32, then a signed byte an element",
                    .parameters = {{.name = "levels", .kind = ParameterSpec::Kind::integer, .default_value = "127", .minimum = 1, .maximum = 127, .help = "levels of a magnitude beside zero"},
                                   {.name = "bucket", .kind = ParameterSpec::Kind::integer, .default_value = "128", .minimum = 16, .maximum = 4096, .help = "neighbours of a row that share a norm; a multiple of 16"}},
                    .presets = {"levels=16"},
                    .make = [](const Parameters& p, Form) -> std::unique_ptr<Codec> {
                      if (p.integer("bucket") % 16 != 0) throw UsageError("'qsgd:bucket=" + std::to_string(p.integer("bucket")) + "': a bucket is a multiple of 16");
                      return std::make_unique<Qsgd>(p.integer("levels"), p.integer("bucket"));
                    },
                    .check = check_levels});

}  // namespace
}  // namespace thinwire
