// What some codecs have besides encode and decode. A codec inherits a capability's class; whoever needs it asks codec.as<Capability>().
#pragma once

#include <deque>

#include "kernels/codec/codec.h"

namespace thinwire {

/// One dense reduction over ranks: `receive` = reduce over ranks of `send`. Both are the codec's memory, of
/// equal size, valid until the next call on the codec for the same place (Rounds::use_place).
struct Round {
  std::span<const std::byte> send;
  std::span<std::byte> receive;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
};

/// Reduction by rounds (traits().rounds > 0), each a dense sum over ranks.
class Rounds {
 public:
  virtual ~Rounds() = default;
  /// For r = 0: computes the first send buffer from `x` (f32); for later r reads what round r - 1 received. `world`: ranks summed over.
  virtual Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) = 0;
  /// After the last round: `sum` (f32) = sum over ranks of what was contributed (not averaged).
  virtual void end_rounds(const MessageKey& key, int world, TensorView sum) = 0;
  /// What this rank's own contribution of the current rounds decodes to (FeedbackSource::own_decoded only).
  virtual void own_decoded(const MessageKey& key, TensorView out) = 0;
  /// Whether the rounds of several messages, of different tensors, may be under way together: calls are then about the message in the place that
  /// was named last, 0 in the beginning. A codec that does not keep them apart is never asked for another place.
  virtual bool keeps_apart() const { return false; }
  virtual void use_place(int /*place*/) {}
};

/// What a codec holds of a message between its rounds, one for each place.
template <class Held>
class Places {
 public:
  void use(int place) {
    place_ = static_cast<std::size_t>(place);
    while (held_.size() <= place_) held_.emplace_back();
  }
  Held& here() { return held_[place_]; }
  Held* operator->() { return &here(); }

 private:
  std::deque<Held> held_ = std::deque<Held>(1);  // what rounds refer to stays where it is
  std::size_t place_ = 0;
};

/// The rounds of a codec whose payloads add up as an array of one type: one sum of the payload.
class PayloadRounds : public Rounds {
 public:
  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) override;
  void end_rounds(const MessageKey& key, int world, TensorView sum) override;
  void own_decoded(const MessageKey& key, TensorView out) override;
  bool keeps_apart() const override { return true; }
  void use_place(int place) override { held_.use(place); }

 protected:
  PayloadRounds(Codec& codec, DType type) : codec_(codec), type_(type) {}

 private:
  struct Held {
    Buffer sent, received;
  };

  Codec& codec_;
  DType type_;
  Places<Held> held_;
};

/// A backward rule of its own for activations (traits().backward is not straight_through). Tensors are f32.
class Backward {
 public:
  virtual ~Backward() = default;
  /// The tensor that travels backward for an activation of this shape. masked: [k]; linear_map: [rows, width].
  virtual Shape travel_shape(const Shape& shape) const = 0;
  /// Receiver of the activation: gradient of the decoded tensor -> travelling tensor.
  virtual void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) = 0;
  /// Sender of the activation: travelling tensor -> gradient of the codec's input.
  virtual void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) = 0;
  /// Both in one for a reduction out = sum over ranks of decoded(encoded(x)): from the gradient of out, equal on
  /// all ranks, that of this rank's own x. No communication. `input_gradient` may be `gradient`.
  virtual void reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient);
  /// Whether encode and decode remember, per message, what its backward pass needs (default: no). Channels of
  /// activations switch it on. Messages of Pass::evaluate are never remembered.
  virtual void remember_messages(bool on) { remembers_ = on; }

 protected:
  bool remembers(const MessageKey& key) const { return remembers_ && key.pass != Pass::evaluate; }

 private:
  Tensor scratch_;
  bool remembers_ = false;
};

/// The rule of any codec: that of its Backward, or copies.
Shape travel_shape(const Codec& codec, const Shape& shape);
void decode_backward(Codec& codec, ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel);
void encode_backward(Codec& codec, ConstTensorView travel, const MessageKey& key, TensorView input_gradient);
void reduction_backward(Codec& codec, ConstTensorView gradient, const MessageKey& key, TensorView input_gradient);

/// Weights that are fitted before the first message (traits().needs_fit), or may be.
class Fit {
 public:
  virtual ~Fit() = default;
  /// On samples [rows, columns]; every rank must see equal samples.
  virtual void fit(std::span<const ConstTensorView> samples) = 0;
};

/// Weights of a codec that train with the model. The one who encodes a message gets the gradient of a `sender`'s
/// parameter, the one who decodes it that of a `receiver`'s. The trainer updates `value` and clears `gradient`;
/// which ranks must sum the gradient first: docs/adding-a-codec.md.
struct CodecParameter {
  enum class Owner { sender, receiver, both };
  std::string name;
  std::span<float> value, gradient;  ///< of one size, where the codec computes; valid as long as the codec
  Owner owner = Owner::both;
};

/// Weights that train with the model. They belong to whole messages of a named tensor, not to parts of it.
class Trainable {
 public:
  virtual ~Trainable() = default;
  /// Makes weights of their own for the messages of `tensor` with so many columns, and accumulates their
  /// gradients from then on (each backward call of a message adds to them).
  virtual void prepare_training(std::uint64_t tensor, std::int64_t columns) = 0;
  /// What prepare_training has made so far, in its order.
  virtual std::vector<CodecParameter> trainable() = 0;
};

/// What later messages depend on, for checkpoints: a codec into which it was loaded goes on bit-equal to the
/// one that saved it. Messages whose backward pass is still to come are not part of it.
class State {
 public:
  virtual ~State() = default;
  virtual void save_state(StateWriter& to) const = 0;
  /// Replaces all state. CorruptData when it cannot be this codec's.
  virtual void load_state(StateReader& from) = 0;
};

/// A codec that works on a device (kernels/codec/cuda/cuda_codec.h). Nothing is thrown at once there: kernels OR what they find into two words of
/// device memory. Whoever has copied them hands them to check_status, which throws what they say about this message.
class DeviceHalf {
 public:
  virtual ~DeviceHalf() = default;
  virtual const std::uint32_t* status_words() const = 0;
  virtual void check_status(std::array<std::uint32_t, 2> seen, const MessageKey& key) = 0;
};

/// The matrix products that encode and decode consist of, so that a bench can run them bare, with the same shapes and types.
struct CodecProduct {
  enum class Operand { tensor, left, right, out };  ///< x [rows, h], scratch [rows, width], scratch [h, width], out [rows, h]
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;  ///< c [m, n] = op(a) [m, k] op(b) [k, n]
  Operand a{}, b{}, c{};
};
class Products {
 public:
  virtual ~Products() = default;
  /// Columns of `left` and `right` for a tensor of this shape.
  virtual std::int64_t product_width(const Shape& shape) const = 0;
  virtual std::vector<CodecProduct> encode_products(const Shape& shape) const = 0;
  virtual std::vector<CodecProduct> decode_products(const Shape& shape) const;  ///< default: out = left right^T
};

}  // namespace thinwire
