// Integers of 1 to 8 bits with a scale per group of neighbours: SDP4Bit (arXiv 2410.15526), QSDP (2302.02390), ZeRO++ (2306.10209), LoCo (2407.04480) and AQ-SGD's low bits
// are of this kind (docs/papers/sharded_compression.md, docs/papers/gradient_compression.md). Of a group, a = max |x|, B bits, in f32:
//   range=symmetric (SDP4Bit)   step = a / (2^(B-1) - 1), q in +-(2^(B-1) - 1): zero is a code, the largest element too
//   range=full (ZeRO++)         step = 2 a / 2^B, q in [-2^(B-1), 2^(B-1) - 1]: the largest positive element saturates one step low
//   range=affine (ZeRO++)       step = (max - min) / 2^B, offset (max + min) / 2, q as full
//   range=extreme (QuickReduce) step = -w / 2^(B-1), w the element of largest magnitude with its sign, q as full: w is a code, and a step may be negative
//   range=minmax (FBGEMM)       step = (max - min) / (2^B - 1), offset min + 2^(B-1) step, q as full: both ends are codes
//   q = (x - offset) / step, rounded half to even, or, round=stochastic, up with the probability of its fraction: draws of 16 bits are keyed by message and element
//   decoded = q * step + offset, with step and offset as they travel; a step of 0 makes zeros, or the offset
// Payload: of each group step, and offset where there is one (f32, f16 or bf16), then codes as two's complements: 8 bits a byte each; else one stream of bits, first
// code in the highest; order=low: of two 4-bit codes the first in the low half.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/half.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/group_codes.h"
#include "kernels/simd/magnitude.h"
#include "kernels/simd/mini_floats.h"
#include "kernels/simd/philox.h"

namespace thinwire {
namespace {

constexpr std::uint64_t draws_seed = 0x67726f7570ull;  // "group"

enum class Range { symmetric, full, extreme, affine, minmax };

struct Options {
  int bits = 4;
  std::int64_t group = 128;
  Range range = Range::symmetric;
  bool stochastic = false, low_first = false;
  DType scale = DType::f32;
  bool has_signs() const { return range == Range::extreme || has_offset(); }  ///< a scale depends on more than the largest magnitude
  bool has_offset() const { return range == Range::affine || range == Range::minmax; }
  float high() const { return static_cast<float>((1 << (bits - 1)) - 1); }
  float low() const { return range == Range::symmetric ? -high() : -high() - 1; }
  /// Of what the primitives write; a stream of other widths is made from bytes.
  simd::CodePacking packing() const { return bits != 4 ? simd::CodePacking::bytes : low_first ? simd::CodePacking::low_first : simd::CodePacking::high_first; }
};

/// A scale as it travels: 16 bits of f16 or bf16, or all of f32.
std::uint32_t wire_bits(float value, DType type) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (type == DType::f16) return to_half(value).bits;
  if (type == DType::bf16) return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return bits;
}
float wire_value(std::uint32_t bits, DType type) {
  if (type == DType::f16) return to_float(Half{static_cast<std::uint16_t>(bits)});
  return std::bit_cast<float>(type == DType::bf16 ? bits << 16 : bits);
}

struct Scale {
  float step = 0, offset = 0;
};
/// Before rounding to the type that travels. least <= largest, both finite.
Scale scale_of(float least, float largest, const Options& o) {
  const float levels = static_cast<float>(1 << o.bits), half_range = 0.5f * largest - 0.5f * least;  // halves: their difference does not overflow
  switch (o.range) {
    case Range::symmetric:
      return {std::max(std::fabs(least), std::fabs(largest)) / o.high(), 0};
    case Range::full:
      return {std::max(std::fabs(least), std::fabs(largest)) / (levels / 2), 0};
    case Range::extreme:
      return {(largest >= -least ? -largest : -least) / (levels / 2), 0};
    case Range::affine:
      return {half_range / (levels / 2), 0.5f * largest + 0.5f * least};
    case Range::minmax: {
      const float step = half_range / ((levels - 1) / 2);
      return {step, least + levels / 2 * step};
    }
  }
  return {};
}

class Group final : public BlockCodec {
 public:
  explicit Group(const Options& o)
      : BlockCodec("group", {.bits = o.bits, .block = o.group, .head_bytes = 0, .scale_bytes = size_of(o.scale) * (o.has_offset() ? 2 : 1), .reads_twice = false}), options_(o) {}

