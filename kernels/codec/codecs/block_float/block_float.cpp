#include "kernels/codec/codecs/block_float/block_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/error.h"
#include "kernels/codec/payload/bit_stream.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/simd/magnitude.h"
#include "kernels/simd/uniform_codes.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches
constexpr std::int64_t stripe_elements = 4096;  ///< of a row at once: 16 KiB, so that the second look at them finds them in the cache

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

/// How a tensor is cut: into units of a row's stripe, each some whole blocks.
struct BlockFloat::Cut {
  Cut(const Shape& shape, const Layout& layout)
      : columns(shape.columns()),
        rows(shape.rows()),
        block(layout.block > 0 ? layout.block : std::max<std::int64_t>(1, columns)),
        blocks_of_row(columns == 0 ? 0 : (columns + block - 1) / block),
        stripe(layout.block > 0 ? std::max(stripe_elements / block, std::int64_t{1}) * block : block),
        stripes_of_row(columns == 0 ? 0 : (columns + stripe - 1) / stripe),
        bytes_of_row((columns * layout.format.bits + 7) / 8) {}
  std::int64_t columns, rows, block, blocks_of_row, stripe, stripes_of_row, bytes_of_row;

  std::int64_t units() const { return rows * stripes_of_row; }
  std::size_t codes_at(const Layout& layout) const { return layout.head_bytes + static_cast<std::size_t>(rows * blocks_of_row) * layout.scale_bytes; }
  std::size_t payload_bytes(const Layout& layout) const { return codes_at(layout) + static_cast<std::size_t>(rows * bytes_of_row); }

  struct Unit {
    std::size_t element, count, first_block, blocks, code_byte, code_bytes;
  };
  Unit unit(std::int64_t number, const Layout& layout) const {
    const std::int64_t row = number / stripes_of_row, begin = number % stripes_of_row * stripe, count = std::min(stripe, columns - begin);
    return {static_cast<std::size_t>(row * columns + begin),
            static_cast<std::size_t>(count),
            static_cast<std::size_t>(row * blocks_of_row + begin / block),
            static_cast<std::size_t>((count + block - 1) / block),
            static_cast<std::size_t>(row * bytes_of_row + begin * layout.format.bits / 8),
            static_cast<std::size_t>((count * layout.format.bits + 7) / 8)};
  }
  template <typename Body>
  void for_units(const Body& body) const {
    parallel_ranges(units(), std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, std::min(stripe, columns))), 1, body);
  }
};

BlockFloat::BlockFloat(std::string name, const Layout& layout)
    : name_(std::move(name)), layout_(layout), largest_code_(mini_code(layout.format.largest, layout.format)), scratch_(static_cast<std::size_t>(omp_get_max_threads())) {}

std::size_t BlockFloat::max_payload_bytes(const Shape& shape) const { return Cut(shape, layout_).payload_bytes(layout_); }

double BlockFloat::least_bytes_read(const Shape& shape) const { return (layout_.reads_twice ? 8.0 : 4.0) * static_cast<double>(shape.elements()); }

