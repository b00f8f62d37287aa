#include "kernels/codec/cuda/placed_codec.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "core/device/device_entry.h"
#include "kernels/codec/cuda/device_codec.h"
#include "kernels/codec/cuda/device_kernels.h"
#include "kernels/codec/message_memory.h"
#include "kernels/codec/cuda/placed_autoencoder.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/values.h"
#include "kernels/workspace.h"

namespace thinwire {

StatusWords::StatusWords() : words_(16) {
  fill_zero_bytes(words_.data(), 16);
  synchronize_placement();  // other streams use them
}

void StatusWords::check(std::array<std::uint32_t, 2> seen, const char* codec, const MessageKey& key) {
  if (seen[0] == 0 && seen[1] == 0) return;
  fill_zero_bytes(words_.data(), 16);
  if ((seen[0] & device_status_non_finite) != 0)
    throw RuntimeFailure(std::string(codec) + ": " + text_of(key) + " has NaN or infinity; mend the computation that made it, no codec can represent it");
  if (seen[0] != 0)
    throw RuntimeFailure(std::string(codec) + ": " + text_of(key) + " has a value (or a scale, or a factor) beyond the type on the wire; use an f32 wire or bf16, or scale the tensor");
  throw CorruptData(std::string(codec) + ": the payload of " + text_of(key) +
                    " is damaged: it holds NaN, infinity or what no encoder writes; or a sum over ranks overflowed (then use an f32 wire or bf16)");
}

namespace {

DType wire_type(const CodecExpression::Part& codec) {
  const Parameters& p = codec.parameters;
  if (codec.name == "cast") return parse_dtype(p.choice("to"));
  if (codec.name == "randomk") return parse_dtype(p.choice("values"));
  if (codec.name == "powersgd") return parse_dtype(p.choice("wire"));
  return DType::f32;
}

/// cast, quantize, topk, randomk and powersgd: one DeviceCodec per shape, on memory that they share.
class PlacedCodec final : public Codec {
 public:
  PlacedCodec(const CodecExpression& expression, Form form, std::unique_ptr<Codec> host)
      : form_(form), host_(std::move(host)), device_(current_device()), rounds_type_(wire_type(expression.codec)), name_(expression.codec.name),
        powersgd_(name_ == "powersgd"), remembers_positions_(name_ == "topk"), text_(CodecExpression{expression.codec, {}}.canonical()),
        most_rank_(powersgd_ ? expression.codec.parameters.integer("rank") : 0),
        value_size_(remembers_positions_ ? size_of(parse_dtype(expression.codec.parameters.choice("values"))) : 0) {}

