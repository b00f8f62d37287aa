// Random-K sparsification (Bian et al., arXiv 2301.02654,
// docs/papers/activation_compression.md, "The codecs"):
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

#include "kernels/codec/codecs/sparse/randomk_entries.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/reference_check.h"
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
  throw NotRepresentable("randomk: " + text_of(key) + " has a kept value beyond " +
                         std::string(name_of(options.values)) + "; use values=f32, or scale the tensor");
}
[[noreturn]] void refuse_values(const MessageKey& key) {
  throw NonFiniteData("randomk: values of " + text_of(key) +
                      " arrived as NaN or infinity: the payload is damaged, or a sum over ranks overflowed "
                      "(then use values=f32)");
}

class RandomK : public Codec, public Backward {
 public:
  explicit RandomK(RandomKOptions options) : options_(options) { traits_.backward = BackwardRule::masked; }

  const CodecTraits& traits() const override { return traits_; }
  // One 32-byte sector per kept element.
  double least_bytes_read(const Shape& shape) const override {
    return std::min(Codec::least_bytes_read(shape), 32.0 * static_cast<double>(kept_of(options_, shape.elements())));
  }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(kept_of(options_, shape.elements())) * size_of(options_.values);
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    TW_ASSERT(payload.size() >= max_payload_bytes(x.shape()));
    if (!mover_.gather(positions(x.shape(), key), x.as<float>(), factor_of(options_, x.elements()),
                       options_.values, payload.data(), true))
      refuse_input(options_, x, key);
    return max_payload_bytes(x.shape());
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, true);
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
};

// Lists of ranks that drew alike add up.
class FairRandomK final : public RandomK, public PayloadRounds {
 public:
  explicit FairRandomK(RandomKOptions options) : RandomK(options), PayloadRounds(*this, options.values) {
    traits_.rounds = 1;
    traits_.rounds_per_shard = true;
    traits_.operators = {ReduceOp::sum};
  }
};

// The same maths with the authors' sampler and wire. The backward pass draws again from the key instead of
// remembering, which is the same set.
class ReleasedRandomK final : public RandomK {
 public:
  explicit ReleasedRandomK(RandomKOptions options) : RandomK(options) { traits_.stricter_on_device = true; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(kept_of(options_, shape.elements())) * (size_of(options_.values) + 8);
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
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
       .help = "of the positions; equal on all ranks. In a training the run's unless given",
       .seed_of_run = true}};
  return specs;
}

/// What both forms share on a device: positions are drawn again in the backward pass, so nothing is remembered.
class CudaRandomK : public CudaCodec, public Backward {
 public:
  CudaRandomK(std::unique_ptr<Codec> host, const RandomKOptions& options) : CudaCodec("randomk", std::move(host)), options_(options) {}

  Shape travel_shape(const Shape& shape) const final { return host().as<Backward>()->travel_shape(shape); }
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) final {
    TW_ASSERT(travel.elements() == kept(decoded_gradient.shape()));
    if (travel.elements() > 0) gather_gradient(floats(decoded_gradient), decoded_gradient.shape(), key, floats(travel));
  }
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) final {
    TW_ASSERT(travel.elements() == kept(input_gradient.shape()));
    if (travel.elements() > 0) scatter_gradient(floats(travel), input_gradient.shape(), key, floats(input_gradient));
  }

 protected:
  virtual void gather_gradient(const float* gradient, const Shape& shape, const MessageKey& key, float* list) = 0;
  virtual void scatter_gradient(const float* list, const Shape& shape, const MessageKey& key, float* gradient) = 0;
  std::int64_t kept(const Shape& shape) const { return kept_of(options_, shape.elements()); }
  int half_values() const { return options_.values == DType::f16 ? 1 : 0; }

  RandomKOptions options_;
};

