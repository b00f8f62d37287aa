// Integers of 1 to 8 bits with a scale per group of neighbours: SDP4Bit (arXiv 2410.15526), QSDP (2302.02390), ZeRO++ (2306.10209), LoCo (2407.04480) and AQ-SGD's low bits
// are of this kind (docs/papers/sharded_compression.md, docs/papers/gradient_compression.md). Of a group, a = max |x|, B bits, in f32:
//   range=symmetric (SDP4Bit)   step = a / (2^(B-1) - 1), q in +-(2^(B-1) - 1): zero is a code, the largest element too
//   range=full (ZeRO++)         step = 2 a / 2^B, q in [-2^(B-1), 2^(B-1) - 1]: the largest positive element saturates one step low
//   range=affine (ZeRO++)       step = (max - min) / 2^B, offset (max + min) / 2, q as full
//   range=extreme (QuickReduce) step = -w / 2^(B-1), w the element of largest magnitude with its sign, q as full: w is a code, and a step may be negative
//   range=minmax (FBGEMM)       step = (max - min) / (2^B - 1), offset min + 2^(B-1) step, q as full: both ends are codes
//   q = (x - offset) / step, rounded half to even, or, round=stochastic, up with the probability of its fraction: draws of 16 bits are keyed by message and element
//   decoded = q * step + offset, with step and offset as they travel; a step of 0 makes zeros, or the offset
//   scale=f16: a step below 2^-14 is rounded up, to a multiple of 2^-24 (core/half.h, step_for_half), and codes and offset are made with that
// Payload: of each group step, and offset where there is one (f32, f16 or bf16), then codes as two's complements: 8 bits a byte each; else one stream of bits, first
// code in the highest; order=low: of two 4-bit codes the first in the low half.
#include "kernels/codec/codecs/block/group.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/group_codes.h"
#include "kernels/simd/codes/mini_floats.h"
#include "kernels/simd/magnitude.h"
#include "kernels/simd/philox.h"