 private:
  /// Whether all codes are finite numbers; not of NaN.
  bool fits(float step, float offset) const { return std::fabs(offset) - options_.low() * std::fabs(step) <= std::numeric_limits<float>::max(); }
  /// Rounds to the type that travels and writes it.
  float put(float value, std::byte* to) const {
    const std::uint32_t bits = wire_bits(value, options_.scale);
    std::memcpy(to, &bits, size_of(options_.scale));  // little-endian, as payloads are
    const float rounded = wire_value(bits, options_.scale);
    if (!std::isfinite(rounded)) throw RuntimeFailure("group: a scale is " + std::to_string(value) + ", beyond what travels; use scale=f32");
    return rounded;
  }

  bool encode_unit(const float* x, const Unit& unit, const MessageKey& key, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const override {
    std::uint32_t* const maxima = scratch.maxima.as<std::uint32_t>(unit.blocks);
    float* const factors = scratch.factors.as<float>(4 * unit.blocks);
    float *const offsets = factors + unit.blocks, *const least = offsets + unit.blocks, *const largest = least + unit.blocks;
    simd::block_maxima(x, unit.count, unit.block, maxima);
    if (*std::max_element(maxima, maxima + unit.blocks) >= simd::non_finite_bits) return false;
    if (options_.has_signs()) simd::block_ranges(x, unit.count, unit.block, least, largest);
    const std::size_t each = layout().scale_bytes;
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      const float most = std::bit_cast<float>(maxima[b]);
      const Scale scale = options_.has_signs() ? scale_of(least[b], largest[b], options_) : scale_of(-most, most, options_);
      const float step = put(scale.step, scales + b * each);
      factors[b] = step == 0 ? 0 : 1 / step;
      if (std::isinf(factors[b])) factors[b] = std::copysign(std::numeric_limits<float>::max(), step);  // of steps below the normal numbers
      offsets[b] = options_.has_offset() ? put(scale.offset, scales + b * each + size_of(options_.scale)) : 0;
      if (!fits(step, offsets[b])) throw RuntimeFailure("group: a value of " + std::to_string(most) + " in " + text_of(key) + " is too near the end of f32 for its codes; scale the tensor");
    }
    const std::uint16_t* const draws = options_.stochastic ? draws_of(unit, key, scratch) : nullptr;
    const auto mask = static_cast<std::uint8_t>((1 << options_.bits) - 1);
    const float* const shifts = options_.has_offset() ? offsets : nullptr;
    const bool apart = options_.bits != 8 && options_.bits != 4;
    std::uint8_t* const to = apart ? scratch.codes.as<std::uint8_t>(unit.count) : codes;
    simd::encode_group_codes(x, unit.count, unit.block, factors, shifts, options_.low(), options_.high(), mask, draws, options_.packing(), to);
    if (apart) write_codes(to, unit.count, options_.bits, codes, codes + unit.code_bytes);
    return true;
  }

  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const override {
    float* const steps = scratch.factors.as<float>(2 * unit.blocks);
    float* const offsets = steps + unit.blocks;
    const std::size_t width = size_of(options_.scale), each = layout().scale_bytes;
    bool good = true;
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      std::uint32_t step = 0, offset = 0;
      std::memcpy(&step, scales + b * each, width);
      if (options_.has_offset()) std::memcpy(&offset, scales + b * each + width, width);
      steps[b] = wire_value(step, options_.scale), offsets[b] = wire_value(offset, options_.scale);
      good = good && (steps[b] >= 0 || options_.range == Range::extreme) && fits(steps[b], offsets[b]);
    }
    if (!good) return false;
    if (options_.bits != 8 && options_.bits != 4) {
      const std::size_t groups = (unit.count + 7) / 8;
      std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(8 * groups);
      read_codes(codes, codes + unit.code_bytes, groups, options_.bits, apart);
      codes = apart;
    }
    simd::decode_group_codes(codes, unit.count, unit.block, steps, options_.has_offset() ? offsets : nullptr, options_.bits, options_.packing(), out, add, unit.stream);
    return true;
  }

  /// Of elements unit.element ..., whatever thread asks: eight of 16 bits from each block of the generator.
  static const std::uint16_t* draws_of(const Unit& unit, const MessageKey& key, Scratch& scratch) {
    const std::size_t first = unit.element / 8, blocks = (unit.element + unit.count + 7) / 8 - first;
    std::uint16_t* const draws = scratch.more.as<std::uint16_t>(8 * blocks);
    simd::philox_blocks(draws_seed, key.random_stream(), first, blocks, reinterpret_cast<std::uint32_t*>(draws));
    return draws + (unit.element - 8 * first);
  }

