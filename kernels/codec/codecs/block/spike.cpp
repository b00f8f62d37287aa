// Integers of 1 to 8 bits with spikes reserved: the least and the largest element of a group travel as floats, and the rest is quantised over the smaller range that is
// left (spike reserving of Flash Communication v2; docs/papers/low_bandwidth_pipeline.md, "The algorithms, as they are to be built": the authors' layout is not known,
// this one is ours). Of a group without its first least and its first largest element:
//   step = (max - min) / (2^B - 1);  q = (x - min) / step rounded half to even, 0 to 2^B - 1;  decoded = q * step + min, with step and min as they travel
// Payload: of each group step, min, least, largest (f16), and the two places in it (a byte each up to 256 elements, else two); then q - 2^(B-1) as two's complements in one
// stream of bits, first code in the highest. Both places have the code of min.   B + (64 + 16) / group bits per element
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "kernels/codec/codecs/block/block_codec.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/group_codes.h"
#include "kernels/simd/magnitude.h"

namespace thinwire {
namespace {

struct Options {
  int bits = 2;
  std::int64_t group = 32;
  std::size_t place_bytes() const { return group <= 256 ? 1 : 2; }
};

/// What travels of a group beside its codes.
struct Head {
  std::array<Half, 4> values;  ///< step, min, least, largest
  std::uint16_t at_least, at_largest;

  float step() const { return to_float(values[0]); }
  float min() const { return to_float(values[1]); }
  float least() const { return to_float(values[2]); }
  float largest() const { return to_float(values[3]); }
};

Half rounded(float value) {
  const Half half = to_half(value);
  if (!std::isfinite(to_float(half))) throw RuntimeFailure("spike: a value of " + std::to_string(value) + " is beyond f16, in which spikes and scales travel; scale the tensor");
  return half;
}

class Spike final : public BlockCodec {
 public:
  explicit Spike(const Options& o)
      : BlockCodec("spike", {.bits = o.bits, .block = o.group, .head_bytes = 0, .scale_bytes = 4 * sizeof(Half) + 2 * o.place_bytes(), .reads_twice = false}), options_(o) {}

 private:
  float offset_of(float min, float step) const { return min + static_cast<float>(1 << (options_.bits - 1)) * step; }

  void put(const Head& head, std::byte* to) const {
    std::memcpy(to, head.values.data(), sizeof head.values);
    std::memcpy(to + sizeof head.values, &head.at_least, options_.place_bytes());  // little-endian, as payloads are
    std::memcpy(to + sizeof head.values + options_.place_bytes(), &head.at_largest, options_.place_bytes());
  }
  Head head_at(const std::byte* from) const {
    Head head{};
    std::memcpy(head.values.data(), from, sizeof head.values);
    std::memcpy(&head.at_least, from + sizeof head.values, options_.place_bytes());
    std::memcpy(&head.at_largest, from + sizeof head.values + options_.place_bytes(), options_.place_bytes());
    return head;
  }

  bool encode_unit(const float* x, const Unit& unit, const MessageKey&, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const override {
    if (simd::maximum_bits(x, unit.count) >= simd::non_finite_bits) return false;
    float* const ranges = scratch.factors.as<float>(4 * unit.blocks);
    float *const least = ranges, *const largest = ranges + unit.blocks, *const factors = largest + unit.blocks, *const offsets = factors + unit.blocks;
    float* const rest = scratch.more.as<float>(unit.count);  // the unit with both spikes of each group replaced by a neighbour
    std::memcpy(rest, x, unit.count * sizeof(float));
    std::uint16_t* const places = scratch.maxima.as<std::uint16_t>(2 * unit.blocks);
    simd::block_ranges(x, unit.count, unit.block, least, largest);
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      float *const begin = rest + b * unit.block, *const end = std::min(begin + unit.block, rest + unit.count);
      const auto low = std::find(begin, end, least[b]), high = std::find(begin, end, largest[b]);
      places[2 * b] = static_cast<std::uint16_t>(low - begin), places[2 * b + 1] = static_cast<std::uint16_t>(high - begin);
      float* other = begin;
      while (other != end && (other == low || other == high)) ++other;
      *low = *high = other == end ? 0 : *other;
    }
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      const Head head{{Half{}, Half{}, rounded(least[b]), rounded(largest[b])}, places[2 * b], places[2 * b + 1]};
      put(head, scales + b * layout().scale_bytes);
    }
    simd::block_ranges(rest, unit.count, unit.block, least, largest);
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      Head head = head_at(scales + b * layout().scale_bytes);
      head.values[1] = rounded(least[b]);
      head.values[0] = rounded((largest[b] - least[b]) / static_cast<float>((1 << options_.bits) - 1));
      put(head, scales + b * layout().scale_bytes);
      const float step = head.step();
      factors[b] = step == 0 ? 0 : 1 / step;
      offsets[b] = offset_of(head.min(), step);
      rest[b * unit.block + head.at_least] = rest[b * unit.block + head.at_largest] = head.min();
    }
    const auto half = static_cast<float>(1 << (options_.bits - 1));
    const auto mask = static_cast<std::uint8_t>((1 << options_.bits) - 1);
    std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(unit.count);
    simd::encode_group_codes(rest, unit.count, unit.block, factors, offsets, -half, half - 1, mask, nullptr, simd::CodePacking::bytes, apart);
    write_codes(apart, unit.count, options_.bits, codes, codes + unit.code_bytes);
    return true;
  }

