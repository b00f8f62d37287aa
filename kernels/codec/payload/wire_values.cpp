#include "kernels/codec/payload/wire_values.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>

#include "kernels/convert.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

// NaN and infinity have all exponent bits set. An integer test survives every optimisation of float maths.
constexpr std::uint32_t exponent_mask = 0x7f800000u;

// Whether the bits of some value have all exponent bits set. An integer test: -ffast-math cannot remove it and
// the loop vectorises.
template <typename Bits>
bool any_non_finite(const Bits* bits, std::int64_t count, Bits exponent) {
  int bad = 0;
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (std::int64_t i = begin; i < end; ++i) found |= (bits[i] & exponent) == exponent;
    if (found != 0) {
#pragma omp atomic write
      bad = 1;
    }
  });
  return bad != 0;
}

bool all_finite_f16(std::span<const Half> values) {
  return !any_non_finite(reinterpret_cast<const std::uint16_t*>(values.data()), static_cast<std::int64_t>(values.size()), std::uint16_t{0x7c00});
}

}  // namespace

bool all_finite(std::span<const float> values) {
  return !any_non_finite(reinterpret_cast<const std::uint32_t*>(values.data()), static_cast<std::int64_t>(values.size()), 0x7f800000u);
}

std::string text_of(const MessageKey& key) {
  char text[96];
  std::snprintf(text, sizeof text, "tensor 0x%016llx (step %lld, micro-batch %d)", static_cast<unsigned long long>(key.tensor),
                static_cast<long long>(key.step), static_cast<int>(key.micro_batch));
  return text;
}

void check_payload_size(std::size_t actual, std::size_t expected, const char* codec, const Shape& shape, const MessageKey& key) {
  if (actual == expected) return;
  throw CorruptData(std::string(codec) + ": the payload of " + text_of(key) + " has " + std::to_string(actual) + " bytes, a tensor of shape " +
                    shape.to_string() + " needs " + std::to_string(expected) +
                    "; sender and receiver must use the same codec expression and shape");
}

void WireValues::write(std::span<const float> values, std::span<std::byte> out, const char* what, const MessageKey& key,
                       ConstTensorView source) {
  TW_ASSERT(out.size() == bytes(static_cast<std::int64_t>(values.size())));
  bool good = true;
  if (type_ == DType::f32) {
    good = all_finite(values);
    if (!values.empty() && static_cast<const void*>(out.data()) != values.data()) std::memcpy(out.data(), values.data(), out.size());
  } else {
    const bool aligned = reinterpret_cast<std::uintptr_t>(out.data()) % alignof(Half) == 0;
    Half* target = aligned ? reinterpret_cast<Half*>(out.data()) : aligned_.as<Half>(values.size());
    const std::span<Half> halves(target, values.size());
    convert(values, halves);
    good = all_finite_f16(halves);
    if (!aligned) std::memcpy(out.data(), target, out.size());
  }
  if (good) return;
  check_finite(source, text_of(key));
  throw NotRepresentable(std::string(what) + " of " + text_of(key) + " overflows " + std::string(name_of(type_)) +
                         ": the input is finite but a value of the factor is not; use wire=f32 or scale the tensor");
}

std::span<const float> WireValues::read(std::span<const std::byte> wire, const char* what, const MessageKey& key) {
  const std::size_t count = wire.size() / size_of(type_);
  TW_ASSERT(count * size_of(type_) == wire.size());
  const bool aligned = reinterpret_cast<std::uintptr_t>(wire.data()) % size_of(type_) == 0;
  const std::byte* source = wire.data();
  if (!aligned) {
    std::byte* copy = aligned_.as<std::byte>(wire.size());
    std::memcpy(copy, wire.data(), wire.size());
    source = copy;
  }
  std::span<const float> values;
  bool good = true;
  if (type_ == DType::f32) {
    values = {reinterpret_cast<const float*>(source), count};
    good = all_finite(values);
  } else {
    const std::span<const Half> halves(reinterpret_cast<const Half*>(source), count);
    good = all_finite_f16(halves);
    const std::span<float> target(scratch_.as<float>(count), count);
    convert(halves, target);
    values = target;
  }
  if (!good)
    throw NonFiniteData(std::string(what) + " of " + text_of(key) + " holds NaN or infinity: the payload is damaged, or a sum over ranks overflowed " +
                        std::string(name_of(type_)) + " (then use wire=f32)");
  return values;
}

void check_finite(ConstTensorView x, std::string_view what) {
  const auto values = x.as<float>();
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = none;
  parallel_for(static_cast<std::int64_t>(values.size()), [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t block = 4096;
    for (std::int64_t b = begin; b < end; b += block) {
      const std::int64_t stop = std::min(end, b + block);
      std::uint32_t bad = 0;
      for (std::int64_t i = b; i < stop; ++i) {
        const std::uint32_t bits =
            std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]) & exponent_mask;
        bad |= bits == exponent_mask ? 1u : 0u;
      }
      if (bad == 0) continue;
      std::int64_t i = b;
      while ((std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]) & exponent_mask) !=
             exponent_mask)
        ++i;
#pragma omp critical(thinwire_check_finite)
      first = std::min(first, i);
      return;
    }
  });
  if (first == none) return;
  const float value = values[static_cast<std::size_t>(first)];
  const std::int64_t columns = x.shape().columns();
  throw NotRepresentable(std::string(what) + " has " +
                         (value != value ? "NaN"
                          : value > 0    ? "+infinity"
                                         : "-infinity") +
                         " at flat index " + std::to_string(first) + " (row " +
                         std::to_string(first / columns) + ", column " + std::to_string(first % columns) +
                         ") of shape " + x.shape().to_string() +
                         "; mend the computation that made it, no codec can represent it");
}

}  // namespace thinwire
