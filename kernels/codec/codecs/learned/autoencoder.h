// Linear auto-encoder of Bian et al., "Does compressing activations help model parallel training?"
// (arXiv 2301.02654), as in docs/papers/activation_compression.md, "The codecs". X [rows, h], E [e, h], D [h, e]:
//   code = X E^T  [rows, e]        out = code D^T  [rows, h]
// No bias and no nonlinearity, so codes of different ranks add up: one all-reduce of the code reduces X.
// Trained with the model (prepare_training), every message of a named tensor has an E and a D of its own, as every
// compression point of the paper has; other messages share one pair per number of columns.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/codec/capabilities.h"
#include "kernels/codec/message_memory.h"
#include "kernels/codec/payload/wire_values.h"

namespace thinwire {

struct AutoencoderOptions {
  std::int64_t width = 0;    ///< e; 0: round(fraction * columns), at least 1
  double fraction = 0.05;    ///< of the columns
  DType wire = DType::f16;   ///< of the code
  /// principal: fit() starts from the principal directions and must come first. xavier: Xavier-uniform.
  /// orthonormal: E has random orthonormal rows and D = E^T, so that decoding is a projection from the start.
  /// residual: E = [I 0] and D = E^T, a code of the first channels, as the skip of a residual bottleneck (docs/papers/low_bandwidth_pipeline.md, "Bottlenecks").
  enum class Start { principal, xavier, orthonormal, residual } start = Start::principal;
  std::int64_t steps = 0;    ///< Adam steps on the reconstruction error after the start, in fit()
  std::uint64_t seed = 0;
};

class Autoencoder final : public Codec, public PayloadRounds, public Backward, public Fit, public Trainable, public State, public Products {
 public:
  explicit Autoencoder(AutoencoderOptions options);

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override;
  /// Principal directions of the samples (uncentred), or the current weights; then `steps` of Adam on rows that
  /// are not held out. Of start and end the one with the lower error on the held-out eighth of the rows stays.
  void fit(std::span<const ConstTensorView> samples) override;

  /// [rows, e]: the gradient of the code travels.
  Shape travel_shape(const Shape& shape) const override;
  /// travel [rows, e] = G D, for G [rows, h] the gradient of the decoded tensor.
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override;
  /// input_gradient [rows, h] = travel E.
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override;

  /// Own weights for the messages of `tensor`: those fitted for so many columns, else the random start. From now on
  /// encode remembers its input and decode its code per message; decode_backward then adds G^T code to the gradient of
  /// D, and encode_backward travel^T X to that of E. In a reduction the code is the sum over ranks.
  void prepare_training(std::uint64_t tensor, std::int64_t columns) override;
  /// "encoder of NAME" [e, columns] (sender) and "decoder of NAME" [columns, e] (receiver) of every prepared tensor.
  std::vector<CodecParameter> trainable() override;

  void save_state(StateWriter& to) const override;
  void load_state(StateReader& from) override;

  std::int64_t product_width(const Shape& shape) const override { return width_for(shape.columns()); }
  std::vector<CodecProduct> encode_products(const Shape& shape) const override;

  std::int64_t width_for(std::int64_t columns) const;
  /// The shared E [e, columns] and D [columns, e], row-major; made on first use when no fit is needed.
  std::span<float> encoder(std::int64_t columns) { return weights(columns, 0).encoder; }
  std::span<float> decoder(std::int64_t columns) { return weights(columns, 0).decoder; }
  /// All weights that exist, in the order of trainable(): of one tensor's messages, or shared (tensor 0).
  struct Place {
    std::int64_t columns = 0;
    std::uint64_t tensor = 0;
    std::span<float> encoder, decoder;
    bool trained = false;
  };
  std::vector<Place> places();
  /// Replaces both; sizes e * columns. Counts as fitted.
  void set_weights(std::int64_t columns, std::span<const float> encoder, std::span<const float> decoder);
  /// Chain rule on the weights; both accumulate. Sender: encoder_gradient [e, h] += travel^T X.
  void encoder_gradient(ConstTensorView x, ConstTensorView travel, std::span<float> gradient) const;
  /// Receiver: decoder_gradient [h, e] += G^T code, for G the gradient of the decoded tensor, code [rows, e] f32.
  void decoder_gradient(ConstTensorView decoded_gradient, ConstTensorView code, std::span<float> gradient) const;

 protected:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override;
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override;
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override;

 private:
  struct Weights {
    std::vector<float> encoder, decoder;
    std::vector<float> encoder_gradient, decoder_gradient;  ///< empty: not trained
    bool fitted = false;                                    ///< not the random start
  };
  Weights& weights(std::int64_t columns, std::uint64_t tensor);
  Weights& weights(ConstTensorView x, const MessageKey& key) { return weights(x.shape().columns(), key.tensor); }
  bool trains(ConstTensorView x, const MessageKey& key) const;
  Weights random_start(std::int64_t columns, std::uint64_t tensor) const;
  void check_view(ConstTensorView x) const;
  void expand(std::span<const float> code, const MessageKey& key, TensorView out, bool accumulate);

  AutoencoderOptions options_;
  CodecTraits traits_;
  std::map<std::pair<std::int64_t, std::uint64_t>, Weights> weights_;  // by number of columns and tensor; 0: shared
  MessageMemory inputs_, codes_;                                       // of messages that train
  WireValues wire_;
  Buffer code_;
};

}  // namespace thinwire
