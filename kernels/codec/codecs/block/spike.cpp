// Integers of 1 to 8 bits with spikes reserved: the least and the largest element of a group travel as floats, and the rest is quantised over the smaller range that is
// left (spike reserving of Flash Communication v2; docs/papers/low_bandwidth_pipeline.md, "The algorithms, as they are to be built": the authors' layout is not known,
// this one is ours). Of a group without its first least and its first largest element:
//   step = (max - min) / (2^B - 1);  q = (x - min) / step rounded half to even, 0 to 2^B - 1;  decoded = q * step + min, with step and min as they travel
//   (a step below 2^-14 rounded up: core/half.h, step_for_half)
// Payload: of each group step, min, least, largest (f16), and the two places in it (a byte each up to 256 elements, else two); then q - 2^(B-1) as two's complements in one
// stream of bits, first code in the highest. Both places have the code of min.   B + (64 + 16) / group bits per element
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/half.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/convert.h"
#include "kernels/simd/codes/group_codes.h"
#include "kernels/simd/magnitude.h"

namespace thinwire {
namespace {

struct Options {
  int bits = 2;
  std::int64_t group = 32;
  std::size_t place_bytes() const { return group <= 256 ? 1 : 2; }
};

/// What travels of groups beside their codes, in arrays: loops over groups become vector code.
struct Heads {
  Heads(Buffer& scratch, std::size_t groups) : count(groups), halves(scratch.as<Half>(6 * groups)) {}  // a place is as large as a Half

  Half* steps() const { return halves; }
  Half* mins() const { return halves + count; }
  Half* least() const { return halves + 2 * count; }
  Half* largest() const { return halves + 3 * count; }
  std::uint16_t* at_least() const { return reinterpret_cast<std::uint16_t*>(halves + 4 * count); }
  std::uint16_t* at_largest() const { return at_least() + count; }

  /// Place: std::uint8_t or std::uint16_t.
  template <typename Place>
  void write(std::byte* to) const {
    for (std::size_t b = 0; b < count; ++b, to += 4 * sizeof(Half) + 2 * sizeof(Place)) {
      const std::array<Half, 4> values = {steps()[b], mins()[b], least()[b], largest()[b]};
      const std::array<Place, 2> places = {static_cast<Place>(at_least()[b]), static_cast<Place>(at_largest()[b])};
      std::memcpy(to, values.data(), sizeof values);  // little-endian, as payloads are
      std::memcpy(to + sizeof values, places.data(), sizeof places);
    }
  }
  template <typename Place>
  void read(const std::byte* from) const {
    for (std::size_t b = 0; b < count; ++b, from += 4 * sizeof(Half) + 2 * sizeof(Place)) {
      std::array<Half, 4> values;
      std::array<Place, 2> places;
      std::memcpy(values.data(), from, sizeof values);
      std::memcpy(places.data(), from + sizeof values, sizeof places);
      steps()[b] = values[0], mins()[b] = values[1], least()[b] = values[2], largest()[b] = values[3];
      at_least()[b] = places[0], at_largest()[b] = places[1];
    }
  }

  std::size_t count;
  Half* halves;
};

/// Rounds to f16, in place and as it travels.
void round_to_wire(float* values, std::size_t count, Half* halves) {
  convert(std::span<const float>(values, count), std::span(halves, count));
  const float* const beyond = std::find_if(values, values + count, [](float v) { return std::fabs(v) >= 65520.0f; });
  if (beyond != values + count)
    throw NotRepresentable("spike: a value of " + std::to_string(*beyond) + " is beyond f16, in which spikes and scales travel; scale the tensor");
  convert(std::span<const Half>(halves, count), std::span(values, count));
}

class Spike final : public BlockCodec {
 public:
  explicit Spike(const Options& o)
      : BlockCodec("spike", {.bits = o.bits, .block = o.group, .head_bytes = 0, .scale_bytes = 4 * sizeof(Half) + 2 * o.place_bytes(), .reads_twice = false}), options_(o) {}

