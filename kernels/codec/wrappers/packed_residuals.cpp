#include "kernels/codec/wrappers/packed_residuals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/state.h"
#include "kernels/simd/codes/group_codes.h"
#include "kernels/simd/codes/mini_floats.h"
#include "kernels/simd/philox.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t group = 256, stripe = 4096;  ///< elements; of a stripe everything stays in the cache
constexpr std::uint64_t draws_seed = 0x7265736964ull;  // "resid": other draws than a stochastic codec's of the same message

std::size_t groups_of(std::size_t elements) { return (elements + group - 1) / group; }

/// Calls body(first element, count) for all stripes.
template <class Body>
void for_stripes(std::int64_t elements, const Body& body) {
  parallel_ranges(elements, default_grain, stripe, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto at = static_cast<std::size_t>(begin); at < static_cast<std::size_t>(end); at += stripe) body(at, std::min(stripe, static_cast<std::size_t>(end) - at));
  });
}

// Adding 16 drawn bits to those that bf16 cuts off carries into the rest with the probability of the fraction; the sign stands apart.
BFloat16 bf16_of(float x, std::uint16_t draw) {
  if (!std::isfinite(x)) return to_bfloat16(x);
  return {static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + draw) >> 16)};
}

}  // namespace

double PackedResiduals::bytes_per_element() const { return type_ == Type::bf16 ? 2.0 : 1.0 + sizeof(float) / static_cast<double>(group); }

void PackedResiduals::check_size(const Packed& packed, const Shape& shape, const MessageKey& key) const {
  if (packed.codes.elements() == shape.elements()) return;
  throw UsageError(owner_ + ": " + text_of(key) + " has shape " + shape.to_string() + ", its residual has " + std::to_string(packed.codes.elements()) +
                   " elements; give tensors of different shape different names (message keys), and drop a smaller last batch");
}

void PackedResiduals::reshape(Packed& packed, std::int64_t elements) const {
  packed.codes.reshape({elements}, type_ == Type::bf16 ? DType::bf16 : DType::u8);
  packed.steps.reshape({type_ == Type::bf16 ? 0 : static_cast<std::int64_t>(groups_of(static_cast<std::size_t>(elements)))});
}

void PackedResiduals::unpack(const Packed& packed, std::size_t at, std::size_t count, float* residual) const {
  if (type_ == Type::int8) {
    const std::uint8_t* const codes = packed.codes.as<std::uint8_t>().data() + at;
    return simd::decode_group_codes(codes, count, group, packed.steps.as<float>().data() + at / group, nullptr, 8, simd::CodePacking::bytes, residual, false, false);
  }
  const BFloat16* const codes = packed.codes.as<BFloat16>().data() + at;
  for (std::size_t i = 0; i < count; ++i) residual[i] = to_float(codes[i]);
}

void PackedResiduals::pack(Packed& packed, std::size_t at, std::size_t count, const float* residual, const MessageKey& key) const {
  alignas(64) std::array<std::uint16_t, stripe> words;
  const std::uint16_t* draws = nullptr;
  if (rounding_ == Rounding::stochastic) {
    simd::philox_blocks(draws_seed, key.rounding_stream(), at / 8, (count + 7) / 8, reinterpret_cast<std::uint32_t*>(words.data()));
    draws = words.data();
  }
  if (type_ == Type::bf16) {
    BFloat16* const codes = packed.codes.as<BFloat16>().data() + at;
    for (std::size_t i = 0; i < count; ++i) codes[i] = draws == nullptr ? to_bfloat16(residual[i]) : bf16_of(residual[i], draws[i]);
    return;
  }
  std::array<std::uint32_t, stripe / group> maxima;
  std::array<float, stripe / group> factors;
  float* const steps = packed.steps.as<float>().data() + at / group;
  simd::block_maxima(residual, count, group, maxima.data());
  for (std::size_t g = 0; g < groups_of(count); ++g) {
    steps[g] = std::bit_cast<float>(maxima[g]) / 127;
    factors[g] = steps[g] == 0 ? 0 : std::min(1 / steps[g], std::numeric_limits<float>::max());
  }
  simd::encode_group_codes(residual, count, group, factors.data(), nullptr, -127, 127, 0xff, draws, simd::CodePacking::bytes, packed.codes.as<std::uint8_t>().data() + at);
}

void PackedResiduals::add_to(TensorView x, float beta, const MessageKey& key) const {
  if (key.pass != Pass::train) return;
  const auto found = packed_.find(key.state_key());
  if (found == packed_.end()) return;
  const Packed& packed = found->second;
  check_size(packed, x.shape(), key);
  float* const values = x.as<float>().data();
  for_stripes(x.elements(), [&](std::size_t at, std::size_t count) {
    std::array<float, stripe> residual;
    unpack(packed, at, count, residual.data());
    for (std::size_t i = 0; i < count; ++i) values[at + i] += beta * residual[i];
  });
}

void PackedResiduals::blend(ConstTensorView x, ConstTensorView seen, float beta, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  TW_ASSERT(seen.elements() == x.elements(), "a residual needs the decoded message");
  const auto [found, is_new] = packed_.try_emplace(key.state_key());
  Packed& packed = found->second;
  if (is_new) {
    reshape(packed, x.elements());
    packed.codes.fill_zero();
    packed.steps.fill_zero();
  }
  check_size(packed, x.shape(), key);
  const float *const given = x.as<float>().data(), *const arrived = seen.as<float>().data();
  for_stripes(x.elements(), [&](std::size_t at, std::size_t count) {
    std::array<float, stripe> residual;
    unpack(packed, at, count, residual.data());
    for (std::size_t i = 0; i < count; ++i) residual[i] = beta * residual[i] + (1 - beta) * (given[at + i] - arrived[at + i]);
    pack(packed, at, count, residual.data(), key);
  });
}

void PackedResiduals::save(StateWriter& to) const {
  for (const auto& [key, packed] : packed_) {
    to.put("residual codes", key, std::span(static_cast<const std::byte*>(packed.codes.view().data()), packed.codes.bytes()));
    if (type_ == Type::int8) to.put("residual steps", key, packed.steps.shape(), packed.steps.as<float>());
  }
}

void PackedResiduals::load(StateReader& from) {
  packed_.clear();
  const auto fill = [this](Tensor& tensor, const StateEntry& entry) {
    if (tensor.bytes() != entry.bytes.size()) throw CorruptData(owner_ + ": codes and steps of a residual do not fit together");
    if (!entry.bytes.empty()) std::memcpy(tensor.view().data(), entry.bytes.data(), entry.bytes.size());
  };
  const std::size_t bytes_per_code = type_ == Type::bf16 ? sizeof(BFloat16) : 1;
  for (const StateEntry* entry : from.take("residual codes", DType::u8)) {
    Packed& packed = packed_[entry->key];
    reshape(packed, static_cast<std::int64_t>(entry->bytes.size() / bytes_per_code));
    fill(packed.codes, *entry);
  }
  std::size_t with_steps = 0;
  if (type_ == Type::int8)
    for (const StateEntry* entry : from.take("residual steps", DType::f32)) {
      fill(packed_[entry->key].steps, *entry);
      ++with_steps;
    }
  if (type_ == Type::int8 && with_steps != packed_.size()) throw CorruptData(owner_ + ": codes and steps of a residual do not fit together");
}

}  // namespace thinwire
