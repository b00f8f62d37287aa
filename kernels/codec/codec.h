// A codec turns a tensor into a payload and back: one `.cpp` in codecs/, and a `.cu` where it has a CUDA implementation (docs/adding-a-codec.md).
// `Codec` is what all have; what some have besides (rounds, a backward rule, a fit, state, ...) is a capability that is asked for by type:
//   if (auto* rounds = codec.as<Rounds>()) ...                                     (kernels/codec/capabilities.h)
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

/// What everybody else may know about a codec: protocols, trainer, benches and tests ask these, never a codec's name.
struct CodecTraits {
  // What its results are.
  bool lossless = false;
  bool identity = false;    ///< the payload is the tensor itself: a channel without wrappers sends it without the codec
  bool stateful = false;    ///< keeps state between messages (warm start, fitted weights excluded)
  bool fixed_size = true;   ///< payload size depends on the shape only
  bool reordered_sums = false;  ///< results are sums (products) whose order depends on threads and device: equal to rounding, not to the bit
  /// A list of numbers is as good as a matrix of them: elements are coded one by one or with neighbours, none is left out, and nothing is remembered. Payloads of a list
  /// and of a matrix of the same elements are equal where rows are whole blocks.
  bool flat = false;
  bool takes_bf16 = false;  ///< encode and decode take bf16 tensors as they are; else they get f32 copies from the core

  // How it is used.
  bool needs_fit = false;   ///< must see training samples before its first message (auto-encoder)
  bool gather = true;       ///< encode/decode make sense (a point-to-point message, an all-gather)
  int rounds = 0;           ///< dense reductions that sum over ranks (capability Rounds); 0: not reducible by rounds
  bool rounds_per_shard = false;  ///< rounds may run on row blocks independently (reduce-scatter form)
  std::vector<ReduceOp> operators;  ///< what those reductions need
  BackwardRule backward = BackwardRule::straight_through;  ///< capability Backward, but for straight_through
  FeedbackSource feedback = FeedbackSource::own_decoded;
  bool loss_is_own = true;  ///< what a sum loses is the sum of what its messages lose: else nobody knows what to feed back
  bool by_sample = false;   ///< remembers samples: a training message consists of whole ones, which its key names
  std::int64_t most_samples = 0;  ///< of a tensor, that it remembers (by_sample)
  bool by_token = false;    ///< goes by token ids: the key of a message names one for each of its rows
  bool stacks = false;      ///< gives each matrix of MessageKey::stack factors of its own

  // What the authors' code does, in the released form alone.
  /// Gradients of activations are seen as [seq * micro-batch / 8] rows, positions first: set by the parameter `rows_parameter`.
  bool positions_first = false;
  std::string rows_parameter = {};
  /// The reducer leaves zeros where tensors are that it does not compress, and they are copied back.
  bool zeroes_uncompressed = false;

  // How fast it should be: shares of its bound, the memory's rate or, of a codec made of matrix products, theirs (bench_codec). 0: no goal.
  double encode_goal = 0, decode_goal = 0;

  // What its CUDA implementation promises, or aims at (bench_device).
  /// A payload that the host decodes may be refused there (positions that come twice).
  bool stricter_on_device = false;
  /// Share of the device's copy rate that encode and decode should reach; 0: no goal.
  double device_goal = 0;
};
/// One line for lists: what is lost, how it reduces over ranks, what travels backward, what it remembers.
std::string text_of(const CodecTraits& traits);

/// A codec instance serves one channel: one message at a time. Tensors lie on the codec's device and are seen as
/// a matrix [rows, columns] (Shape::rows/columns: tokens x channels). Scratch memory grows only, so a steady
/// state allocates nothing. Inputs with NaN or infinity throw NotRepresentable ("tensor ... has NaN at ...")
/// where the codec's maths would hide them, and so do values beyond what travels (but where a paper's codec saturates: `tah`, `nvfp4:levels=1`); payloads from the wire are never trusted: CorruptData.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual const CodecTraits& traits() const = 0;
  /// Where the rounds of this message have a residual's other half: the trait, but for a codec that lets some tensors travel whole.
  virtual FeedbackSource feedback(const Shape& /*shape*/, const MessageKey& /*key*/) const { return traits().feedback; }

  /// Upper bound of the payload of a tensor of this shape, in bytes.
  virtual std::size_t max_payload_bytes(const Shape& shape) const = 0;
  /// Writes the payload of `x` (f32 or bf16) and returns its size in bytes. `payload` has max_payload_bytes(x.shape()).
  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload);
  /// Overwrites `out` (f32 or bf16) with the decoded tensor.
  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out);
  /// out += decoded tensor.
  void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out);

  /// A capability of this codec (kernels/codec/capabilities.h), or null. A codec around another one has those of the inner codec and no others: by its own
  /// class where it inherits that, else the inner codec's as they are.
  template <class Capability>
  Capability* as() {
    auto* const own = dynamic_cast<Capability*>(this);
    Codec* const inside = inner();
    if (inside == nullptr) return own;
    auto* const below = inside->as<Capability>();
    return own != nullptr && below != nullptr ? own : below;
  }
  template <class Capability>
  const Capability* as() const {
    return const_cast<Codec*>(this)->as<Capability>();
  }

  /// UsageError where messages of this shape make no sense for it ("rank 64 is above 32, ..."). Asked when a configuration is read.
  virtual void check_message(const Shape& /*shape*/) const {}
  /// The least that encode must read of an f32 tensor of this shape, in bytes: what a bench holds its time against. The default: all of it, once.
  virtual double least_bytes_read(const Shape& shape) const { return 4.0 * static_cast<double>(shape.elements()); }

 protected:
  /// Of a codec around another one that has that one's capabilities (kernels/codec/transformed_codec.h); null for all others.
  virtual Codec* inner() { return nullptr; }

  // What a codec implements. `x` and `out` are f32, or bf16 where traits().takes_bf16 says so.
  virtual std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) = 0;
  virtual void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) = 0;
  /// The default reads into scratch and adds; sparse codecs scatter-add.
  virtual void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out);

 private:
  bool takes(DType dtype) const;
  Tensor scratch_, converted_;
};

}  // namespace thinwire
