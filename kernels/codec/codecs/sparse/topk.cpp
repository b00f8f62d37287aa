// Top-K sparsification of a whole message (Bian et al., arXiv 2301.02654, docs/papers/activation_compression.md, "The
// codecs"; global top-k of |x| over the flattened tensor, not per token or sample):
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
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/codec/codecs/sparse/topk_entries.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/message_memory.h"
#include "kernels/codec/reference_check.h"
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

[[noreturn]] void not_remembered(const MessageMemory& memory, const MessageKey& key) {
  throw RuntimeFailure("topk: the kept positions of " + text_of(key) +
                       " are not remembered: its forward message must have gone through this codec as one message, not in "
                       "evaluation, with at most " + std::to_string(memory.capacity()) + " others waiting for their backward pass");
}

class TopK final : public Codec, public Backward {
 public:
  explicit TopK(TopKOptions options) : options_(options) {
    traits_.backward = BackwardRule::masked;
    traits_.encode_goal = 0.3, traits_.decode_goal = 0.5;
    traits_.device_goal = 0.5;
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return value_bytes(shape) + index_bytes(options_.index, shape.elements(), kept(shape));
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const std::size_t bytes = max_payload_bytes(x.shape());
    TW_ASSERT(payload.size() >= bytes);
    selection_.select(x, kept(x.shape()), key);
    if (!mover_.gather(selection_, x.as<float>(), 1, options_.values, payload.data()))
      throw NotRepresentable("topk: " + text_of(key) +
                             " has a value beyond f16 (65504); use values=f32, or scale the tensor");
    const auto positions = payload.subspan(value_bytes(x.shape()), bytes - value_bytes(x.shape()));
    writer_.write(options_.index, selection_, positions.data());
    if (remembers(key)) sent_.remember(key, positions);
    return bytes;
  }

  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    expand(payload, key, out, false);
  }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
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
    if (!memory.find(key, positions)) not_remembered(memory, key);
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

class CudaTopK final : public CudaCodec, public Backward {
 public:
  CudaTopK(std::unique_ptr<Codec> host, const TopKOptions& options)
      : CudaCodec("topk", std::move(host)), half_values_(options.values == DType::f16 ? 1 : 0), value_size_(size_of(options.values)), index_form_(form_of(options.index)) {}

  Shape travel_shape(const Shape& shape) const override { return host().as<Backward>()->travel_shape(shape); }
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override {
    gather(received_, floats(decoded_gradient), decoded_gradient.shape(), key, travel);
    received_.release(key);
  }
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override {
    scatter(sent_, travel, key, input_gradient);
    sent_.release(key);
  }
  // Every rank masks the gradient by its own message's positions.
  void reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) override {
    list_.reshape(travel_shape(gradient.shape()));
    gather(sent_, floats(gradient), gradient.shape(), key, list_.view());
    scatter(sent_, std::as_const(list_).view(), key, input_gradient);
    sent_.release(key);
    received_.release(key);
  }

 private:
  static int form_of(IndexForm index) {
    return index == IndexForm::int64 ? index_form_int64 : index == IndexForm::int32 ? index_form_int32 : index_form_compact;
  }
  std::int64_t kept(const Shape& shape) const { return travel_shape(shape).elements(); }
  /// Positions lie behind the values.
  std::span<const std::byte> positions(const Shape& shape, std::span<const std::byte> payload) const {
    return payload.subspan(static_cast<std::size_t>(kept(shape)) * value_size_);
  }
  void* workspace(const Shape& shape) const {
    return device_workspace(std::max(topk_workspace_bytes(shape.elements(), kept(shape)), sparse_workspace_bytes(shape.elements(), kept(shape))));
  }

  void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) override {
    static const DeviceEntry<thinwire_cuda_topk_encode_fn> entry("thinwire_cuda_topk_encode");
    entry(x, shape.elements(), kept(shape), half_values_, index_form_, static_cast<void*>(payload.data()), workspace(shape), tensor_status());
    if (remembers(key)) sent_.remember(key, positions(shape, payload));
  }
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey& key, float* out, bool add) override {
    static const DeviceEntry<thinwire_cuda_sparse_scatter_fn> entry("thinwire_cuda_sparse_scatter");
    const auto index = positions(shape, payload);
    entry(static_cast<const void*>(index.data()), index_form_, shape.elements(), kept(shape), static_cast<const void*>(payload.data()), half_values_, out,
          add ? 1 : 0, workspace(shape), payload_status());
    // Added payloads are those of a reduction, where only the own message is looked at again.
    if (!add && remembers(key)) received_.remember(key, index);
  }
  const void* index_of(MessageMemory& memory, const MessageKey& key) {
    std::span<std::byte> index;
    if (!memory.find(key, index)) not_remembered(memory, key);
    return index.data();
  }
  void gather(MessageMemory& memory, const float* gradient, const Shape& shape, const MessageKey& key, TensorView list) {
    TW_ASSERT(list.elements() == kept(shape));
    if (list.elements() == 0) return;
    static const DeviceEntry<thinwire_cuda_sparse_gather_fn> entry("thinwire_cuda_sparse_gather");
    entry(index_of(memory, key), index_form_, shape.elements(), kept(shape), gradient, floats(list), workspace(shape), tensor_status());
  }
  void scatter(MessageMemory& memory, ConstTensorView list, const MessageKey& key, TensorView gradient) {
    const Shape& shape = gradient.shape();
    TW_ASSERT(list.elements() == kept(shape));
    if (list.elements() == 0) return;
    static const DeviceEntry<thinwire_cuda_sparse_scatter_fn> entry("thinwire_cuda_sparse_scatter");
    entry(index_of(memory, key), index_form_, shape.elements(), kept(shape), static_cast<const void*>(floats(list)), 0, floats(gradient), 0, workspace(shape),
          tensor_status());
  }

  int half_values_;
  std::size_t value_size_;
  int index_form_;
  MessageMemory sent_, received_;  // positions
  Tensor list_;
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

TopKOptions options_of(const Parameters& p, Form form) {
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
  return options;
}

const bool registered =
    register_codec({.name = "topk",
                    .summary = "the k elements of largest magnitude and their positions",
                    .source = "Bian et al. (arXiv 2301.02654): global top-k of |x|; positions: Elias-Fano",
                    .wire = "k values in f16 or f32 in order of position, then positions (compact: Elias-Fano); released: int64 positions",
                    .parameters = schema(),
                    .presets = {"fraction=0.1", "fraction=0.3"},
                    .has_released_form = true,
                    .make = [](const Parameters& p, Form form) { return std::make_unique<TopK>(options_of(p, form)); },
                    .check = [](const CodecStack&, ConstTensorView x, std::span<const float> decoded) -> std::string {
                      require_kept_values(x.as<float>(), decoded, true);
                      return "kept values, least lost energy";
                    }});
const bool cuda = register_cuda("topk", [](const Parameters& p, Form form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaTopK>(std::move(host), options_of(p, form));
});

}  // namespace
}  // namespace thinwire
