// The auto-encoder on a device (autoencoder.h has the maths): weights, codes and gradients lie there. The host's codec makes the weights, fits
// them and is what checkpoints are written through.
#include <algorithm>
#include <map>
#include <utility>

#include "core/tensor_names.h"
#include "kernels/codec/codecs/learned/autoencoder.h"
#include "kernels/codec/codecs/learned/autoencoder_entries.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/payload/wire_values_entries.h"
#include "kernels/codec/state.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

void upload_to(Tensor& x, Shape shape, std::span<const float> values) {
  if (x.shape() != shape || x.elements() == 0) x.reshape(shape);
  copy_and_wait(x.view().data(), values.data(), values.size_bytes());
}

class CudaAutoencoder final : public CudaCodec, public PayloadRounds, public Backward, public Fit, public Trainable, public State {
 public:
  /// `host`: an Autoencoder of the same options; `wire`: the type of its codes.
  CudaAutoencoder(std::unique_ptr<Codec> host, DType wire);

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
  void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) override;
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey& key, float* out, bool add) override;
  void* workspace(const Shape& shape);
  static std::span<float> span_of(Tensor& x) { return {floats(x.view()), static_cast<std::size_t>(x.elements())}; }

  Autoencoder* host_;
  int half_;
  std::map<std::pair<std::int64_t, std::uint64_t>, Weights> weights_;  // by number of columns and tensor; 0: shared
  MessageMemory inputs_, codes_;                                       // of messages that train
};

CudaAutoencoder::CudaAutoencoder(std::unique_ptr<Codec> host, DType wire)
    : CudaCodec("autoencoder", std::move(host)), PayloadRounds(*this, wire), host_(CudaCodec::host().as<Autoencoder>()), half_(wire == DType::f16 ? 1 : 0) {
  TW_ASSERT(host_ != nullptr);
}

void CudaAutoencoder::upload(bool changed) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> known;
  for (const Autoencoder::Place& place : host_->places()) {
    known.emplace_back(place.columns, place.tensor);
    const auto [found, is_new] = weights_.try_emplace(known.back());
    Weights& w = found->second;
    const std::int64_t e = host_->width_for(place.columns);
    if (is_new || changed) {
      upload_to(w.encoder, {e, place.columns}, place.encoder);
      upload_to(w.decoder, {place.columns, e}, place.decoder);
    }
    if (place.trained && !w.trained())
      for (Tensor* gradient : {&w.encoder_gradient, &w.decoder_gradient}) {
        gradient->reshape(gradient == &w.encoder_gradient ? w.encoder.shape() : w.decoder.shape());
        gradient->fill_zero();
      }
  }
  std::erase_if(weights_, [&](const auto& entry) { return std::find(known.begin(), known.end(), entry.first) == known.end(); });
  synchronize_placement();  // the trainer's stream adds to the gradients
}

CudaAutoencoder::Weights& CudaAutoencoder::weights(const Shape& shape, const MessageKey& key) {
  for (const std::uint64_t tensor : {key.tensor, std::uint64_t{0}})
    if (const auto found = weights_.find({shape.columns(), tensor}); found != weights_.end()) return found->second;
  {
    const PlacementScope host{Device{}};
    (void)host_->encoder(shape.columns());  // makes them, or says that they must be fitted
  }
  upload(false);
  return weights_.at({shape.columns(), 0});
}

bool CudaAutoencoder::trains(const Shape& shape, const MessageKey& key) {
  if (!remembers(key)) return false;
  const auto found = weights_.find({shape.columns(), key.tensor});
  return found != weights_.end() && found->second.trained();
}

void* CudaAutoencoder::workspace(const Shape& shape) {
  return device_workspace(autoencoder_workspace_bytes(shape.rows(), host_->width_for(shape.columns())));
}

void CudaAutoencoder::queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) {
  const std::int64_t n = shape.rows(), h = shape.columns();
  static const DeviceEntry<thinwire_cuda_autoencoder_encode_fn> entry("thinwire_cuda_autoencoder_encode");
  entry(x, n, h, host_->width_for(h), floats(std::as_const(weights(shape, key).encoder).view()), half_, static_cast<void*>(payload.data()), workspace(shape),
        tensor_status());
  if (trains(shape, key)) inputs_.remember(key, {reinterpret_cast<const std::byte*>(x), static_cast<std::size_t>(n * h) * sizeof(float)});
}

