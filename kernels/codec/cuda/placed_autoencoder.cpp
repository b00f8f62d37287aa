#include "kernels/codec/cuda/placed_autoencoder.h"

#include <algorithm>
#include <utility>

#include "core/device/device_entry.h"
#include "core/tensor_names.h"
#include "kernels/codec/cuda/device_kernels.h"
#include "kernels/codec/state.h"
#include "kernels/values.h"
#include "kernels/workspace.h"

namespace thinwire {
namespace {

const float* floats(ConstTensorView x) {
  TW_ASSERT(x.dtype() == DType::f32 && x.device() == placement().device);
  return static_cast<const float*>(x.data());
}
float* floats(TensorView x) { return const_cast<float*>(floats(ConstTensorView(x))); }
std::span<float> span_of(Tensor& x) { return {floats(x.view()), static_cast<std::size_t>(x.elements())}; }

void upload_to(Tensor& x, Shape shape, std::span<const float> values) {
  if (x.shape() != shape || x.elements() == 0) x.reshape(shape);
  copy_and_wait(x.view().data(), values.data(), values.size_bytes());
}

}  // namespace

PlacedAutoencoder::PlacedAutoencoder(std::unique_ptr<Codec> host, DType wire) : owner_(std::move(host)), host_(dynamic_cast<Autoencoder*>(owner_.get())), wire_(wire) {
  TW_ASSERT(host_ != nullptr);
}

void PlacedAutoencoder::upload(bool changed) {
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

PlacedAutoencoder::Weights& PlacedAutoencoder::weights(const Shape& shape, const MessageKey& key) {
  for (const std::uint64_t tensor : {key.tensor, std::uint64_t{0}})
    if (const auto found = weights_.find({shape.columns(), tensor}); found != weights_.end()) return found->second;
  {
    const PlacementScope host{Device{}};
    (void)host_->encoder(shape.columns());  // makes them, or says that they must be fitted
  }
  upload(false);
  return weights_.at({shape.columns(), 0});
}

bool PlacedAutoencoder::trains(const Shape& shape, const MessageKey& key) {
  if (!remembers(key)) return false;
  const auto found = weights_.find({shape.columns(), key.tensor});
  return found != weights_.end() && found->second.trained();
}

void* PlacedAutoencoder::workspace(const Shape& shape) {
  return device_workspace(autoencoder_workspace_bytes(shape.rows(), host_->width_for(shape.columns())));
}

std::size_t PlacedAutoencoder::encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  const std::size_t bytes = max_payload_bytes(x.shape());
  TW_ASSERT(payload.size() >= bytes);
  if (bytes == 0) return 0;
  const std::int64_t n = x.shape().rows(), h = x.shape().columns();
  static const DeviceEntry<thinwire_cuda_autoencoder_encode_fn> entry("thinwire_cuda_autoencoder_encode");
  entry(floats(x), n, h, host_->width_for(h), floats(std::as_const(weights(x.shape(), key).encoder).view()), wire_ == DType::f16 ? 1 : 0,
        static_cast<void*>(payload.data()), workspace(x.shape()), status_.tensors());
  if (trains(x.shape(), key)) inputs_.remember(key, {static_cast<const std::byte*>(x.data()), x.bytes()});
  return bytes;
}

// `add`: one of several payloads that are added up, so their codes are, too.
void PlacedAutoencoder::expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
  check_payload_size(payload.size(), max_payload_bytes(out.shape()), "autoencoder", out.shape(), key);
  if (out.elements() == 0) return;
  const std::int64_t n = out.shape().rows(), h = out.shape().columns(), e = host_->width_for(h);
  const int half = wire_ == DType::f16 ? 1 : 0;
  static const DeviceEntry<thinwire_cuda_autoencoder_decode_fn> entry("thinwire_cuda_autoencoder_decode");
  entry(static_cast<const void*>(payload.data()), n, h, e, floats(std::as_const(weights(out.shape(), key).decoder).view()), half, floats(out), add ? 1 : 0,
        workspace(out.shape()), status_.payloads());
  if (!trains(out.shape(), key)) return;
  static const DeviceEntry<thinwire_cuda_wire_unpack_fn> unpack("thinwire_cuda_wire_unpack");
  const auto code_bytes = static_cast<std::size_t>(n * e) * sizeof(float);
  std::span<std::byte> kept;
  const bool adds = add && codes_.waiting(key) && codes_.find(key, kept) && kept.size() == code_bytes;
  if (!adds) kept = codes_.remember(key, code_bytes);
  unpack(static_cast<const void*>(payload.data()), n * e, half, 1.0f, reinterpret_cast<float*>(kept.data()), adds ? 1 : 0, status_.payloads());
}

Round PlacedAutoencoder::begin_round(int r, ConstTensorView x, const MessageKey& key, int) {
  TW_ASSERT(r == 0);
  const std::size_t bytes = max_payload_bytes(x.shape());
  send_.reserve(bytes);
  receive_.reserve(bytes);
  round_shape_ = x.shape();
  encode(x, key, {send_.data(), bytes});
  return {{send_.data(), bytes}, {receive_.data(), bytes}, wire_, ReduceOp::sum};
}

void PlacedAutoencoder::end_rounds(const MessageKey& key, int, TensorView sum) { decode({receive_.data(), max_payload_bytes(round_shape_)}, key, sum); }

void PlacedAutoencoder::own_decoded(const MessageKey& key, TensorView out) {
  decode({send_.data(), max_payload_bytes(round_shape_)}, key.with_pass(Pass::evaluate), out);  // not the message's code
}

void PlacedAutoencoder::fit(std::span<const ConstTensorView> samples) {
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

namespace {
[[noreturn]] void not_remembered(const char* what, const MessageKey& key) {
  throw RuntimeFailure("autoencoder: the " + std::string(what) + " of " + text_of(key) +
                       " is not remembered, so its weights have no gradient; prepare_training must precede the forward message, which "
                       "must go through this codec as one message and not in evaluation");
}
}  // namespace

void PlacedAutoencoder::decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) {
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

void PlacedAutoencoder::encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) {
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

void PlacedAutoencoder::prepare_training(std::uint64_t tensor, std::int64_t columns) {
  {
    const PlacementScope host{Device{}};
    host_->prepare_training(tensor, columns);
  }
  upload(false);
}

std::vector<CodecParameter> PlacedAutoencoder::trainable() {
  std::vector<CodecParameter> all;
  for (auto& [place, w] : weights_) {
    if (!w.trained()) continue;
    const std::string name = tensor_label(place.second);
    all.push_back({"encoder of " + name, span_of(w.encoder), span_of(w.encoder_gradient), CodecParameter::Owner::sender});
    all.push_back({"decoder of " + name, span_of(w.decoder), span_of(w.decoder_gradient), CodecParameter::Owner::receiver});
  }
  return all;
}

void PlacedAutoencoder::save_state(StateWriter& to) const {
  for (const Autoencoder::Place& place : host_->places()) {
    const Weights& w = weights_.at({place.columns, place.tensor});
    copy_and_wait(place.encoder.data(), w.encoder.view().data(), place.encoder.size_bytes());
    copy_and_wait(place.decoder.data(), w.decoder.view().data(), place.decoder.size_bytes());
  }
  host_->save_state(to);
}

void PlacedAutoencoder::load_state(StateReader& from) {
  {
    const PlacementScope host{Device{}};
    host_->load_state(from);
  }
  upload(true);
}

}  // namespace thinwire