 private:
  float half() const { return static_cast<float>(1 << (options_.bits - 1)); }
  simd::CodePacking packing() const { return options_.bits == 4 ? simd::CodePacking::high_first : simd::CodePacking::bytes; }
  bool codes_apart() const { return options_.bits != 4 && options_.bits != 8; }  ///< of what the primitives write a stream is made

  void offsets_of(const float* mins, const float* steps, std::size_t blocks, float* offsets) const {
    const float levels = half();
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) offsets[b] = mins[b] + levels * steps[b];
  }

  bool encode_unit(const float* x, const Unit& unit, const MessageKey&, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const override {
    const std::size_t blocks = unit.blocks;
    float *const least = scratch.factors.as<float>(6 * blocks), *const largest = least + blocks, *const mins = largest + blocks, *const steps = mins + blocks;
    float *const factors = steps + blocks, *const offsets = factors + blocks;
    if (!simd::block_ranges(x, unit.count, unit.block, least, largest)) return false;
    const Heads heads(scratch.maxima, blocks);
    simd::block_places(x, unit.count, unit.block, least, largest, heads.at_least(), heads.at_largest());
    float* const rest = scratch.more.as<float>(unit.count);  // the unit with both spikes of each group replaced by a neighbour
    std::memcpy(rest, x, unit.count * sizeof(float));
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t low = heads.at_least()[b], high = heads.at_largest()[b], count = std::min(unit.block, unit.count - b * unit.block);
      std::size_t other = 0;
      while (other < count && (other == low || other == high)) ++other;
      float* const group = rest + b * unit.block;
      group[low] = group[high] = other == count ? 0 : group[other];
    }
    simd::block_ranges(rest, unit.count, unit.block, mins, steps);
    const auto levels = static_cast<float>((1 << options_.bits) - 1);
#pragma omp simd
    for (std::size_t b = 0; b < blocks; ++b) steps[b] = (steps[b] - mins[b]) / levels;
    for (std::size_t b = 0; b < blocks; ++b) steps[b] = step_for_half(steps[b]);
    round_to_wire(steps, blocks, heads.steps());
    round_to_wire(mins, blocks, heads.mins());
    round_to_wire(least, blocks, heads.least());
    round_to_wire(largest, blocks, heads.largest());
    options_.place_bytes() == 1 ? heads.write<std::uint8_t>(scales) : heads.write<std::uint16_t>(scales);
    simd::inverse_steps(steps, blocks, factors);
    offsets_of(mins, steps, blocks, offsets);
    for (std::size_t b = 0; b < blocks; ++b) rest[b * unit.block + heads.at_least()[b]] = rest[b * unit.block + heads.at_largest()[b]] = mins[b];
    const auto mask = static_cast<std::uint8_t>((1 << options_.bits) - 1);
    std::uint8_t* const to = codes_apart() ? scratch.codes.as<std::uint8_t>(unit.count) : codes;
    simd::encode_group_codes(rest, unit.count, unit.block, factors, offsets, -half(), half() - 1, mask, nullptr, packing(), to);
    if (codes_apart()) write_codes(to, unit.count, options_.bits, codes, codes + unit.code_bytes);
    return true;
  }

  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const override {
    const std::size_t blocks = unit.blocks;
    const Heads heads(scratch.maxima, blocks);
    options_.place_bytes() == 1 ? heads.read<std::uint8_t>(scales) : heads.read<std::uint16_t>(scales);
    float *const steps = scratch.factors.as<float>(5 * blocks), *const mins = steps + blocks, *const least = mins + blocks, *const largest = least + blocks, *const offsets = largest + blocks;
    convert(std::span<const Half>(heads.halves, 4 * blocks), std::span(steps, 4 * blocks));
    offsets_of(mins, steps, blocks, offsets);
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t count = std::min(unit.block, unit.count - b * unit.block);
      const bool finite = std::isfinite(steps[b]) && std::isfinite(offsets[b]) && std::isfinite(least[b]) && std::isfinite(largest[b]);
      if (!finite || !(steps[b] >= 0) || heads.at_least()[b] >= count || heads.at_largest()[b] >= count) return false;
    }
    if (codes_apart()) {
      const std::size_t groups = (unit.count + 7) / 8;
      std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(8 * groups);
      read_codes(codes, codes + unit.code_bytes, groups, options_.bits, apart);
      codes = apart;
    }
    // Spikes are put in before anything is written or added: stores may then bypass the caches.
    float* const values = scratch.more.as<float>(unit.count);
    simd::decode_group_codes(codes, unit.count, unit.block, steps, offsets, options_.bits, packing(), values, /*add=*/false, /*stream=*/false);
    for (std::size_t b = 0; b < blocks; ++b) {
      values[b * unit.block + heads.at_least()[b]] = least[b];
      values[b * unit.block + heads.at_largest()[b]] = largest[b];
    }
    if (add) {
#pragma omp simd
      for (std::size_t i = 0; i < unit.count; ++i) out[i] += values[i];
    } else if (unit.stream) {
      simd::stream_copy(out, values, unit.count);
    } else {
      std::memcpy(out, values, unit.count * sizeof(float));
    }
    return true;
  }

