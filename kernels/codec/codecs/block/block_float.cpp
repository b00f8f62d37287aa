#include "kernels/codec/codecs/block/block_float.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/codec/payload/bit_stream.h"
#include "kernels/simd/magnitude.h"

namespace thinwire {
namespace {

const std::map<std::string, simd::MiniFloat>& formats() {
  static const std::map<std::string, simd::MiniFloat> all = {{"e2m1", {4, 1, 0, 2, 6}},      {"e2m3", {6, 3, 0, 2, 7.5}}, {"e3m2", {6, 2, -2, 4, 28}},
                                                             {"e4m3", {8, 3, -6, 8, 448}}, {"e5m2", {8, 2, -14, 15, 57344}}};
  return all;
}

}  // namespace

simd::MiniFloat mini_float_named(const std::string& element) { return formats().at(element); }

const std::vector<std::string>& mini_float_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, format] : formats()) all.push_back(name);
    return all;
  }();
  return names;
}

std::uint8_t mini_code(float x, const simd::MiniFloat& f) {
  const float size = std::min(std::fabs(x), f.largest);
  const int exponent = size == 0 ? f.min_exponent : std::max(std::ilogb(size), f.min_exponent);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, f.mantissa - exponent)));  // of 2^(exponent - mantissa); a carry is the next exponent's first
  const int code = steps + ((exponent - f.min_exponent) << f.mantissa);
  return static_cast<std::uint8_t>(code | (std::signbit(x) ? 1 << (f.bits - 1) : 0));
}

float mini_value(std::uint8_t code, const simd::MiniFloat& f) {
  const int size = code & ((1 << (f.bits - 1)) - 1), exponent = size >> f.mantissa, fraction = size & ((1 << f.mantissa) - 1);
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), f.min_exponent - f.mantissa)
                                    : std::ldexp(static_cast<float>(fraction + (1 << f.mantissa)), exponent - 1 + f.min_exponent - f.mantissa);
  return (code >> (f.bits - 1) & 1) != 0 ? -value : value;
}

BlockFloat::BlockFloat(const std::string& name, const simd::MiniFloat& format, Layout layout)
    : BlockCodec(name,
                 [&] {
                   layout.bits = format.bits;
                   return layout;
                 }()),
      format_(format),
      largest_code_(mini_code(format.largest, format)) {}

bool BlockFloat::encode_unit(const float* x, const Unit& unit, const MessageKey&, std::byte* scales, std::uint8_t* codes, Scratch& scratch) const {
  std::uint32_t* const maxima = scratch.maxima.as<std::uint32_t>(unit.blocks);
  float* const factors = scratch.factors.as<float>(unit.blocks);
  const bool has_scales = layout().scale_bytes > 0;  // else the tensor's head has seen all
  if (has_scales && simd::block_maxima(x, unit.count, unit.block, maxima) >= simd::non_finite_bits) return false;
  write_scales({maxima, unit.blocks}, unit.head, scales, factors);
  if (format_.bits != 6) {
    simd::encode_mini_floats(x, unit.count, unit.block, factors, format_, codes);
    return true;
  }
  std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(unit.count);
  simd::encode_mini_floats(x, unit.count, unit.block, factors, format_, apart);
  write_codes(apart, unit.count, 6, codes, codes + unit.code_bytes);
  return true;
}

bool BlockFloat::decode_unit(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, float* out, bool add, Scratch& scratch) const {
  float* const factors = scratch.factors.as<float>(unit.blocks);
  if (!read_scales(scales, unit.blocks, unit.head, factors)) return false;
  if (format_.bits == 6) {
    const std::size_t groups = (unit.count + 7) / 8;
    std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(8 * groups);
    read_codes(codes, codes + unit.code_bytes, groups, 6, apart);
    codes = apart;
  }
  const bool all_codes = largest_code_ == (1 << (format_.bits - 1)) - 1;
  if (!all_codes && !simd::mini_codes_fit(codes, unit.count, format_.bits, largest_code_)) return false;
  simd::decode_mini_floats(codes, unit.count, unit.block, factors, format_, out, add, unit.stream);
  return true;
}

}  // namespace thinwire