  bool decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const override {
    float* const steps = scratch.factors.as<float>(2 * unit.blocks);
    float* const offsets = steps + unit.blocks;
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      const Head head = head_at(scales + b * layout().scale_bytes);
      const std::size_t count = std::min(unit.block, unit.count - b * unit.block);
      steps[b] = head.step(), offsets[b] = offset_of(head.min(), steps[b]);
      const bool finite = std::isfinite(steps[b]) && std::isfinite(offsets[b]) && std::isfinite(head.least()) && std::isfinite(head.largest());
      if (!finite || !(steps[b] >= 0) || head.at_least >= count || head.at_largest >= count) return false;
    }
    const std::size_t groups = (unit.count + 7) / 8;
    std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(8 * groups);
    read_codes(codes, codes + unit.code_bytes, groups, options_.bits, apart);
    float* const before = scratch.more.as<float>(2 * unit.blocks);  // at the spikes' places, when adding
    for (std::size_t b = 0; add && b < unit.blocks; ++b) {
      const Head head = head_at(scales + b * layout().scale_bytes);
      before[2 * b] = out[b * unit.block + head.at_least], before[2 * b + 1] = out[b * unit.block + head.at_largest];
    }
    simd::decode_group_codes(apart, unit.count, unit.block, steps, offsets, options_.bits, simd::CodePacking::bytes, out, add, /*stream=*/false);
    for (std::size_t b = 0; b < unit.blocks; ++b) {
      const Head head = head_at(scales + b * layout().scale_bytes);
      float &low = out[b * unit.block + head.at_least], &high = out[b * unit.block + head.at_largest];
      low = head.least() + (add ? before[2 * b] : 0), high = head.largest() + (add ? before[2 * b + 1] : 0);
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
  std::vector<double> out(x.size());
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
      const double levels = (1 << o.bits) - 1, min = to_float(to_half(least)), step = to_float(to_half((largest - least) / static_cast<float>(levels)));
      for (std::size_t i = begin; i < end; ++i)
        out[i] = i == low || i == high ? double{to_float(to_half(x[i]))} : min + step * (step == 0 ? 0 : std::nearbyint(std::clamp((x[i] - min) / step, 0.0, levels)));
    }
  require_as_near(x, decoded, out);
  return "scalar formula in float64";
}

const bool registered =
    register_codec({.name = "spike",
                    .summary = "integers of 1 to 8 bits in groups whose least and largest element travel apart, as floats",
                    .source = "spike reserving: Flash Communication v2 (abstract); the layout is ours",
                    .parameters = {{.name = "bits", .kind = ParameterSpec::Kind::integer, .default_value = "2", .minimum = 1, .maximum = 8, .help = "bits per element"},
                                   {.name = "group", .kind = ParameterSpec::Kind::integer, .default_value = "32", .minimum = 16, .maximum = 4096, .help = "neighbours of a row that share a scale; a multiple of 16"}},
                    .presets = {"bits=4"},
                    .make = [](const Parameters& p, Form) { return std::make_unique<Spike>(options_of(p)); },
                    .check = check_formula});

}  // namespace
}  // namespace thinwire