namespace thinwire {
namespace {

constexpr std::size_t drawn_at_once = 512;

/// Of what the primitives write; a stream of other widths is made from bytes.
simd::CodePacking packing_of(const GroupOptions& o) {
  return o.bits != 4 ? simd::CodePacking::bytes : o.low_first ? simd::CodePacking::low_first : simd::CodePacking::high_first;
}

/// A scale as it travels, as f32.
float rounded(float value, DType type) { return type == DType::f32 ? value : type == DType::f16 ? round_to_half(value) : to_float(to_bfloat16(value)); }

struct Scale {
  float step = 0, offset = 0;
};
/// Before rounding to the type that travels, and before step_for_half. least <= largest, both finite.
inline Scale scale_of(float least, float largest, GroupRange range, float levels) {
  const float half_range = 0.5f * largest - 0.5f * least;  // halves: their difference does not overflow
  switch (range) {
    case GroupRange::symmetric:
      return {std::max(std::fabs(least), std::fabs(largest)) / (levels / 2 - 1), 0};
    case GroupRange::full:
      return {std::max(std::fabs(least), std::fabs(largest)) / (levels / 2), 0};
    case GroupRange::extreme:
      return {(largest >= -least ? -largest : -least) / (levels / 2), 0};
    case GroupRange::affine:
      return {half_range / (levels / 2), 0.5f * largest + 0.5f * least};
    case GroupRange::minmax: {
      const float step = half_range / ((levels - 1) / 2);
      return {step, least + levels / 2 * step};
    }
  }
  return {};
}

/// Of a scale that travels as f16: a step that f16 holds as a subnormal number is made longer, and the offset of minmax, which is counted in steps, follows.
inline void fit_half(Scale& scale, float least, GroupRange range, float levels) {
  const float step = step_for_half(scale.step);
  if (step == scale.step) return;
  scale.step = step;
  if (range == GroupRange::minmax) scale.offset = least + levels / 2 * step;
}
/// With the type that travels taken into account, before it is rounded to that.
inline Scale scale_for(float least, float largest, const GroupOptions& o) {
  Scale scale = scale_of(least, largest, o.range, o.levels());
  if (o.scale == DType::f16) fit_half(scale, least, o.range, o.levels());
  return scale;
}

// Scales lie in arrays, and loops over blocks have neither calls nor branches: the compiler makes vectors of them. Block by block they took longer than the codes.
template <GroupRange range>
void scales_of_blocks(const float* least, const float* largest, std::size_t blocks, float levels, float* steps, float* offsets) {
#pragma omp simd
  for (std::size_t b = 0; b < blocks; ++b) {
    const Scale scale = scale_of(least[b], largest[b], range, levels);
    steps[b] = scale.step, offsets[b] = scale.offset;
  }
}
using ScalesOfBlocks = void (*)(const float*, const float*, std::size_t, float, float*, float*);
ScalesOfBlocks scales_function(GroupRange range) {
  constexpr std::array<ScalesOfBlocks, 5> of = {scales_of_blocks<GroupRange::symmetric>, scales_of_blocks<GroupRange::full>, scales_of_blocks<GroupRange::extreme>, scales_of_blocks<GroupRange::affine>,
                                                scales_of_blocks<GroupRange::minmax>};
  return of[static_cast<std::size_t>(range)];
}

template <typename Wire>
Wire to_wire(float value) {
  if constexpr (std::is_same_v<Wire, Half>)
    return to_half(value);
  else if constexpr (std::is_same_v<Wire, BFloat16>)
    return to_bfloat16(value);
  else
    return value;
}
template <typename Wire>
float from_wire(Wire value) {
  if constexpr (std::is_same_v<Wire, float>)
    return value;
  else
    return to_float(value);
}

/// Rounds to the type that travels and writes. Of each block step, and offset where there is one; `room` is for so many floats.
template <typename Wire, bool kOffsets>
void put_scales(float* steps, float* offsets, std::size_t blocks, float* room, std::byte* to) {
  if constexpr (std::is_same_v<Wire, float>) {
    if constexpr (kOffsets)
#pragma omp simd
      for (std::size_t b = 0; b < blocks; ++b) room[2 * b] = steps[b], room[2 * b + 1] = offsets[b];
    std::memcpy(to, kOffsets ? room : steps, (kOffsets ? 2 : 1) * blocks * sizeof(float));  // little-endian, as payloads are
    return;
  }
  for (std::size_t b = 0; b < blocks; ++b, to += (kOffsets ? 2 : 1) * sizeof(Wire)) {
    const Wire step = to_wire<Wire>(steps[b]);
    std::memcpy(to, &step, sizeof step);
    steps[b] = from_wire(step);
    if constexpr (!kOffsets) continue;
    const Wire offset = to_wire<Wire>(offsets[b]);
    std::memcpy(to + sizeof step, &offset, sizeof offset);
    offsets[b] = from_wire(offset);
  }
}
/// Without offsets these are 0. Of f32 whole vectors are moved: a vector that is read back from single numbers waits for all stores before it, those that bypass the
/// caches too.
template <typename Wire, bool kOffsets>
void get_scales(const std::byte* from, std::size_t blocks, float* room, float* steps, float* offsets) {
  if constexpr (std::is_same_v<Wire, float>) {
    std::memcpy(kOffsets ? room : steps, from, (kOffsets ? 2 : 1) * blocks * sizeof(float));
    if constexpr (!kOffsets) std::memset(offsets, 0, blocks * sizeof(float));
    if constexpr (kOffsets)
#pragma omp simd
      for (std::size_t b = 0; b < blocks; ++b) steps[b] = room[2 * b], offsets[b] = room[2 * b + 1];
    return;
  }
  for (std::size_t b = 0; b < blocks; ++b, from += (kOffsets ? 2 : 1) * sizeof(Wire)) {
    Wire step{}, offset{};
    std::memcpy(&step, from, sizeof step);
    if constexpr (kOffsets) std::memcpy(&offset, from + sizeof step, sizeof offset);
    steps[b] = from_wire(step), offsets[b] = from_wire(offset);
  }
}

class Group final : public BlockCodec {
 public:
  explicit Group(const GroupOptions& o) : BlockCodec("group", o.layout()), options_(o), scales_of_(scales_function(o.range)) {
    if (o.stochastic) aim_at(0.3, 0.75);  // a draw costs as much as the rest
  }

 private:
  template <typename Wire>
  void put_as(float* steps, float* offsets, std::size_t blocks, float* room, std::byte* to) const {
    options_.has_offset() ? put_scales<Wire, true>(steps, offsets, blocks, room, to) : put_scales<Wire, false>(steps, offsets, blocks, room, to);
  }
  void put(float* steps, float* offsets, std::size_t blocks, float* room, std::byte* to) const {
    if (options_.scale == DType::f16) return put_as<Half>(steps, offsets, blocks, room, to);
    options_.scale == DType::bf16 ? put_as<BFloat16>(steps, offsets, blocks, room, to) : put_as<float>(steps, offsets, blocks, room, to);
  }
  template <typename Wire>
  void get_as(const std::byte* from, std::size_t blocks, float* room, float* steps, float* offsets) const {
    options_.has_offset() ? get_scales<Wire, true>(from, blocks, room, steps, offsets) : get_scales<Wire, false>(from, blocks, room, steps, offsets);
  }
  void get(const std::byte* from, std::size_t blocks, float* room, float* steps, float* offsets) const {
    if (options_.scale == DType::f16) return get_as<Half>(from, blocks, room, steps, offsets);
    options_.scale == DType::bf16 ? get_as<BFloat16>(from, blocks, room, steps, offsets) : get_as<float>(from, blocks, room, steps, offsets);
  }