std::size_t BlockFloat::write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  const Cut cut(x.shape(), layout_);
  TW_ASSERT(payload.size() >= cut.payload_bytes(layout_));
  const float* values = x.as<float>().data();
  if (scratch_.size() < static_cast<std::size_t>(omp_get_max_threads())) scratch_.resize(static_cast<std::size_t>(omp_get_max_threads()));
  float head = 1;
  if (layout_.reads_twice) {
    std::vector<std::uint32_t>& most = head_maxima_;
    most.assign(scratch_.size(), 0);
    parallel_ranges(x.shape().elements(), default_grain, 16, [&](std::int64_t begin, std::int64_t end, int thread) {
      most[static_cast<std::size_t>(thread)] = simd::maximum_bits(values + begin, static_cast<std::size_t>(end - begin));
    });
    const std::uint32_t largest = *std::max_element(most.begin(), most.end());
    if (largest >= simd::non_finite_bits) check_finite(x, text_of(key));
    head = write_head(std::bit_cast<float>(largest), payload.data());
  }
  std::byte* const scales = payload.data() + layout_.head_bytes;
  auto* const codes = reinterpret_cast<std::uint8_t*>(payload.data() + cut.codes_at(layout_));
  const simd::MiniFloat& format = layout_.format;
  cut.for_units([&](std::int64_t begin, std::int64_t end, int thread) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    for (std::int64_t u = begin; u < end; ++u) {
      const Cut::Unit unit = cut.unit(u, layout_);
      const float* const from = values + unit.element;
      std::uint32_t* const maxima = scratch.maxima.as<std::uint32_t>(unit.blocks);
      float* const factors = scratch.factors.as<float>(unit.blocks);
      simd::block_maxima(from, unit.count, static_cast<std::size_t>(cut.block), maxima);
      if (*std::max_element(maxima, maxima + unit.blocks) >= simd::non_finite_bits) check_finite(x, text_of(key));
      write_scales({maxima, unit.blocks}, head, scales + unit.first_block * layout_.scale_bytes, factors);
      std::uint8_t* const to = codes + unit.code_byte;
      if (format.bits != 6) {
        simd::encode_mini_floats(from, unit.count, static_cast<std::size_t>(cut.block), factors, format, to);
        continue;
      }
      std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(unit.count);
      simd::encode_mini_floats(from, unit.count, static_cast<std::size_t>(cut.block), factors, format, apart);
      write_codes(apart, unit.count, 6, to, to + unit.code_bytes);
    }
  });
  return cut.payload_bytes(layout_);
}

void BlockFloat::expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
  const Cut cut(out.shape(), layout_);
  check_payload_size(payload.size(), cut.payload_bytes(layout_), name_.c_str(), out.shape(), key);
  if (cut.units() == 0) return;
  const float head = layout_.head_bytes > 0 ? read_head(payload.data(), key) : 1;
  const std::byte* const scales = payload.data() + layout_.head_bytes;
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(payload.data() + cut.codes_at(layout_));
  float* const values = out.as<float>().data();
  const simd::MiniFloat& format = layout_.format;
  const bool stream = !add && out.bytes() >= stream_from_bytes;
  const bool all_codes = largest_code_ == (1 << (format.bits - 1)) - 1;
  if (scratch_.size() < static_cast<std::size_t>(omp_get_max_threads())) scratch_.resize(static_cast<std::size_t>(omp_get_max_threads()));
  cut.for_units([&](std::int64_t begin, std::int64_t end, int thread) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    for (std::int64_t u = begin; u < end; ++u) {
      const Cut::Unit unit = cut.unit(u, layout_);
      float* const factors = scratch.factors.as<float>(unit.blocks);
      if (!read_scales(scales + unit.first_block * layout_.scale_bytes, unit.blocks, head, factors))
        throw CorruptData(name_ + ": a scale of " + text_of(key) + " near element " + std::to_string(unit.element) + " is none that is ever written: the payload is damaged");
      const std::uint8_t* from = codes + unit.code_byte;
      if (format.bits == 6) {
        const std::size_t groups = (unit.count + 7) / 8;
        std::uint8_t* const apart = scratch.codes.as<std::uint8_t>(8 * groups);
        read_codes(from, from + unit.code_bytes, groups, 6, apart);
        from = apart;
      }
      if (!all_codes && !simd::mini_codes_fit(from, unit.count, format.bits, largest_code_))
        throw CorruptData(name_ + ": a code of " + text_of(key) + " near element " + std::to_string(unit.element) + " is no number: the payload is damaged");
      simd::decode_mini_floats(from, unit.count, static_cast<std::size_t>(cut.block), factors, format, values + unit.element, add, stream);
    }
    if (stream) simd::stream_fence();
  });
}

}  // namespace thinwire
