#include "kernels/codec/wrappers/byte_residuals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/state.h"
#include "kernels/simd/group_codes.h"
#include "kernels/simd/mini_floats.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t group = 256, stripe = 4096;  ///< elements; of a stripe everything stays in the cache

std::size_t groups_of(std::size_t elements) { return (elements + group - 1) / group; }

/// Calls body(first element, count) for all stripes.
template <class Body>
void for_stripes(std::size_t elements, const Body& body) {
  parallel_ranges(static_cast<std::int64_t>(elements), default_grain, stripe, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto at = static_cast<std::size_t>(begin); at < static_cast<std::size_t>(end); at += stripe) body(at, std::min(stripe, static_cast<std::size_t>(end) - at));
  });
}

void unpack(const std::uint8_t* codes, const float* steps, std::size_t count, float* out) {
  simd::decode_group_codes(codes, count, group, steps, nullptr, 8, simd::CodePacking::bytes, out, false, false);
}

}  // namespace

void ByteResiduals::check_size(const Packed& packed, const Shape& shape, const MessageKey& key) const {
  if (packed.codes.size() == static_cast<std::size_t>(shape.elements())) return;
  throw UsageError(owner_ + ": " + text_of(key) + " has shape " + shape.to_string() + ", its residual has " + std::to_string(packed.codes.size()) +
                   " elements; give tensors of different shape different names (message keys), and drop a smaller last batch");
}

void ByteResiduals::add_to(TensorView x, float beta, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  const auto found = packed_.find(key.state_key());
  if (found == packed_.end()) return;
  const Packed& packed = found->second;
  check_size(packed, x.shape(), key);
  float* const values = x.as<float>().data();
  for_stripes(packed.codes.size(), [&](std::size_t at, std::size_t count) {
    std::array<float, stripe> residual;
    unpack(packed.codes.data() + at, packed.steps.data() + at / group, count, residual.data());
    for (std::size_t i = 0; i < count; ++i) values[at + i] += beta * residual[i];
  });
}

void ByteResiduals::blend(ConstTensorView x, ConstTensorView seen, float beta, const MessageKey& key) {
  if (key.pass != Pass::train) return;
  TW_ASSERT(seen.elements() == x.elements(), "a residual needs the decoded message");
  Packed& packed = packed_[key.state_key()];
  if (packed.codes.empty()) {
    packed.codes.assign(static_cast<std::size_t>(x.elements()), 0);
    packed.steps.assign(groups_of(packed.codes.size()), 0.0f);
  }
  check_size(packed, x.shape(), key);
  const float *const given = x.as<float>().data(), *const arrived = seen.as<float>().data();
  for_stripes(packed.codes.size(), [&](std::size_t at, std::size_t count) {
    std::array<float, stripe> residual;
    std::array<std::uint32_t, stripe / group> maxima;
    std::array<float, stripe / group> factors;
    float* const steps = packed.steps.data() + at / group;
    unpack(packed.codes.data() + at, steps, count, residual.data());
    for (std::size_t i = 0; i < count; ++i) residual[i] = beta * residual[i] + (1 - beta) * (given[at + i] - arrived[at + i]);
    simd::block_maxima(residual.data(), count, group, maxima.data());
    for (std::size_t g = 0; g < groups_of(count); ++g) {
      steps[g] = std::bit_cast<float>(maxima[g]) / 127;
      factors[g] = steps[g] == 0 ? 0 : std::min(1 / steps[g], std::numeric_limits<float>::max());
    }
    simd::encode_group_codes(residual.data(), count, group, factors.data(), nullptr, -127, 127, 0xff, nullptr, simd::CodePacking::bytes, packed.codes.data() + at);
  });
}

void ByteResiduals::save(StateWriter& to) const {
  for (const auto& [key, packed] : packed_) {
    to.put("residual codes", key, std::as_bytes(std::span(packed.codes)));
    to.put("residual steps", key, Shape{static_cast<std::int64_t>(packed.steps.size())}, packed.steps);
  }
}

void ByteResiduals::load(StateReader& from) {
  packed_.clear();
  for (const StateEntry* entry : from.take("residual codes", DType::u8)) {
    std::vector<std::uint8_t>& codes = packed_[entry->key].codes;
    codes.resize(entry->bytes.size());
    std::ranges::transform(entry->bytes, codes.begin(), [](std::byte b) { return static_cast<std::uint8_t>(b); });
  }
  for (const StateEntry* entry : from.take("residual steps", DType::f32)) packed_[entry->key].steps = entry->floats();
  for (const auto& [key, packed] : packed_)
    if (packed.codes.empty() || packed.steps.size() != groups_of(packed.codes.size())) throw CorruptData(owner_ + ": codes and steps of a residual do not fit together");
}

}  // namespace thinwire