  /// Whether all codes of all blocks are finite numbers, those that are never written too, and no step is negative where none is written; not of NaN.
  bool fit(const float* steps, const float* offsets, std::size_t blocks) const {
    const float low = options_.lowest(), least = options_.range == GroupRange::extreme ? -std::numeric_limits<float>::max() : 0;
    int misfits = 0;
#pragma omp simd reduction(+ : misfits)
    for (std::size_t b = 0; b < blocks; ++b) {
      const float farthest = std::fabs(offsets[b]) - low * std::fabs(steps[b]);
      misfits += (farthest <= std::numeric_limits<float>::max() ? 0 : 1) + (steps[b] >= least ? 0 : 1);
    }
    return misfits == 0;
  }
  /// Throws what the first block is that does not fit.
  void refuse(const float* least, const float* largest, std::size_t blocks, const MessageKey& key) const {
    for (std::size_t b = 0; b < blocks; ++b) {
      const Scale scale = scale_for(least[b], largest[b], options_);
      const float step = rounded(scale.step, options_.scale), offset = rounded(scale.offset, options_.scale);
      for (const auto& [value, travels] : {std::pair(scale.step, step), std::pair(scale.offset, offset)})
        if (!std::isfinite(travels)) throw NotRepresentable("group: a scale is " + std::to_string(value) + ", beyond what travels; use scale=f32");
      if (fit(&step, &offset, 1)) continue;
      throw NotRepresentable("group: a value of " + std::to_string(std::max(std::fabs(least[b]), std::fabs(largest[b]))) + " in " + text_of(key) +
                             " is too near the end of f32 for its codes; scale the tensor");
    }
  }

  /// Least and largest of each block, or what has the same scale. False for NaN or infinity.
  bool ranges_of(const float* x, const Unit& unit, float* least, float* largest, Scratch& scratch) const {
    if (options_.has_signs()) return simd::block_ranges(x, unit.count, unit.block, least, largest);
    std::uint32_t* const maxima = scratch.maxima.as<std::uint32_t>(unit.blocks);
    if (simd::block_maxima(x, unit.count, unit.block, maxima) >= simd::non_finite_bits) return false;
#pragma omp simd
    for (std::size_t b = 0; b < unit.blocks; ++b) largest[b] = std::bit_cast<float>(maxima[b]), least[b] = -largest[b];
    return true;
  }

