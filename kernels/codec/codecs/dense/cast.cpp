// A narrower element type: payload = the values rounded to nearest even in f16 or bf16, 2 bytes each, no
// header. Codes of different ranks add up, so one reduction by sum in that type reduces the tensor (the sum
// is rounded at every addition; an f16 sum can overflow, a bf16 sum cannot where the f32 sum does not).
#include <cstring>

#include "core/half.h"
#include "kernels/codec/codecs/dense/cast_entries.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/convert.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

// Values converted at a time: the codes are checked while they are still in the first-level cache.
constexpr std::int64_t tile = 4096;

template <typename Code>
constexpr std::uint16_t exponent_bits = std::is_same_v<Code, Half> ? 0x7c00 : 0x7f80;

template <typename Code>
bool any_non_finite(const Code* codes, std::int64_t count) {
  int found = 0;
#pragma omp simd reduction(| : found)
  for (std::int64_t i = 0; i < count; ++i)
    found |= (codes[i].bits & exponent_bits<Code>) == exponent_bits<Code> ? 1 : 0;
  return found != 0;
}

// False when a code is NaN or infinite. `bytes` need not be aligned.
template <typename Code>
bool narrow(std::span<const float> x, std::byte* bytes) {
  bool bad = false;
  parallel_for(static_cast<std::int64_t>(x.size()), [&](std::int64_t begin, std::int64_t end) {
    alignas(64) Code codes[tile];
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % alignof(Code) == 0;
    for (std::int64_t i = begin; i < end; i += tile) {
      const auto n = static_cast<std::size_t>(std::min(tile, end - i));
      std::byte* to = bytes + i * static_cast<std::int64_t>(sizeof(Code));
      Code* target = aligned ? reinterpret_cast<Code*>(to) : codes;
      convert(x.subspan(static_cast<std::size_t>(i), n), std::span<Code>(target, n));
      if (any_non_finite(target, static_cast<std::int64_t>(n))) {
#pragma omp atomic write
        bad = true;
      }
      if (!aligned) std::memcpy(to, codes, n * sizeof(Code));
    }
  });
  return !bad;
}

// False when a code is NaN or infinite. `add`: out += values.
template <typename Code>
bool widen(const std::byte* bytes, std::span<float> out, bool add) {
  bool bad = false;
  parallel_for(static_cast<std::int64_t>(out.size()), [&](std::int64_t begin, std::int64_t end) {
    alignas(64) Code codes[tile];
    alignas(64) float values[tile];
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % alignof(Code) == 0;
    for (std::int64_t i = begin; i < end; i += tile) {
      const auto n = static_cast<std::size_t>(std::min(tile, end - i));
      const std::byte* from = bytes + i * static_cast<std::int64_t>(sizeof(Code));
      if (!aligned) std::memcpy(codes, from, n * sizeof(Code));
      const std::span<const Code> source(aligned ? reinterpret_cast<const Code*>(from) : codes, n);
      if (any_non_finite(source.data(), static_cast<std::int64_t>(n))) {
#pragma omp atomic write
        bad = true;
      }
      const auto target = out.subspan(static_cast<std::size_t>(i), n);
      if (!add) {
        convert(source, target);
      } else {
        convert(source, std::span<float>(values, n));
        accumulate(target, std::span<const float>(values, n));
      }
    }
  });
  return !bad;
}

class Cast final : public Codec, public PayloadRounds {
 public:
  explicit Cast(DType to) : PayloadRounds(*this, to), to_(to) {
    traits_.flat = true;
    traits_.encode_goal = traits_.decode_goal = 0.5;
    traits_.device_goal = 0.85;
    traits_.rounds = 1;
    traits_.rounds_per_shard = true;
    traits_.operators = {ReduceOp::sum};
  }
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(shape.elements()) * 2;
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const auto values = x.as<float>();
    const bool good =
        to_ == DType::f16 ? narrow<Half>(values, payload.data()) : narrow<BFloat16>(values, payload.data());
    if (!good) {
      check_finite(x, text_of(key));
      throw NotRepresentable("cast: " + text_of(key) + " has a value beyond the range of " +
                             std::string(name_of(to_)) + (to_ == DType::f16 ? "; use cast:to=bf16, or scale the tensor" : "; scale the tensor"));
    }
    return max_payload_bytes(x.shape());
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, true);
  }

 private:
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    check_payload_size(payload.size(), max_payload_bytes(out.shape()), "cast", out.shape(), key);
    const auto values = out.as<float>();
    const bool good = to_ == DType::f16 ? widen<Half>(payload.data(), values, add)
                                        : widen<BFloat16>(payload.data(), values, add);
    if (!good)
      throw NonFiniteData(
          "cast: " + text_of(key) +
          " arrived with NaN or infinity: the payload is damaged, or a sum over ranks overflowed " +
          std::string(name_of(to_)) + " (then use cast:to=bf16)");
  }

  DType to_;
  CodecTraits traits_;
};

class CudaCast final : public CudaCodec, public PayloadRounds {
 public:
  CudaCast(std::unique_ptr<Codec> host, DType to) : CudaCodec("cast", std::move(host)), PayloadRounds(*this, to), bfloat16_(to == DType::bf16 ? 1 : 0) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey&, std::span<std::byte> payload) override {
    static const DeviceEntry<thinwire_cuda_cast_encode_fn> entry("thinwire_cuda_cast_encode");
    entry(x, shape.elements(), bfloat16_, static_cast<void*>(payload.data()), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<thinwire_cuda_cast_decode_fn> entry("thinwire_cuda_cast_decode");
    entry(static_cast<const void*>(payload.data()), shape.elements(), bfloat16_, out, add ? 1 : 0, payload_status());
  }
  int bfloat16_;
};

std::string check_rounding(const CodecStack& stack, ConstTensorView x, std::span<const float> decoded) {
  const bool half = stack.expression.codec.parameters.choice("to") == "f16";
  const auto values = x.as<float>();
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = half ? round_to_half(values[i]) : to_float(to_bfloat16(values[i]));
  require_near_reference(decoded, out, 0);
  return "scalar rounding, exact";
}

const bool registered = register_codec(
    {.name = "cast",
     .summary = "values rounded to a 16-bit float type",
     .source = "IEEE 754 binary16 and bfloat16, round to nearest even",
     .wire = "16 bits an element, no header; adds up over ranks",
     .parameters = {{.name = "to",
                     .kind = ParameterSpec::Kind::choice,
                     .default_value = "f16",
                     .choices = {"f16", "bf16"},
                     .help = "element type on the wire"}},
     .presets = {"to=bf16"},
     .has_released_form = false,
     .make = [](const Parameters& p, Form) { return std::make_unique<Cast>(parse_dtype(p.choice("to"))); },
     .check = check_rounding});
const bool cuda = register_cuda("cast", [](const Parameters& p, Form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaCast>(std::move(host), parse_dtype(p.choice("to")));
});

}  // namespace
}  // namespace thinwire
