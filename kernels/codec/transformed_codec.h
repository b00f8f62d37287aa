// A codec that sees tensors through an orthonormal linear map H of their rows: what a wrapper such as +hadamard makes of the codec before it.
//   encode = inner.encode(H x)      decode = H^-1 inner.decode      decode_add: out += H^-1 inner.decode
//   rounds: H x goes in, H^-1 is taken of the sum (linear, so of all ranks' at once) and of what the own contribution decodes to
//   backward: the inner rule between H of the decoded tensor's gradient and H^-1 of what comes out, for the transpose of H is its inverse
//   stripe by stripe where the inner codec goes that way (kernels/codec/striped.h): H x then never lies in memory
//   fit: on H of the samples. State, trained weights and products are the inner codec's as they are.
#pragma once

#include <memory>

#include "kernels/codec/capabilities.h"
#include "kernels/codec/striped.h"

namespace thinwire {

/// What a codec around a codec makes of a tensor before that one sees it, and the way back; f32 on the host. Benches check both halves apart.
class Transform {
 public:
  virtual ~Transform() = default;
  /// What the codec inside sees of a tensor of this shape.
  virtual Shape transformed_shape(const Shape& shape) const { return shape; }
  virtual void transform(ConstTensorView x, const MessageKey& key, TensorView to) = 0;
  virtual void restore(ConstTensorView y, const MessageKey& key, TensorView to) = 0;
};

class TransformedCodec : public Codec, public Transform, public Rounds, public Backward, public Fit {
 public:
  const CodecTraits& traits() const final { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const final { return inner_->max_payload_bytes(shape); }
  void check_message(const Shape& shape) const final { inner_->check_message(shape); }
  FeedbackSource feedback(const Shape& shape, const MessageKey& key) const final { return inner_->feedback(shape, key); }
  double least_bytes_read(const Shape& shape) const final { return inner_->least_bytes_read(shape); }

  /// to = H x; `to` may be `x`.
  void transform(ConstTensorView x, const MessageKey& key, TensorView to) override = 0;
  /// to = H^-1 y; `to` may be `y`.
  void restore(ConstTensorView y, const MessageKey& key, TensorView to) override = 0;

  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) final;
  void end_rounds(const MessageKey& key, int world, TensorView sum) final;
  void own_decoded(const MessageKey& key, TensorView out) final;
  bool keeps_apart() const final;
  void use_place(int place) final;

  Shape travel_shape(const Shape& shape) const final;
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) final;
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) final;
  void reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) final;
  void remember_messages(bool on) final;

  void fit(std::span<const ConstTensorView> samples) final;

 protected:
  /// `name` of the wrapper, for messages. UsageError where the inner codec loses nothing.
  TransformedCodec(const char* name, std::unique_ptr<Codec> inner);
  Codec* inner() final { return inner_.get(); }

  /// H takes so many elements of a row together, from multiples of that number on; fewer at the row's end.
  virtual std::int64_t neighbours() const = 0;
  /// H, or `back` H^-1, of rows of so many columns; valid until the next call.
  virtual const StripeMap& map_of(std::int64_t columns, const MessageKey& key, bool back) = 0;

 private:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) final;
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) final;
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) final;
  ConstTensorView transformed(ConstTensorView x, const MessageKey& key);
  Striped* stripes_of(const Shape& shape);

  std::unique_ptr<Codec> inner_;
  CodecTraits traits_;
  Places<Tensor> scratch_;  ///< H x of a message
};

}  // namespace thinwire
