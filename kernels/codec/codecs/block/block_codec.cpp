#include "kernels/codec/codecs/block/block_codec.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/simd/codes/uniform_codes.h"
#include "kernels/simd/magnitude.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches
constexpr std::size_t units_ahead = 4;              // whose scales are fetched
constexpr std::int64_t stripe_elements = 4096;  ///< of a row at once: 16 KiB, so that the second look at them finds them in the cache

}  // namespace

/// How a tensor is cut: into units of a row's stripe, each some whole blocks.
struct BlockCodec::Cut : BlockCut {
  Cut(const Shape& shape, const Layout& of)
      : BlockCut(shape.rows(), shape.columns(), of),
        stripe(of.block > 0 ? std::max(stripe_elements / block, std::int64_t{1}) * block : block),
        stripes_of_row(columns == 0 ? 0 : (columns + stripe - 1) / stripe) {}
  std::int64_t stripe, stripes_of_row;

  std::int64_t units() const { return rows * stripes_of_row; }

  /// Calls body(unit, where its scales begin, where its codes begin, thread).
  template <typename Body>
  void for_units(float head, bool stream, const Body& body) const {
    const std::int64_t grain = std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, std::min(stripe, columns)));
    parallel_ranges(units(), grain, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t number = begin; number < end; ++number) {
        const std::int64_t row = number / stripes_of_row, from = number % stripes_of_row * stripe, count = std::min(stripe, columns - from);
        Unit unit;
        unit.element = static_cast<std::size_t>(row * columns + from);
        unit.count = static_cast<std::size_t>(count);
        unit.column = from;
        unit.block = static_cast<std::size_t>(block);
        unit.blocks = static_cast<std::size_t>((count + block - 1) / block);
        unit.code_bytes = static_cast<std::size_t>((count * bits + 7) / 8);
        unit.head = head;
        unit.stream = stream;
        body(unit, static_cast<std::size_t>(scale_at(row * blocks_of_row + from / block)), static_cast<std::size_t>(code_at(row, from)), thread);
      }
      if (stream) simd::stream_fence();
    });
  }
};

BlockCodec::BlockCodec(std::string name, const Layout& layout) : name_(std::move(name)), layout_(layout) {
  aim_at(0.7, 0.75);
  traits_.device_goal = 0.85;
  traits_.flat = layout.flat || layout.block > 0;  // else a row shares a scale
}

std::size_t BlockCodec::max_payload_bytes(const Shape& shape) const { return Cut(shape, layout_).payload_bytes(); }

std::int64_t BlockCodec::blocks_of(const Shape& shape) const { return Cut(shape, layout_).blocks(); }

double BlockCodec::least_bytes_read(const Shape& shape) const { return (layout_.reads_twice ? 8.0 : 4.0) * static_cast<double>(shape.elements()); }

void BlockCodec::make_scratch() {
  if (scratch_.size() < static_cast<std::size_t>(omp_get_max_threads())) scratch_.resize(static_cast<std::size_t>(omp_get_max_threads()));
}

bool BlockCodec::has_stripes(const Shape& shape, std::int64_t neighbours) const {
  const bool alone = layout_.head_bytes == 0 && layout_.table_bytes == 0 && !layout_.reads_twice && !layout_.flat;  // no unit needs what others have
  return alone && Cut(shape, layout_).stripe % neighbours == 0;
}

std::size_t BlockCodec::shrink(ConstTensorView x, const MessageKey& key, const StripeMap* before, std::span<std::byte> payload) {
  const Cut cut(x.shape(), layout_);
  TW_ASSERT(payload.size() >= cut.payload_bytes());
  make_scratch();
  const float* const values = x.as<float>().data();
  float head = 1;
  if (layout_.reads_twice) {
    head_maxima_.assign(scratch_.size(), 0);
    parallel_ranges(x.shape().elements(), default_grain, 16, [&](std::int64_t begin, std::int64_t end, int thread) {
      head_maxima_[static_cast<std::size_t>(thread)] = simd::maximum_bits(values + begin, static_cast<std::size_t>(end - begin));
    });
    const std::uint32_t largest = *std::max_element(head_maxima_.begin(), head_maxima_.end());
    if (largest >= simd::non_finite_bits) check_finite(x, text_of(key));
    head = write_head(std::bit_cast<float>(largest), payload.data());
  }
  cut.for_units(head, false, [&](const Unit& unit, std::size_t scales, std::size_t codes, int thread) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    const float* from = values + unit.element;
    if (before != nullptr) {
      float* const mapped = scratch.stripe.as<float>(unit.count);
      before->apply(from, unit.column, unit.count, mapped);
      from = mapped;
    }
    if (encode_unit(from, unit, key, payload.data() + scales, reinterpret_cast<std::uint8_t*>(payload.data() + codes), scratch)) return;
    check_finite(x, text_of(key));
    throw NotRepresentable(name_ + ": what a transform made of " + text_of(key) + " near element " + std::to_string(unit.element) + " is beyond f32; scale the tensor");
  });
  return cut.payload_bytes();
}

bool BlockCodec::decode_mapped(const std::byte* scales, const std::uint8_t* codes, const Unit& unit, const StripeMap& behind, bool add, float* out, Scratch& scratch) const {
  Unit cached = unit;
  cached.stream = false;  // the map reads it; and bursts of stores past the caches, a stripe at a time, were measured to take twice as long as decoding into them
  float* const values = add ? scratch.stripe.as<float>(unit.count) : out;
  if (!decode_unit(scales, codes, cached, values, false, scratch)) return false;
  behind.apply(values, unit.column, unit.count, values);
  if (!add) return true;
#pragma omp simd
  for (std::size_t i = 0; i < unit.count; ++i) out[i] += values[i];
  return true;
}

void BlockCodec::expand(std::span<const std::byte> payload, const MessageKey& key, const StripeMap* behind, bool add, TensorView out) {
  const Cut cut(out.shape(), layout_);
  check_payload_size(payload.size(), cut.payload_bytes(), name_.c_str(), out.shape(), key);
  if (cut.units() == 0) return;
  make_scratch();
  const float head = layout_.head_bytes > 0 ? read_head(payload.data(), key) : 1;
  float* const values = out.as<float>().data();
  cut.for_units(head, !add && out.bytes() >= stream_from_bytes, [&](const Unit& unit, std::size_t scales, std::size_t codes, int thread) {
    // Codes are one long stream, which hardware fetches ahead. Of scales each unit has a few lines, and would wait for them.
    const std::size_t scale_bytes = unit.blocks * layout_.scale_bytes, soon = scales + units_ahead * scale_bytes;
    for (std::size_t at = soon; at < std::min(soon + scale_bytes, payload.size()); at += 64) __builtin_prefetch(payload.data() + at);
    const auto* const from = reinterpret_cast<const std::uint8_t*>(payload.data() + codes);
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    float* const to = values + unit.element;
    const bool written = behind != nullptr ? decode_mapped(payload.data() + scales, from, unit, *behind, add, to, scratch) : decode_unit(payload.data() + scales, from, unit, to, add, scratch);
    if (!written)
      throw CorruptData(name_ + ": a scale or a code of " + text_of(key) + " near element " + std::to_string(unit.element) + " is none that is ever written: the payload is damaged");
  });
}

}  // namespace thinwire
