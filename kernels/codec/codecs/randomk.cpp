// Random-K sparsification (Bian et al., arXiv 2301.02654, papers/activation_compression.md section 2.2):
//   kept = k distinct random elements, k = count, or round(fraction * elements) and at least 1, at most all
//   decoded = kept values at their positions, 0 elsewhere; unscaled (biased), or with unbiased=true times n /
//   k
// fair form: every rank draws the same positions from the message key (kernels/sparse/random_positions.h
// states
//   their distribution), so none are sent and lists of different ranks add up. Payload: values [k], f16 or
//   f32, in order of position, no header. Reduces by rounds (one sum of the lists) or gather.
// released form: a sequential sampler draws k indices by rejection, as Python's random.sample does, and sends
// them:
//   values [k], then int64 positions [k] in the order drawn; gather only. Ranks of a tensor-parallel group
//   draw alike here as they do there (equal seeds), but nothing relies on it.
// Backward of an activation, the masked rule: the k gradient values at the kept positions travel, no indices.
#include <cmath>
#include <cstring>

#include "kernels/codec/registry.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/convert.h"
#include "kernels/sparse/positions.h"
#include "kernels/sparse/random_positions.h"

namespace thinwire {
namespace {

struct RandomKOptions {
  double fraction = 0.01;
  std::int64_t count = 0;  // 0: by fraction
  bool unbiased = false;
  DType values = DType::f16;
  std::uint64_t seed = 0;
};

std::int64_t kept_of(const RandomKOptions& options, std::int64_t elements) {
  if (options.count > 0) return std::min(options.count, elements);
  const auto k = static_cast<std::int64_t>(std::llround(options.fraction * static_cast<double>(elements)));
  return std::min(std::max<std::int64_t>(k, 1), elements);
}
// What a kept value is multiplied with before it is sent, so that sums over ranks need no further factor.
float factor_of(const RandomKOptions& options, std::int64_t elements) {
  const std::int64_t k = kept_of(options, elements);
  return options.unbiased && k > 0
             ? static_cast<float>(static_cast<double>(elements) / static_cast<double>(k))
             : 1.0f;
}
// NaN and infinity are refused wherever they are, also where they would not be kept.
[[noreturn]] void refuse_input(const RandomKOptions& options, ConstTensorView x, const MessageKey& key) {
  check_finite(x, text_of(key));
  throw RuntimeFailure("randomk: " + text_of(key) + " has a kept value beyond " +
                       std::string(name_of(options.values)) + "; use values=f32, or scale the tensor");
}
[[noreturn]] void refuse_values(const MessageKey& key) {
  throw CorruptData("randomk: values of " + text_of(key) +
                    " arrived as NaN or infinity: the payload is damaged, or a sum over ranks overflowed "
                    "(then use values=f32)");
}

class RandomK : public Codec {
 public:
  explicit RandomK(RandomKOptions options) : options_(options) {
    traits_.backward = BackwardRule::masked;
    traits_.rounds = 1;
    traits_.rounds_per_shard = true;
    traits_.operators = {ReduceOp::sum};
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(kept_of(options_, shape.elements())) * size_of(options_.values);
  }

  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    TW_ASSERT(payload.size() >= max_payload_bytes(x.shape()));
    if (!mover_.gather(positions(x.shape(), key), x.as<float>(), factor_of(options_, x.elements()),
                       options_.values, payload.data(), true))
      refuse_input(options_, x, key);
    return max_payload_bytes(x.shape());
  }
  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, true);
  }

  Round begin_round(int, ConstTensorView x, const MessageKey& key, int) override {
    const std::size_t bytes = max_payload_bytes(x.shape());
    sent_.reserve(bytes);
    received_.reserve(bytes);
    encode(x, key, {sent_.data(), bytes});
    return {{sent_.data(), bytes}, {received_.data(), bytes}, options_.values, ReduceOp::sum};
  }
  void end_rounds(const MessageKey& key, int, TensorView sum) override {
    expand({received_.data(), max_payload_bytes(sum.shape())}, key, sum, false);
  }
  void own_decoded(const MessageKey& key, TensorView out) override {
    expand({sent_.data(), max_payload_bytes(out.shape())}, key, out, false);
  }

  Shape travel_shape(const Shape& shape) const override { return Shape{kept_of(options_, shape.elements())}; }
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override {
    TW_ASSERT(travel.shape() == travel_shape(decoded_gradient.shape()));
    if (!mover_.gather(positions(decoded_gradient.shape(), key), decoded_gradient.as<float>(), 1, DType::f32,
                       reinterpret_cast<std::byte*>(travel.as<float>().data())))
      check_finite(decoded_gradient, "gradient of " + text_of(key));
  }
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override {
    TW_ASSERT(travel.shape() == travel_shape(input_gradient.shape()));
    if (!mover_.scatter(positions(input_gradient.shape(), key),
                        reinterpret_cast<const std::byte*>(travel.as<float>().data()), DType::f32,
                        factor_of(options_, input_gradient.elements()), input_gradient.as<float>(), false))
      check_finite(travel, "gradient of " + text_of(key));
  }

 protected:
  virtual void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    check_payload_size(payload.size(), RandomK::max_payload_bytes(out.shape()), "randomk", out.shape(), key);
    if (!mover_.scatter(positions(out.shape(), key), payload.data(), options_.values, 1, out.as<float>(),
                        add))
      refuse_values(key);
  }
  RandomPositions positions(const Shape& shape, const MessageKey& key) const {
    return RandomPositions(options_.seed, key.random_stream(), shape.elements(),
                           kept_of(options_, shape.elements()));
  }

  RandomKOptions options_;
  CodecTraits traits_;

 private:
  SparseMover mover_;
  Buffer sent_, received_;
};