  Options options_;
};

Options options_of(const Parameters& p) {
  Options o;
  o.bits = static_cast<int>(p.integer("bits"));
  o.group = p.integer("group");
  const std::string &range = p.choice("range"), &scale = p.choice("scale");
  o.range = range == "symmetric" ? Range::symmetric : range == "full" ? Range::full : range == "extreme" ? Range::extreme : range == "affine" ? Range::affine : Range::minmax;
  o.stochastic = p.choice("round") == "stochastic";
  o.low_first = p.choice("order") == "low";
  o.scale = scale == "f32" ? DType::f32 : scale == "f16" ? DType::f16 : DType::bf16;
  if (o.group % 16 != 0) throw UsageError("'group:group=" + std::to_string(o.group) + "': a group is a multiple of 16");
  if (o.range == Range::symmetric && o.bits == 1) throw UsageError("'group:bits=1,range=symmetric': one bit has no symmetric codes beside zero; use range=full or minmax");
  if (o.low_first && o.bits != 4) throw UsageError("'group:order=low' is the order of two 4-bit codes in a byte; with bits=" + std::to_string(o.bits) + " leave it out");
  return o;
}

// The formulas at the top in float64 with the scales as they travel; stochastic codes within a step.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Options o = options_of(stack.expression.codec.parameters);
  const std::span<const float> x = tensor.as<float>();
  const auto columns = static_cast<std::size_t>(tensor.shape().columns()), group = static_cast<std::size_t>(o.group);
  std::vector<double> out(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns)
    for (std::size_t begin = row; begin < row + columns; begin += group) {
      const std::size_t end = std::min(begin + group, row + columns);
      const auto [least, largest] = std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end));
      const Scale scale = scale_of(*least, *largest, o);
      const double step = wire_value(wire_bits(scale.step, o.scale), o.scale), offset = o.has_offset() ? wire_value(wire_bits(scale.offset, o.scale), o.scale) : 0;
      for (std::size_t i = begin; i < end; ++i) {
        const double y = step == 0 ? 0 : std::clamp((x[i] - offset) / step, double{o.low()}, double{o.high()});
        out[i] = std::nearbyint(y) * step + offset;
        if (o.stochastic && std::fabs(decoded[i] - (y * step + offset)) > 1.001 * std::fabs(step) + 1e-6 * std::fabs(offset))
          throw WrongResult("element " + std::to_string(i) + " is more than a step from its value");
      }
    }
  if (o.stochastic) return "within a step of each value, in float64";
  require_as_near(x, decoded, out);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "group",
                    .summary = "integers of 1 to 8 bits, a scale for a group of neighbours",
                    .source = "SDP4Bit (arXiv 2410.15526), ZeRO++ (2306.10209), QSDP (2302.02390), FBGEMM, QuickReduce",
                    .parameters = {{.name = "bits", .kind = ParameterSpec::Kind::integer, .default_value = "4", .minimum = 1, .maximum = 8, .help = "bits per element"},
                                   {.name = "group", .kind = ParameterSpec::Kind::integer, .default_value = "128", .minimum = 32, .maximum = 8192, .help = "neighbours of a row that share a scale; a multiple of 16"},
                                   {.name = "range",
                                    .kind = ParameterSpec::Kind::choice,
                                    .default_value = "symmetric",
                                    .choices = {"symmetric", "full", "extreme", "affine", "minmax"},
                                    .help = "which integers, and whether a group has an offset"},
                                   {.name = "round", .kind = ParameterSpec::Kind::choice, .default_value = "nearest", .choices = {"nearest", "stochastic"}, .help = "stochastic: without bias"},
                                   {.name = "scale", .kind = ParameterSpec::Kind::choice, .default_value = "f32", .choices = {"f32", "f16", "bf16"}, .help = "type of the scales"},
                                   {.name = "order", .kind = ParameterSpec::Kind::choice, .default_value = "high", .choices = {"high", "low"}, .help = "half of a byte that holds the first of two 4-bit codes"}},
                    .presets = {"bits=2", "bits=8", "range=affine", "round=stochastic", "bits=4+hadamard"},
                    .make = [](const Parameters& p, Form) { return std::make_unique<Group>(options_of(p)); },
                    .check = check_formula});

}  // namespace
}  // namespace thinwire