  Options options_;
};

Options options_of(const Parameters& p) {
  const Options o{static_cast<int>(p.integer("bits")), p.integer("group")};
  if (o.group % 16 != 0) throw UsageError("'spike:group=" + std::to_string(o.group) + "': a group is a multiple of 16");
  return o;
}

// The formula at the top in float64, with step and min as they travel.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Options o = options_of(stack.expression.codec.parameters);
  const std::span<const float> x = tensor.as<float>();
  const auto columns = static_cast<std::size_t>(tensor.shape().columns()), group = static_cast<std::size_t>(o.group);
  std::vector<double> out(x.size()), offsets(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns)
    for (std::size_t begin = row; begin < row + columns; begin += group) {
      const std::size_t end = std::min(begin + group, row + columns);
      const auto at = [&](std::size_t i) { return x.begin() + static_cast<std::ptrdiff_t>(i); };
      const auto low = static_cast<std::size_t>(std::min_element(at(begin), at(end)) - x.begin()), high = static_cast<std::size_t>(std::max_element(at(begin), at(end)) - x.begin());
      float least = 0, largest = 0;
      bool first = true;
      for (std::size_t i = begin; i < end; ++i) {
        if (i == low || i == high) continue;
        least = first ? x[i] : std::min(least, x[i]), largest = first ? x[i] : std::max(largest, x[i]);
        first = false;
      }
      const double levels = (1 << o.bits) - 1, min = to_float(to_half(least)), step = to_float(to_half(step_for_half((largest - least) / static_cast<float>(levels))));
      std::fill(offsets.begin() + static_cast<std::ptrdiff_t>(begin), offsets.begin() + static_cast<std::ptrdiff_t>(end), min);
      for (std::size_t i = begin; i < end; ++i)
        out[i] = i == low || i == high ? double{to_float(to_half(x[i]))} : min + step * (step == 0 ? 0 : std::nearbyint(std::clamp((x[i] - min) / step, 0.0, levels)));
    }
  require_as_near(x, decoded, out, offsets);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "spike",
                    .summary = "integers of 1 to 8 bits in groups whose least and largest element travel apart, as floats",
                    .source = "spike reserving: Flash Communication v2 (abstract); the layout is ours",
                    .wire = "of each group step, least, minimum and maximum in f16 and two places; then codes in one stream of bits, first highest",
                    .parameters = {{.name = "bits", .kind = ParameterSpec::Kind::integer, .default_value = "2", .minimum = 1, .maximum = 8, .help = "bits per element"},
                                   {.name = "group", .kind = ParameterSpec::Kind::integer, .default_value = "32", .minimum = 16, .maximum = 4096, .help = "neighbours of a row that share a scale; a multiple of 16"}},
                    .presets = {"bits=4"},
                    .make = [](const Parameters& p, Form) { return std::make_unique<Spike>(options_of(p)); },
                    .check = check_formula});

}  // namespace
}  // namespace thinwire