  const CodecTraits& traits() const override { return host_->traits(); }
  std::size_t max_payload_bytes(const Shape& shape) const override { return host_->max_payload_bytes(shape); }
  Shape travel_shape(const Shape& shape) const override { return host_->travel_shape(shape); }
  const std::uint32_t* status_words() const override { return status_.both(); }
  void check_status(std::array<std::uint32_t, 2> seen, const MessageKey& key) override { status_.check(seen, name_.c_str(), key); }

  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const std::size_t bytes = max_payload_bytes(x.shape());
    TW_ASSERT(payload.size() >= bytes);
    if (x.elements() == 0) {
      fill_zero_bytes(payload.data(), bytes);  // scales of no rows
      return bytes;
    }
    codec_for(x.shape(), key.stack).encode(floats(x), key, payload.data(), status_.tensors());
    if (remembers_positions_ && remembers(key)) sent_.remember(key, positions(x.shape(), payload.first(bytes)));
    return bytes;
  }
  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int) override {
    Buffer &send = rounds_[2 * r], &receive = rounds_[2 * r + 1];
    if (!powersgd_) {
      const std::size_t bytes = max_payload_bytes(x.shape());
      send.reserve(bytes);
      receive.reserve(bytes);
      encode(x, key, {send.data(), bytes});
      return {{send.data(), bytes}, {receive.data(), bytes}, rounds_type_, ReduceOp::sum};
    }
    if (x.elements() == 0) return {{}, {}, rounds_type_, ReduceOp::sum};
    DeviceCodec& codec = codec_for(x.shape(), key.stack);
    const std::size_t bytes = codec.round_bytes(r);
    send.reserve(bytes);
    receive.reserve(bytes);
    codec.begin_round(r, floats(x), key, r == 0 ? nullptr : rounds_[1].data(), send.data(), status_.tensors());
    return {{send.data(), bytes}, {receive.data(), bytes}, rounds_type_, ReduceOp::sum};
  }
  void end_rounds(const MessageKey& key, int world, TensorView sum) override {
    if (sum.elements() == 0) return;
    if (powersgd_)
      codec_for(sum.shape(), key.stack).end_rounds(rounds_[1].data(), rounds_[3].data(), key, world, floats(sum), status_.payloads());
    else
      expand({rounds_[1].data(), max_payload_bytes(sum.shape())}, key, sum, false);
  }
  void own_decoded(const MessageKey& key, TensorView out) override { expand({rounds_[0].data(), max_payload_bytes(out.shape())}, key, out, false); }

  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override {
    if (traits().backward != BackwardRule::masked) return Codec::decode_backward(decoded_gradient, key, travel);
    TW_ASSERT(travel.elements() == travel_shape(decoded_gradient.shape()).elements());
    if (travel.elements() == 0) return;
    codec_for(decoded_gradient.shape(), 1)
        .decode_backward(mask(received_, decoded_gradient.shape(), key), key, floats(decoded_gradient), floats(travel), status_.tensors());
    received_.release(key);
  }
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override {
    if (traits().backward != BackwardRule::masked) return Codec::encode_backward(travel, key, input_gradient);
    TW_ASSERT(travel.elements() == travel_shape(input_gradient.shape()).elements());
    if (travel.elements() == 0) return;
    codec_for(input_gradient.shape(), 1).encode_backward(mask(sent_, input_gradient.shape(), key), key, floats(travel), floats(input_gradient), status_.tensors());
    sent_.release(key);
  }
  // In a reduction every rank masks the gradient by its own message's positions.
  void reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) override {
    if (!remembers_positions_) return Codec::reduction_backward(gradient, key, input_gradient);
    if (gradient.elements() == 0) return;
    DeviceCodec& codec = codec_for(gradient.shape(), 1);
    const void* positions_of_key = mask(sent_, gradient.shape(), key);
    list_.reshape(travel_shape(gradient.shape()));
    codec.decode_backward(positions_of_key, key, floats(gradient), floats(list_.view()), status_.tensors());
    codec.encode_backward(positions_of_key, key, floats(list_.view()), floats(input_gradient), status_.tensors());
    sent_.release(key);
    received_.release(key);
  }

  void save_state(StateWriter& to) const override {
    if (powersgd_) starts_->save_state(to, seam());
  }
  void load_state(StateReader& from) override {
    if (powersgd_) starts_->load_state(from, most_rank_, seam());
  }

 private:
  static const float* floats(ConstTensorView x) {
    TW_ASSERT(x.dtype() == DType::f32 && x.device() == placement().device);
    return static_cast<const float*>(x.data());
  }
  static float* floats(TensorView x) { return const_cast<float*>(floats(ConstTensorView(x))); }

  // Of the placement's stream; device memory is this codec's as long as it lives.
  DeviceSeam seam() const {
    TW_ASSERT(placement().device == device_, "a codec works on the device it was made on");
    const auto copy = [where = placement()](void* to, const void* from, std::size_t bytes) {
      const PlacementScope scope(where);
      copy_and_wait(to, from, bytes);
    };
    DeviceSeam made;
    made.find = [](const std::string& name) { return device_module_symbol(name); };
    made.allocate = [this](std::size_t bytes) -> void* { return memory_.emplace_back(std::max<std::size_t>(bytes, 16), device_).data(); };
    made.write = copy;
    made.read = copy;
    made.workspace = [](std::size_t bytes) -> void* { return device_workspace(bytes); };
    made.failed = check_device_call;
    made.ordinal = device_.ordinal;
    made.stream = placement().stream.handle;
    return made;
  }

  DeviceCodec& codec_for(const Shape& shape, std::int32_t stack) {
    const auto key = std::tuple(shape.rows(), shape.columns(), powersgd_ ? stack : 1, placement().stream.handle);
    const auto found = codecs_.find(key);
    if (found != codecs_.end()) return found->second;
    const DeviceSeam here = seam();
    const PlacementScope host{Device{}};  // it asks the host's codec for sizes
    return codecs_.try_emplace(key, text_, shape, here, form_, powersgd_ ? stack : 1, starts_).first->second;
  }

  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    check_payload_size(payload.size(), max_payload_bytes(out.shape()), name_.c_str(), out.shape(), key);
    if (out.elements() == 0) return;
    codec_for(out.shape(), 1).decode(payload.data(), key, floats(out), add, status_.payloads());
    // Added payloads are those of a reduction, where only the own message is looked at again.
    if (remembers_positions_ && !add && remembers(key)) received_.remember(key, positions(out.shape(), payload));
  }

  /// Of topk: positions lie behind the values.
  std::size_t value_bytes(const Shape& shape) const {
    return static_cast<std::size_t>(travel_shape(shape).elements()) * value_size_;
  }
  std::span<const std::byte> positions(const Shape& shape, std::span<const std::byte> payload) const { return payload.subspan(value_bytes(shape)); }
  /// Where the payload would lie whose positions were remembered: its values are not looked at. Null for what draws its positions again.
  const void* mask(MessageMemory& memory, const Shape& shape, const MessageKey& key) {
    if (!remembers_positions_) return nullptr;
    std::span<std::byte> found;
    if (!memory.find(key, found))
      throw RuntimeFailure("topk: the kept positions of " + text_of(key) +
                           " are not remembered: its forward message must have gone through this codec as one message, not in "
                           "evaluation, with at most " + std::to_string(memory.capacity()) + " others waiting for their backward pass");
    return found.data() - value_bytes(shape);
  }

  Form form_;
  std::unique_ptr<Codec> host_;
  Device device_;
  DType rounds_type_;
  std::string name_;
  bool powersgd_, remembers_positions_;
  std::string text_;
  std::int64_t most_rank_;
  std::size_t value_size_;
  StatusWords status_;
  mutable std::deque<Buffer> memory_;
  std::shared_ptr<DeviceStarts> starts_ = std::make_shared<DeviceStarts>();
  std::map<std::tuple<std::int64_t, std::int64_t, std::int32_t, void*>, DeviceCodec> codecs_;  // by rows, columns, stack and stream
  MessageMemory sent_, received_;                                                              // positions
  std::array<Buffer, 4> rounds_;                                                               // sent and received, by round
  Tensor list_;
};

}  // namespace

std::unique_ptr<Codec> make_placed_codec(const CodecExpression& expression, Form form) {
  const std::string& name = expression.codec.name;
  CodecStack host;
  {
    const PlacementScope on_the_host{Device{}};
    host = make_codec(CodecExpression{expression.codec, {}}, form);
  }
  if (name == "autoencoder") return std::make_unique<PlacedAutoencoder>(std::move(host.codec), parse_dtype(expression.codec.parameters.choice("wire")));
  for (const char* known : {"cast", "quantize", "topk", "randomk", "powersgd"})
    if (name == known) return std::make_unique<PlacedCodec>(expression, form, std::move(host.codec));
  throw UsageError("codec '" + expression.canonical() + "' has no device form, so it cannot serve tensors on " + name_of(placement().device) +
                   "; those have one: none, cast, quantize, topk, randomk, powersgd, autoencoder (docs/device.md, adding a CUDA implementation)");
}

}  // namespace thinwire