// `add`: one of several payloads that are added up, so their codes are, too.
void CudaAutoencoder::queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey& key, float* out, bool add) {
  const std::int64_t n = shape.rows(), h = shape.columns(), e = host_->width_for(h);
  static const DeviceEntry<thinwire_cuda_autoencoder_decode_fn> entry("thinwire_cuda_autoencoder_decode");
  entry(static_cast<const void*>(payload.data()), n, h, e, floats(std::as_const(weights(shape, key).decoder).view()), half_, out, add ? 1 : 0, workspace(shape),
        payload_status());
  if (!trains(shape, key)) return;
  static const DeviceEntry<thinwire_cuda_wire_unpack_fn> unpack("thinwire_cuda_wire_unpack");
  const auto code_bytes = static_cast<std::size_t>(n * e) * sizeof(float);
  std::span<std::byte> kept;
  const bool adds = add && codes_.waiting(key) && codes_.find(key, kept) && kept.size() == code_bytes;
  if (!adds) kept = codes_.remember(key, code_bytes);
  unpack(static_cast<const void*>(payload.data()), n * e, half_, 1.0f, reinterpret_cast<float*>(kept.data()), adds ? 1 : 0, payload_status());
}

void CudaAutoencoder::fit(std::span<const ConstTensorView> samples) {
  std::vector<Tensor> copies;
  std::vector<ConstTensorView> views;
  for (const ConstTensorView& sample : samples) copies.push_back(on_host(sample));
  for (const Tensor& copy : copies) views.push_back(copy.view());
  {
    const PlacementScope host{Device{}};
    host_->fit(views);
  }
  upload(true);
}

[[noreturn]] void not_remembered(const char* what, const MessageKey& key) {
  throw RuntimeFailure("autoencoder: the " + std::string(what) + " of " + text_of(key) +
                       " is not remembered, so its weights have no gradient; prepare_training must precede the forward message, which "
                       "must go through this codec as one message and not in evaluation");
}

void CudaAutoencoder::decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) {
  const Shape& shape = decoded_gradient.shape();
  const std::int64_t n = shape.rows(), h = shape.columns(), e = host_->width_for(h);
  TW_ASSERT(travel.elements() == n * e);
  if (n * h == 0) return;
  Weights& w = weights(shape, key);
  std::span<std::byte> code;
  if (w.trained() && (!codes_.find(key, code) || code.size() != travel.bytes())) not_remembered("code", key);
  static const DeviceEntry<thinwire_cuda_autoencoder_decode_backward_fn> entry("thinwire_cuda_autoencoder_decode_backward");
  entry(floats(decoded_gradient), n, h, e, floats(std::as_const(w.decoder).view()), reinterpret_cast<const float*>(code.data()), floats(travel),
        w.trained() ? floats(w.decoder_gradient.view()) : nullptr, workspace(shape));
  codes_.release(key);
}

void CudaAutoencoder::encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) {
  const Shape& shape = input_gradient.shape();
  const std::int64_t n = shape.rows(), h = shape.columns(), e = host_->width_for(h);
  TW_ASSERT(travel.elements() == n * e);
  if (n * h == 0) return;
  Weights& w = weights(shape, key);
  std::span<std::byte> x;
  if (w.trained() && (!inputs_.find(key, x) || x.size() != input_gradient.bytes())) not_remembered("input", key);
  static const DeviceEntry<thinwire_cuda_autoencoder_encode_backward_fn> entry("thinwire_cuda_autoencoder_encode_backward");
  entry(floats(travel), n, h, e, floats(std::as_const(w.encoder).view()), reinterpret_cast<const float*>(x.data()), floats(input_gradient),
        w.trained() ? floats(w.encoder_gradient.view()) : nullptr, workspace(shape));
  inputs_.release(key);
}

void CudaAutoencoder::prepare_training(std::uint64_t tensor, std::int64_t columns) {
  {
    const PlacementScope host{Device{}};
    host_->prepare_training(tensor, columns);
  }
  upload(false);
}

std::vector<CodecParameter> CudaAutoencoder::trainable() {
  std::vector<CodecParameter> all;
  for (auto& [place, w] : weights_) {
    if (!w.trained()) continue;
    const std::string name = tensor_label(place.second);
    all.push_back({"encoder of " + name, span_of(w.encoder), span_of(w.encoder_gradient), CodecParameter::Owner::sender});
    all.push_back({"decoder of " + name, span_of(w.decoder), span_of(w.decoder_gradient), CodecParameter::Owner::receiver});
  }
  return all;
}

void CudaAutoencoder::save_state(StateWriter& to) const {
  for (const Autoencoder::Place& place : host_->places()) {
    const Weights& w = weights_.at({place.columns, place.tensor});
    copy_and_wait(place.encoder.data(), w.encoder.view().data(), place.encoder.size_bytes());
    copy_and_wait(place.decoder.data(), w.decoder.view().data(), place.decoder.size_bytes());
  }
  host_->save_state(to);
}

void CudaAutoencoder::load_state(StateReader& from) {
  {
    const PlacementScope host{Device{}};
    host_->load_state(from);
  }
  upload(true);
}

const bool cuda = register_cuda("autoencoder", [](const Parameters& p, Form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaAutoencoder>(std::move(host), parse_dtype(p.choice("wire")));
});

}  // namespace
}  // namespace thinwire
