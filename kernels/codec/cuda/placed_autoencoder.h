// The auto-encoder on a device (kernels/codec/codecs/autoencoder.h has the maths): weights, codes and gradients lie there. The host's codec makes
// the weights, fits them and is what checkpoints are written through.
#pragma once

#include <map>

#include "kernels/codec/codecs/autoencoder.h"
#include "kernels/codec/cuda/placed_codec.h"

namespace thinwire {

class PlacedAutoencoder final : public Codec {
 public:
  /// `host`: an Autoencoder of the same options; `wire`: the type of its codes.
  PlacedAutoencoder(std::unique_ptr<Codec> host, DType wire);

  const CodecTraits& traits() const override { return host_->traits(); }
  std::size_t max_payload_bytes(const Shape& shape) const override { return host_->max_payload_bytes(shape); }
  std::size_t encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override;
  void decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }
  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) override;
  void end_rounds(const MessageKey& key, int world, TensorView sum) override;
  void own_decoded(const MessageKey& key, TensorView out) override;
  /// On the host, from copies of the samples.
  void fit(std::span<const ConstTensorView> samples) override;

  Shape travel_shape(const Shape& shape) const override { return host_->travel_shape(shape); }
  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override;
  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override;
  void prepare_training(std::uint64_t tensor, std::int64_t columns) override;
  /// Spans of device memory.
  std::vector<CodecParameter> trainable() override;

  void save_state(StateWriter& to) const override;
  void load_state(StateReader& from) override;
  const std::uint32_t* status_words() const override { return status_.both(); }
  void check_status(std::array<std::uint32_t, 2> seen, const MessageKey& key) override { status_.check(seen, "autoencoder", key); }

 private:
  struct Weights {
    Tensor encoder, decoder, encoder_gradient, decoder_gradient;  ///< gradients are empty where nothing is trained
    bool trained() const { return encoder_gradient.elements() > 0; }
  };
  /// Of this message's tensor, or shared by all of so many columns; made by the host where there are none.
  Weights& weights(const Shape& shape, const MessageKey& key);
  bool trains(const Shape& shape, const MessageKey& key);
  /// Weights of the host that are not here; all, where they `changed`.
  void upload(bool changed);
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add);
  void* workspace(const Shape& shape);

  std::unique_ptr<Codec> owner_;
  Autoencoder* host_;
  DType wire_;
  StatusWords status_;
  std::map<std::pair<std::int64_t, std::uint64_t>, Weights> weights_;  // by number of columns and tensor; 0: shared
  MessageMemory inputs_, codes_;                                       // of messages that train
  Buffer send_, receive_, code_;
  Shape round_shape_{0};
};

}  // namespace thinwire