// The same maths with the authors' sampler and wire. The backward pass draws again from the key instead of
// remembering, which is the same set.
class ReleasedRandomK final : public RandomK {
 public:
  explicit ReleasedRandomK(RandomKOptions options) : RandomK(options) {
    traits_.rounds = 0;
    traits_.rounds_per_shard = false;
    traits_.operators = {};
  }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(kept_of(options_, shape.elements())) * (size_of(options_.values) + 8);
  }

  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    TW_ASSERT(payload.size() >= max_payload_bytes(x.shape()));
    if (!all_finite(x.as<float>())) refuse_input(options_, x, key);
    const auto drawn = draw(x.elements(), key);
    const auto source = x.as<float>();
    const float factor = factor_of(options_, x.elements());
    const std::span<float> values(values_.as<float>(drawn.size()), drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i)
      values[i] = factor * source[static_cast<std::size_t>(drawn[i])];
    bool good = all_finite(values);
    if (options_.values == DType::f16) {
      const std::span<Half> halves(halves_.as<Half>(drawn.size()), drawn.size());
      convert(std::span<const float>(values), halves);
      for (const Half h : halves) good = good && (h.bits & 0x7c00) != 0x7c00;
      if (!drawn.empty()) std::memcpy(payload.data(), halves.data(), halves.size_bytes());
    } else if (!drawn.empty()) {
      std::memcpy(payload.data(), values.data(), values.size_bytes());
    }
    if (!good) refuse_input(options_, x, key);
    if (!drawn.empty())
      std::memcpy(payload.data() + drawn.size() * size_of(options_.values), drawn.data(), drawn.size_bytes());
    return max_payload_bytes(x.shape());
  }

  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override {
    const auto drawn = draw(decoded_gradient.elements(), key);
    const auto from = decoded_gradient.as<float>();
    const auto to = travel.as<float>();
    TW_ASSERT(to.size() == drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) to[i] = from[static_cast<std::size_t>(drawn[i])];
  }
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override {
    const auto drawn = draw(input_gradient.elements(), key);
    const auto from = travel.as<float>();
    const auto to = input_gradient.as<float>();
    TW_ASSERT(from.size() == drawn.size());
    const float factor = factor_of(options_, input_gradient.elements());
    std::fill(to.begin(), to.end(), 0.0f);
    for (std::size_t i = 0; i < drawn.size(); ++i) to[static_cast<std::size_t>(drawn[i])] = factor * from[i];
  }

 protected:
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) override {
    check_payload_size(payload.size(), max_payload_bytes(out.shape()), "randomk", out.shape(), key);
    const std::size_t k = payload.size() / (size_of(options_.values) + 8);
    const std::span<float> values(values_.as<float>(k), k);
    if (options_.values == DType::f16) {
      const std::span<Half> halves(halves_.as<Half>(k), k);
      if (k > 0) std::memcpy(halves.data(), payload.data(), halves.size_bytes());
      convert(std::span<const Half>(halves), values);
    } else if (k > 0) {
      std::memcpy(values.data(), payload.data(), values.size_bytes());
    }
    if (!all_finite(values)) refuse_values(key);
    const auto to = out.as<float>();
    if (!add) std::fill(to.begin(), to.end(), 0.0f);
    const std::byte* positions = payload.data() + k * size_of(options_.values);
    for (std::size_t i = 0; i < k; ++i) {
      std::int64_t position = 0;
      std::memcpy(&position, positions + 8 * i, 8);
      if (position < 0 || position >= out.elements())
        throw CorruptData("randomk: position " + std::to_string(position) + " in the payload of " +
                          text_of(key) + " lies outside the tensor of " + std::to_string(out.elements()) +
                          " elements: the payload is damaged");
      if (add)
        to[static_cast<std::size_t>(position)] += values[i];
      else
        to[static_cast<std::size_t>(position)] = values[i];
    }
  }

 private:
  // One after the other, rejecting what was drawn before, as random.sample does with its set.
  std::span<const std::int64_t> draw(std::int64_t elements, const MessageKey& key) {
    const auto k = static_cast<std::size_t>(kept_of(options_, elements));
    const std::size_t words = static_cast<std::size_t>(elements + 63) / 64;
    auto* seen = seen_.as<std::uint64_t>(words);
    std::fill_n(seen, words, 0);
    auto* drawn = drawn_.as<std::int64_t>(k);
    const Random random(options_.seed, key.random_stream());
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < k;) {
      const auto position =
          static_cast<std::int64_t>(random.below(number++, static_cast<std::uint64_t>(elements)));
      std::uint64_t& word = seen[position / 64];
      const std::uint64_t bit = std::uint64_t{1} << position % 64;
      if ((word & bit) != 0) continue;
      word |= bit;
      drawn[i++] = position;
    }
    return {drawn, k};
  }
  Buffer seen_, drawn_, values_, halves_;
};