  bool encode_unit(const float* x, const Unit& unit, const MessageKey& key, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const override {
    float* const steps = scratch.factors.as<float>(7 * unit.blocks);
    float *const offsets = steps + unit.blocks, *const factors = offsets + unit.blocks, *const least = factors + unit.blocks, *const largest = least + unit.blocks;
    if (!ranges_of(x, unit, least, largest, scratch)) return false;
    scales_of_(least, largest, unit.blocks, options_.levels(), steps, offsets);
    if (options_.scale == DType::f16)
      for (std::size_t b = 0; b < unit.blocks; ++b) {
        Scale scale{steps[b], offsets[b]};
        fit_half(scale, least[b], options_.range, options_.levels());
        steps[b] = scale.step, offsets[b] = scale.offset;
      }
    put(steps, offsets, unit.blocks, largest + unit.blocks, scales);
    if (!fit(steps, offsets, unit.blocks)) refuse(least, largest, unit.blocks, key);
    simd::inverse_steps(steps, unit.blocks, factors);
    const bool apart = options_.bits != 8 && options_.bits != 4;
    std::uint8_t* const to = apart ? scratch.codes.as<std::uint8_t>(unit.count) : codes;
    encode_codes(x, unit, key, factors, options_.has_offset() ? offsets : nullptr, to, scratch);
    if (apart) write_codes(to, unit.count, options_.bits, codes, codes + unit.code_bytes);
    return true;
  }

  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const override {
    float* const steps = scratch.factors.as<float>(4 * unit.blocks);
    float* const offsets = steps + unit.blocks;
    get(scales, unit.blocks, offsets + unit.blocks, steps, offsets);
    if (!fit(steps, offsets, unit.blocks)) return false;
    if (options_.bits != 8 && options_.bits != 4) {
      const std::size_t groups = (unit.count + 7) / 8;
      std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(8 * groups);
      read_codes(codes, codes + unit.code_bytes, groups, options_.bits, apart);
      codes = apart;
    }
    simd::decode_group_codes(codes, unit.count, unit.block, steps, options_.has_offset() ? offsets : nullptr, options_.bits, packing_of(options_), out, add, unit.stream);
    return true;
  }

  /// A byte for each code that does not fill one, or half of one, else as they travel.
  void encode_codes(const float* x, const Unit& unit, const MessageKey& key, const float* factors, const float* offsets, std::uint8_t* codes, Scratch& scratch) const {
    const auto mask = static_cast<std::uint8_t>((1 << options_.bits) - 1);
    if (!options_.stochastic)
      return simd::encode_group_codes(x, unit.count, unit.block, factors, offsets, options_.low(), options_.high(), mask, nullptr, packing_of(options_), codes);
    // Draws and codes in turn: while little is drawn, what codes fetch ahead is on its way.
    std::uint16_t* const draws = scratch.more.as<std::uint16_t>(drawn_at_once + 16);
    const std::uint64_t stream = key.rounding_stream();
    for_pieces(unit, drawn_at_once, [&](std::size_t i, std::size_t count) {
      const std::size_t b = i / unit.block;
      simd::encode_group_codes(x + i, count, unit.block, factors + b, offsets == nullptr ? nullptr : offsets + b, options_.low(), options_.high(), mask,
                               draws_of(unit.element + i, count, stream, draws), packing_of(options_), codes + i * (options_.bits == 4 ? 4 : 8) / 8);
    });
  }

  /// Of elements first ..., whatever thread asks: eight of 16 bits from each block of the generator. Room for up to 16 more in `draws`.
  static const std::uint16_t* draws_of(std::size_t first, std::size_t count, std::uint64_t stream, std::uint16_t* draws) {
    const std::size_t block = first / 8, blocks = (first + count + 7) / 8 - block;
    simd::philox_blocks(group_draws_seed, stream, block, blocks, reinterpret_cast<std::uint32_t*>(draws));
    return draws + (first - 8 * block);
  }

  GroupOptions options_;
  ScalesOfBlocks scales_of_;
};

}  // namespace

GroupOptions group_options(const Parameters& p) {
  GroupOptions o;
  o.bits = static_cast<int>(p.integer("bits"));
  o.group = p.integer("group");
  const std::string &range = p.choice("range"), &scale = p.choice("scale");
  o.range = range == "symmetric" ? GroupRange::symmetric : range == "full" ? GroupRange::full : range == "extreme" ? GroupRange::extreme : range == "affine" ? GroupRange::affine : GroupRange::minmax;
  o.stochastic = p.choice("round") == "stochastic";
  o.low_first = p.choice("order") == "low";
  o.scale = scale == "f32" ? DType::f32 : scale == "f16" ? DType::f16 : DType::bf16;
  if (o.group % 16 != 0) throw UsageError("'group:group=" + std::to_string(o.group) + "': a group is a multiple of 16");
  if (o.range == GroupRange::symmetric && o.bits == 1) throw UsageError("'group:bits=1,range=symmetric': one bit has no symmetric codes beside zero; use range=full or minmax");
  if (o.low_first && o.bits != 4) throw UsageError("'group:order=low' is the order of two 4-bit codes in a byte; with bits=" + std::to_string(o.bits) + " leave it out");
  return o;
}

namespace {

// The formulas at the top in float64 with the scales as they travel; stochastic codes within a step.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const GroupOptions o = group_options(stack.expression.codec.parameters);
  const std::span<const float> x = tensor.as<float>();
  const auto columns = static_cast<std::size_t>(tensor.shape().columns()), group = static_cast<std::size_t>(o.group);
  std::vector<double> out(x.size()), offsets(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns)
    for (std::size_t begin = row; begin < row + columns; begin += group) {
      const std::size_t end = std::min(begin + group, row + columns);
      const auto [least, largest] = std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end));
      const Scale scale = scale_for(*least, *largest, o);
      const double step = rounded(scale.step, o.scale), offset = rounded(scale.offset, o.scale);
      for (std::size_t i = begin; i < end; ++i) {
        const double y = step == 0 ? 0 : std::clamp((x[i] - offset) / step, double{o.low()}, double{o.high()});
        out[i] = std::nearbyint(y) * step + offset;
        offsets[i] = offset;
        if (o.stochastic && std::fabs(decoded[i] - (y * step + offset)) > 1.001 * std::fabs(step) + 1e-6 * std::fabs(offset))
          throw WrongResult("element " + std::to_string(i) + " is more than a step from its value");
      }
    }
  if (o.stochastic) return "within a step of each value, in float64";
  require_as_near(x, decoded, out, offsets);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "group",
                    .summary = "integers of 1 to 8 bits, a scale for a group of neighbours",
                    .source = "SDP4Bit (arXiv 2410.15526), ZeRO++ (2306.10209), QSDP (2302.02390), FBGEMM, QuickReduce",
                    .wire = "of each group its step, and its offset where it has one; then codes in two's complement, one stream of bits, first code highest",
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
                    .make = [](const Parameters& p, Form) { return std::make_unique<Group>(group_options(p)); },
                    .check = check_formula});

}  // namespace
}  // namespace thinwire
