// A codec turns a tensor into a payload and back. One codec is one file in this folder (docs/adding-a-codec.md).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "kernels/codec/payload/message_key.h"

namespace thinwire {

/// `fair`: our best implementation. `released`: literally what the authors' code does (int64 indices, host
/// sampler, unscattered codes, ...). Every record and figure says which one it shows.
enum class Form { fair, released };
std::string name_of(Form form);
Form parse_form(std::string_view name);

class StateReader;
class StateWriter;

/// Operators a reduction may need of a communicator.
enum class ReduceOp : std::uint8_t { sum, max, bit_or };

/// What travels backward through a compressed activation and how it is expanded.
enum class BackwardRule : std::uint8_t {
  straight_through,  ///< the dense gradient travels; identity on both ends
  masked,            ///< only the gradient at the kept elements travels (values, no indices)
  linear_map         ///< the gradient of the code travels (auto-encoder): chain rule on both ends
};

/// What a residual is taken against: what this rank's own message decodes to, or the reduced result.
enum class FeedbackSource : std::uint8_t { own_decoded, reduced };

struct CodecTraits {
  bool lossless = false;
  bool stateful = false;    ///< keeps state between messages (warm start, fitted weights excluded)
  bool needs_fit = false;   ///< must see training samples before its first message (auto-encoder)
  bool fixed_size = true;   ///< payload size depends on the shape only
  bool gather = true;       ///< encode/decode make sense (a point-to-point message, an all-gather)
  int rounds = 0;           ///< dense reductions that sum over ranks; 0: not reducible by rounds
  bool rounds_per_shard = false;  ///< rounds may run on row blocks independently (reduce-scatter form)
  std::vector<ReduceOp> operators;  ///< what those reductions need
  BackwardRule backward = BackwardRule::straight_through;
  FeedbackSource feedback = FeedbackSource::own_decoded;
};

/// One dense reduction over ranks: `receive` = reduce over ranks of `send`. Both are the codec's memory, of
/// equal size, valid until the next call on the codec.
struct Round {
  std::span<const std::byte> send;
  std::span<std::byte> receive;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
};

/// Weights of a codec that train with the model. The one who encodes a message gets the gradient of a `sender`'s
/// parameter, the one who decodes it that of a `receiver`'s. The trainer updates `value` and clears `gradient`;
/// which ranks must sum the gradient first: docs/adding-a-codec.md.
struct CodecParameter {
  enum class Owner { sender, receiver, both };
  std::string name;
  std::span<float> value, gradient;  ///< of one size; valid as long as the codec
  Owner owner = Owner::both;
};

/// A codec instance serves one channel: one message at a time. Tensors are f32 on the codec's device, seen as
/// a matrix [rows, columns] (Shape::rows/columns: tokens x channels). Scratch memory grows only, so a steady
/// state allocates nothing. Inputs with NaN or infinity throw RuntimeFailure ("tensor ... has NaN at ...")
/// where the codec's maths would hide them; payloads from the wire are never trusted: CorruptData.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual const CodecTraits& traits() const = 0;

  /// Upper bound of the payload of a tensor of this shape, in bytes.
  virtual std::size_t max_payload_bytes(const Shape& shape) const = 0;
  /// Writes the payload of `x` and returns its size in bytes. `payload` has max_payload_bytes(x.shape()).
  virtual std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) = 0;
  /// Overwrites `out` with the decoded tensor.
  virtual void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) = 0;
  /// out += decoded tensor. The default decodes into scratch; sparse codecs scatter-add.
  virtual void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out);

  /// Reduction by rounds (traits().rounds > 0). For r = 0: computes the first send buffer from `x`; for later r
  /// reads what round r - 1 received. `world`: ranks summed over.
  virtual Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world);
  /// After the last round: `sum` = sum over ranks of what was contributed (not averaged).
  virtual void end_rounds(const MessageKey& key, int world, TensorView sum);
  /// What this rank's own contribution of the current rounds decodes to (FeedbackSource::own_decoded only).
  virtual void own_decoded(const MessageKey& key, TensorView out);

  /// Fits trained weights on samples [rows, columns]; every rank must see equal samples. needs_fit only.
  virtual void fit(std::span<const ConstTensorView> samples);

  /// The tensor that travels backward for an activation of this shape (gradient of the decoded tensor, reduced
  /// by the backward rule). straight_through: `shape` itself; masked: [k]; linear_map: [rows, width].
  virtual Shape travel_shape(const Shape& shape) const { return shape; }
  /// Receiver of the activation: gradient of the decoded tensor -> travelling tensor. Defaults: copies.
  virtual void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel);
  /// Sender of the activation: travelling tensor -> gradient of the codec's input.
  virtual void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient);
  /// Both in one for a reduction out = sum over ranks of decoded(encoded(x)): from the gradient of out, equal on
  /// all ranks, that of this rank's own x. No communication. `input_gradient` may be `gradient`.
  virtual void reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient);
  /// Whether encode and decode remember, per message, what its backward pass needs (default: no). Channels of
  /// activations switch it on. Messages of Pass::evaluate are never remembered.
  void remember_messages(bool on) { remembers_ = on; }

  /// Makes weights of their own for the messages of `tensor` with so many columns, and accumulates their
  /// gradients from then on (each backward call of a message adds to them). Nothing where nothing is trained.
  virtual void prepare_training(std::uint64_t tensor, std::int64_t columns);
  /// What prepare_training has made so far, in its order.
  virtual std::vector<CodecParameter> trainable() { return {}; }

  /// On a device nothing is thrown at once: kernels OR what they find into two words of device memory (kernels/codec/cuda/placed_codec.h). Null on the
  /// host. Whoever has copied them hands them to check_status, which throws what they say about this message.
  virtual const std::uint32_t* status_words() const { return nullptr; }
  virtual void check_status(std::array<std::uint32_t, 2> /*seen*/, const MessageKey&) {}

  /// What later messages depend on, for checkpoints: a codec into which it was loaded goes on bit-equal to the
  /// one that saved it. Messages whose backward pass is still to come are not part of it.
  virtual void save_state(StateWriter& to) const;
  /// Replaces all state. CorruptData when it cannot be this codec's.
  virtual void load_state(StateReader& from);

 protected:
  bool remembers(const MessageKey& key) const { return remembers_ && key.pass != Pass::evaluate; }

 private:
  Tensor scratch_;
  bool remembers_ = false;
};

}  // namespace thinwire