const std::vector<ParameterSpec>& schema() {
  static const std::vector<ParameterSpec> specs = {
      {.name = "fraction",
       .kind = ParameterSpec::Kind::real,
       .default_value = "0.01",
       .minimum = 0,
       .maximum = 1,
       .help = "kept share of the elements of a message"},
      {.name = "count",
       .kind = ParameterSpec::Kind::integer,
       .default_value = "0",
       .minimum = 0,
       .maximum = 1e15,
       .help = "kept elements of a message, instead of fraction; 0: by fraction"},
      {.name = "unbiased",
       .kind = ParameterSpec::Kind::flag,
       .default_value = "false",
       .help = "multiply kept values by elements / k"},
      {.name = "values",
       .kind = ParameterSpec::Kind::choice,
       .default_value = "f16",
       .choices = {"f16", "f32"},
       .help = "element type of the kept values"},
      {.name = "seed",
       .kind = ParameterSpec::Kind::integer,
       .default_value = "0",
       .minimum = 0,
       .maximum = 1e15,
       .help = "of the positions; equal on all ranks"}};
  return specs;
}

std::unique_ptr<Codec> make_randomk(const Parameters& p, Form form) {
  RandomKOptions options;
  options.fraction = p.real("fraction");
  options.count = p.integer("count");
  if (options.count > 0 && !p.has_default(schema()[0]))
    throw UsageError("'randomk:count=" + std::to_string(options.count) +
                     "' contradicts fraction=" + p.values().at("fraction") + "; give one of them");
  options.unbiased = p.flag("unbiased");
  options.values = parse_dtype(p.choice("values"));
  options.seed = static_cast<std::uint64_t>(p.integer("seed"));
  if (form == Form::released) return std::make_unique<ReleasedRandomK>(options);
  return std::make_unique<RandomK>(options);
}

const bool registered = register_codec(
    {.name = "randomk",
     .summary = "k random elements; positions from a shared seed, not sent",
     .source = "Bian et al. (arXiv 2301.02654); shared-seed positions make it reducible by a sum",
     .parameters = schema(),
     .has_released_form = true,
     .make = make_randomk});

}  // namespace
}  // namespace thinwire
