// Top-K sparsification of a whole message (Bian et al., arXiv 2301.02654, papers/activation_compression.md
// section 2.2; global top-k of |x| over the flattened tensor, not per token or sample):
//   kept = the k elements of largest |x|, k = count, or round(fraction * elements) and at least 1, at most
//   all;
//          among equal magnitudes the lower position is kept
//   decoded = kept values at their positions, 0 elsewhere
// Payload, no header (k and the size follow from the shape and are checked):
//   values [k] in f16 (or f32), in order of position, then the positions (kernels/sparse/index_coding.h).
//   Positions cost about 1.2 bytes per kept element at 1 %, 1.1 at 10 %, nothing when all are kept.
//   The released form sends int64 positions: 10 bytes per kept element.
// Backward of an activation, the masked rule: the k gradient values at the kept positions travel, no indices.
// Sender and receiver remember the positions of each message until its backward pass (evaluation excepted). In a
// reduction every rank masks the gradient by its own message's positions.
#include <cmath>

#include "kernels/codec/message_memory.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/sparse/index_coding.h"
#include "kernels/sparse/positions.h"
#include "kernels/sparse/top_magnitudes.h"

namespace thinwire {
namespace {

struct TopKOptions {
  double fraction = 0.01;
  std::int64_t count = 0;  // 0: by fraction
  IndexForm index = IndexForm::compact;
  DType values = DType::f16;
};

class TopK final : public Codec {
 public:
  explicit TopK(TopKOptions options) : options_(options) {
    traits_.backward = BackwardRule::masked;
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return value_bytes(shape) + index_bytes(options_.index, shape.elements(), kept(shape));
  }

  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const std::size_t bytes = max_payload_bytes(x.shape());
    TW_ASSERT(payload.size() >= bytes);
    selection_.select(x, kept(x.shape()), key);
    if (!mover_.gather(selection_, x.as<float>(), 1, options_.values, payload.data()))
      throw RuntimeFailure("topk: " + text_of(key) +
                           " has a value beyond f16 (65504); use values=f32, or scale the tensor");
    const auto positions = payload.subspan(value_bytes(x.shape()), bytes - value_bytes(x.shape()));
    writer_.write(options_.index, selection_, positions.data());
    if (remembers(key)) sent_.remember(key, positions);
    return bytes;
  }

  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, true);
  }

  Shape travel_shape(const Shape& shape) const override { return Shape{kept(shape)}; }
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override {
    TW_ASSERT(travel.elements() == kept(decoded_gradient.shape()));
    open_mask(received_, decoded_gradient.shape(), key);
    if (!mover_.gather(reader_, decoded_gradient.as<float>(), 1, DType::f32,
                       reinterpret_cast<std::byte*>(travel.as<float>().data())))
      check_finite(decoded_gradient, "gradient of " + text_of(key));
    received_.release(key);
  }
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override {
    TW_ASSERT(travel.elements() == kept(input_gradient.shape()));
    open_mask(sent_, input_gradient.shape(), key);
    if (!mover_.scatter(reader_, reinterpret_cast<const std::byte*>(travel.as<float>().data()), DType::f32, 1,
                        input_gradient.as<float>(), false))
      check_finite(travel, "gradient of " + text_of(key));
    sent_.release(key);
  }
  void reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) override {
    open_mask(sent_, gradient.shape(), key);
    const auto k = static_cast<std::size_t>(kept(gradient.shape()));
    auto* list = reinterpret_cast<std::byte*>(list_.as<float>(k));
    if (!mover_.gather(reader_, gradient.as<float>(), 1, DType::f32, list) ||
        !mover_.scatter(reader_, list, DType::f32, 1, input_gradient.as<float>(), false))
      check_finite(gradient, "gradient of " + text_of(key));
    sent_.release(key);
    received_.release(key);
  }

 private:
  std::int64_t kept(const Shape& shape) const {
    const std::int64_t elements = shape.elements();
    if (options_.count > 0) return std::min(options_.count, elements);
    const auto k = static_cast<std::int64_t>(std::llround(options_.fraction * static_cast<double>(elements)));
    return std::min(std::max<std::int64_t>(k, 1), elements);
  }
  std::size_t value_bytes(const Shape& shape) const {
    return static_cast<std::size_t>(kept(shape)) * size_of(options_.values);
  }

  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    const Shape& shape = out.shape();
    check_payload_size(payload.size(), max_payload_bytes(shape), "topk", shape, key);
    const auto positions = payload.subspan(value_bytes(shape));
    reader_.open(options_.index, shape.elements(), kept(shape), positions, key);
    if (!mover_.scatter(reader_, payload.data(), options_.values, 1, out.as<float>(), add))
      throw CorruptData("topk: the payload of " + text_of(key) + " holds NaN or infinity: it is damaged");
    // Added payloads are those of a reduction, where only the own message is looked at again.
    if (!add && remembers(key)) received_.remember(key, positions);
  }

  void open_mask(MessageMemory& memory, const Shape& shape, const MessageKey& key) {
    std::span<std::byte> positions;
    if (!memory.find(key, positions))
      throw RuntimeFailure("topk: the kept positions of " + text_of(key) +
                           " are not remembered: its forward message must have gone through this codec as one message, not in "
                           "evaluation, with at most " + std::to_string(memory.capacity()) + " others waiting for their backward pass");
    reader_.open(options_.index, shape.elements(), kept(shape), positions, key);
  }

  TopKOptions options_;
  CodecTraits traits_;
  TopMagnitudes selection_;
  SparseMover mover_;
  IndexWriter writer_;
  IndexReader reader_;
  MessageMemory sent_, received_;  // positions
  Buffer list_;
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
      {.name = "index",
       .kind = ParameterSpec::Kind::choice,
       .default_value = "compact",
       .choices = {"compact", "int32", "int64"},
       .help = "how positions are sent; the released form sends int64"},
      {.name = "values",
       .kind = ParameterSpec::Kind::choice,
       .default_value = "f16",
       .choices = {"f16", "f32"},
       .help = "element type of the kept values"}};
  return specs;
}

std::unique_ptr<Codec> make_topk(const Parameters& p, Form form) {
  TopKOptions options;
  options.fraction = p.real("fraction");
  options.count = p.integer("count");
  if (options.count > 0 && !p.has_default(schema()[0]))
    throw UsageError("'topk:count=" + std::to_string(options.count) +
                     "' contradicts fraction=" + p.values().at("fraction") + "; give one of them");
  const std::string& index = p.choice("index");
  options.index = form == Form::released || index == "int64" ? IndexForm::int64
                  : index == "int32"                         ? IndexForm::int32
                                                             : IndexForm::compact;
  options.values = parse_dtype(p.choice("values"));
  return std::make_unique<TopK>(options);
}

const bool registered =
    register_codec({.name = "topk",
                    .summary = "the k elements of largest magnitude and their positions",
                    .source = "Bian et al. (arXiv 2301.02654): global top-k of |x|; positions: Elias-Fano",
                    .parameters = schema(),
                    .has_released_form = true,
                    .make = make_topk});

}  // namespace
}  // namespace thinwire