class CudaFairRandomK final : public CudaRandomK, public PayloadRounds {
 public:
  CudaFairRandomK(std::unique_ptr<Codec> host, const RandomKOptions& options) : CudaRandomK(std::move(host), options), PayloadRounds(*this, options.values) {}

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) override {
    gather(x, shape, key, factor_of(options_, shape.elements()), half_values(), 1, payload.data());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey& key, float* out, bool add) override {
    scatter(payload.data(), half_values(), shape, key, 1.0f, out, add ? 1 : 0, payload_status());
  }
  void gather_gradient(const float* gradient, const Shape& shape, const MessageKey& key, float* list) override { gather(gradient, shape, key, 1.0f, 0, 0, list); }
  void scatter_gradient(const float* list, const Shape& shape, const MessageKey& key, float* gradient) override {
    scatter(list, 0, shape, key, factor_of(options_, shape.elements()), gradient, 0, tensor_status());
  }

  void gather(const float* x, const Shape& shape, const MessageKey& key, float factor, int half, int scan, void* list) {
    static const DeviceEntry<thinwire_cuda_randomk_gather_fn> entry("thinwire_cuda_randomk_gather");
    entry(x, shape.elements(), kept(shape), options_.seed, key.random_stream(), factor, half, scan, list, tensor_status());
  }
  void scatter(const void* list, int half, const Shape& shape, const MessageKey& key, float factor, float* out, int add, std::uint32_t* status) {
    static const DeviceEntry<thinwire_cuda_randomk_scatter_fn> entry("thinwire_cuda_randomk_scatter");
    entry(list, half, shape.elements(), kept(shape), options_.seed, key.random_stream(), factor, out, add, status);
  }
};

class CudaReleasedRandomK final : public CudaRandomK {
 public:
  using CudaRandomK::CudaRandomK;

 private:
  void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) override {
    static const DeviceEntry<thinwire_cuda_randomk_released_encode_fn> entry("thinwire_cuda_randomk_released_encode");
    entry(x, shape.elements(), kept(shape), options_.seed, key.random_stream(), factor_of(options_, shape.elements()), half_values(),
          static_cast<void*>(payload.data()), workspace(shape), tensor_status());
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    static const DeviceEntry<thinwire_cuda_randomk_released_decode_fn> entry("thinwire_cuda_randomk_released_decode");
    entry(static_cast<const void*>(payload.data()), half_values(), shape.elements(), kept(shape), out, add ? 1 : 0, workspace(shape), payload_status());
  }
  void gather_gradient(const float* gradient, const Shape& shape, const MessageKey& key, float* list) override {
    static const DeviceEntry<thinwire_cuda_randomk_released_gather_fn> entry("thinwire_cuda_randomk_released_gather");
    entry(gradient, shape.elements(), kept(shape), options_.seed, key.random_stream(), list, workspace(shape));
  }
  void scatter_gradient(const float* list, const Shape& shape, const MessageKey& key, float* gradient) override {
    static const DeviceEntry<thinwire_cuda_randomk_released_scatter_fn> entry("thinwire_cuda_randomk_released_scatter");
    entry(list, shape.elements(), kept(shape), options_.seed, key.random_stream(), factor_of(options_, shape.elements()), gradient, workspace(shape));
  }
  void* workspace(const Shape& shape) const { return device_workspace(randomk_workspace_bytes(shape.elements(), kept(shape))); }
};

RandomKOptions options_of(const Parameters& p) {
  RandomKOptions options;
  options.fraction = p.real("fraction");
  options.count = p.integer("count");
  if (options.count > 0 && !p.has_default(schema()[0]))
    throw UsageError("'randomk:count=" + std::to_string(options.count) +
                     "' contradicts fraction=" + p.values().at("fraction") + "; give one of them");
  options.unbiased = p.flag("unbiased");
  options.values = parse_dtype(p.choice("values"));
  options.seed = static_cast<std::uint64_t>(p.integer("seed"));
  return options;
}

const bool registered = register_codec(
    {.name = "randomk",
     .summary = "k random elements; positions from a shared seed, not sent",
     .source = "Bian et al. (arXiv 2301.02654); shared-seed positions make it reducible by a sum",
     .wire = "kept values in f16 or f32, no positions; adds up over ranks",
     .parameters = schema(),
     .presets = {"fraction=0.1"},
     .has_released_form = true,
     .make = [](const Parameters& p, Form form) -> std::unique_ptr<Codec> {
       if (form == Form::released) return std::make_unique<ReleasedRandomK>(options_of(p));
       return std::make_unique<FairRandomK>(options_of(p));
     },
     .check = [](const CodecStack& stack, ConstTensorView x, std::span<const float> decoded) -> std::string {
       require_kept_values(x.as<float>(), decoded, false, factor_of(options_of(stack.expression.codec.parameters), x.elements()));
       return "kept values";
     }});
const bool cuda = register_cuda("randomk", [](const Parameters& p, Form form, std::unique_ptr<Codec> host) -> std::unique_ptr<Codec> {
  if (form == Form::released) return std::make_unique<CudaReleasedRandomK>(std::move(host), options_of(p));
  return std::make_unique<CudaFairRandomK>(std::move(host), options_of(p));
});

}  // namespace
}  // namespace thinwire
