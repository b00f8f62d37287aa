#include "kernels/codec/cuda/device_codec.h"

#include <algorithm>
#include <map>

#include "kernels/codec/codecs/autoencoder.h"
#include "kernels/codec/cuda/device_kernels.h"

namespace thinwire {

DeviceCodec::DeviceCodec(const std::string& text, const Shape& shape, DeviceSeam seam, Form form, std::int32_t stack, std::shared_ptr<DeviceStarts> starts)
    : text_(text), form_(form), shape_{shape.rows(), shape.columns()}, stack_(stack), seam_(std::move(seam)), n_(shape.elements()), starts_(std::move(starts)) {
  const CodecExpression expression = parse_codec(text);
  const Parameters& p = expression.codec.parameters;
  static const std::map<std::string, Kind> kinds = {{"none", Kind::none},       {"cast", Kind::cast},         {"quantize", Kind::quantize},
                                                    {"topk", Kind::topk},       {"randomk", Kind::randomk},   {"powersgd", Kind::powersgd},
                                                    {"autoencoder", Kind::autoencoder}};
  const auto found = kinds.find(expression.codec.name);
  if (found == kinds.end() || !expression.wrappers.empty())
    throw UsageError("'" + text + "' has no CUDA implementation; those have one, without wrappers: none, cast, quantize, topk, randomk, powersgd, autoencoder");
  kind_ = found->second;
  const CodecStack host = make_codec(expression, form);
  payload_bytes_ = host.codec->max_payload_bytes(shape);
  const bool released = form == Form::released;
  switch (kind_) {
    case Kind::none: break;
    case Kind::cast: bfloat16_ = p.choice("to") == "bf16"; break;
    case Kind::quantize:
      bits_ = static_cast<int>(p.integer("bits"));
      if (p.choice("packing") == "neighbour" || (bits_ != 2 && bits_ != 4 && bits_ != 8)) quantize_form_ |= quantize_neighbour;
      if (p.choice("norm") == "l2") quantize_form_ |= quantize_l2;
      if (released) quantize_form_ |= quantize_half_arithmetic;
      workspace_bytes_ = quantize_workspace_bytes(shape_.rows(), shape_.columns(), quantize_form_);
      break;
    case Kind::topk:
      kept_ = host.codec->travel_shape(shape).elements();
      half_ = p.choice("values") == "f16";
      index_form_ = released || p.choice("index") == "int64" ? index_form_int64 : p.choice("index") == "int32" ? index_form_int32 : index_form_compact;
      workspace_bytes_ = std::max(topk_workspace_bytes(n_, kept_), sparse_workspace_bytes(n_, kept_));
      break;
    case Kind::randomk:
      kept_ = host.codec->travel_shape(shape).elements();
      half_ = p.choice("values") == "f16";
      seed_ = static_cast<std::uint64_t>(p.integer("seed"));
      if (p.flag("unbiased") && kept_ > 0) factor_ = static_cast<float>(static_cast<double>(n_) / static_cast<double>(kept_));
      if (released) workspace_bytes_ = randomk_workspace_bytes(n_, kept_);
      break;
    case Kind::powersgd: make_powersgd(p, shape); break;
    case Kind::autoencoder: make_autoencoder(p); break;
  }
}

// Random orthonormal weights: what a code costs does not depend on what it was fitted to.
void DeviceCodec::make_autoencoder(const Parameters& p) {
  AutoencoderOptions options;
  options.width = p.integer("width");
  options.fraction = p.real("fraction");
  options.start = AutoencoderOptions::Start::orthonormal;
  options.seed = static_cast<std::uint64_t>(p.integer("seed"));
  Autoencoder host(options);
  width_ = host.width_for(shape_.columns());
  half_ = p.choice("wire") == "f16";
  workspace_bytes_ = autoencoder_workspace_bytes(shape_.rows(), width_);
  const auto upload = [&](std::span<const float> weights) {
    auto* to = static_cast<float*>(seam_.allocate(weights.size_bytes()));
    seam_.write(to, weights.data(), weights.size_bytes());
    return to;
  };
  left_ = upload(host.encoder(shape_.columns()));
  right_ = upload(host.decoder(shape_.columns()));
}

void* DeviceCodec::workspace() {
  if (workspace_bytes_ == 0) return nullptr;
  if (seam_.workspace) return seam_.workspace(workspace_bytes_);
  if (own_workspace_ == nullptr) own_workspace_ = seam_.allocate(workspace_bytes_);
  return own_workspace_;
}

void DeviceCodec::encode(const float* x, const MessageKey& key, void* payload, std::uint32_t* status) {
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  switch (kind_) {
    case Kind::none: seam_.call<thinwire_cuda_none_decode_fn>("thinwire_cuda_none_decode", x, n_, static_cast<float*>(payload), 0); return;
    case Kind::cast: seam_.call<thinwire_cuda_cast_encode_fn>("thinwire_cuda_cast_encode", x, n_, bfloat16_, payload, status); return;
    case Kind::quantize:
      seam_.call<thinwire_cuda_quantize_encode_fn>("thinwire_cuda_quantize_encode", x, rows, columns, bits_, quantize_form_, payload, workspace(), status);
      return;
    case Kind::topk:
      seam_.call<thinwire_cuda_topk_encode_fn>("thinwire_cuda_topk_encode", x, n_, kept_, half_, index_form_, payload, workspace(), status);
      return;
    case Kind::randomk:
      if (form_ == Form::released)
        seam_.call<thinwire_cuda_randomk_released_encode_fn>("thinwire_cuda_randomk_released_encode", x, n_, kept_, seed_, key.random_stream(), factor_, half_,
                                                             payload, workspace(), status);
      else
        seam_.call<thinwire_cuda_randomk_gather_fn>("thinwire_cuda_randomk_gather", x, n_, kept_, seed_, key.random_stream(), factor_, half_, 1, payload,
                                                    status);
      return;
    case Kind::powersgd: encode_powersgd(x, key, payload, status); return;
    case Kind::autoencoder:
      seam_.call<thinwire_cuda_autoencoder_encode_fn>("thinwire_cuda_autoencoder_encode", x, rows, columns, width_, left_, half_, payload, workspace(), status);
      return;
  }
}

void DeviceCodec::decode(const void* payload, const MessageKey& key, float* out, bool add, std::uint32_t* status) {
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  const int adds = add ? 1 : 0;
  switch (kind_) {
    case Kind::none: seam_.call<thinwire_cuda_none_decode_fn>("thinwire_cuda_none_decode", payload, n_, out, adds); return;
    case Kind::cast: seam_.call<thinwire_cuda_cast_decode_fn>("thinwire_cuda_cast_decode", payload, n_, bfloat16_, out, adds, status); return;
    case Kind::quantize:
      seam_.call<thinwire_cuda_quantize_decode_fn>("thinwire_cuda_quantize_decode", payload, rows, columns, bits_, quantize_form_, out, adds, status);
      return;
    case Kind::topk:
      seam_.call<thinwire_cuda_sparse_scatter_fn>("thinwire_cuda_sparse_scatter", index_of(payload), index_form_, n_, kept_, payload, half_, out, adds,
                                                  workspace(), status);
      return;
    case Kind::randomk:
      if (form_ == Form::released)
        seam_.call<thinwire_cuda_randomk_released_decode_fn>("thinwire_cuda_randomk_released_decode", payload, half_, n_, kept_, out, adds, workspace(), status);
      else
        seam_.call<thinwire_cuda_randomk_scatter_fn>("thinwire_cuda_randomk_scatter", payload, half_, n_, kept_, seed_, key.random_stream(), 1.0f, out, adds,
                                                     status);
      return;
    case Kind::powersgd: decode_powersgd(payload, out, adds, status); return;
    case Kind::autoencoder:
      seam_.call<thinwire_cuda_autoencoder_decode_fn>("thinwire_cuda_autoencoder_decode", payload, rows, columns, width_, right_, half_, out, adds, workspace(),
                                                      status);
      return;
  }
}

void DeviceCodec::unpack_code(const void* payload, float* code, std::uint32_t* status) {
  TW_ASSERT(kind_ == Kind::autoencoder);
  seam_.call<thinwire_cuda_wire_unpack_fn>("thinwire_cuda_wire_unpack", payload, shape_.rows() * width_, half_, 1.0f, code, 0, status);
}

void DeviceCodec::decode_backward(const void* payload, const MessageKey& key, const float* gradient, float* travel, std::uint32_t* status, const float* code,
                                  float* decoder_gradient) {
  TW_ASSERT(kind_ == Kind::topk || kind_ == Kind::randomk || kind_ == Kind::autoencoder);
  TW_ASSERT((code == nullptr) == (decoder_gradient == nullptr));
  if (kind_ == Kind::topk)
    seam_.call<thinwire_cuda_sparse_gather_fn>("thinwire_cuda_sparse_gather", index_of(payload), index_form_, n_, kept_, gradient, travel, workspace(), status);
  else if (kind_ == Kind::autoencoder)
    seam_.call<thinwire_cuda_autoencoder_decode_backward_fn>("thinwire_cuda_autoencoder_decode_backward", gradient, shape_.rows(), shape_.columns(), width_,
                                                             right_, code, travel, decoder_gradient, workspace());
  else if (form_ == Form::released)
    seam_.call<thinwire_cuda_randomk_released_gather_fn>("thinwire_cuda_randomk_released_gather", gradient, n_, kept_, seed_, key.random_stream(), travel,
                                                         workspace());
  else
    seam_.call<thinwire_cuda_randomk_gather_fn>("thinwire_cuda_randomk_gather", gradient, n_, kept_, seed_, key.random_stream(), 1.0f, 0, 0,
                                                static_cast<void*>(travel), status);
}

void DeviceCodec::encode_backward(const void* payload, const MessageKey& key, const float* travel, float* gradient, std::uint32_t* status, const float* x,
                                  float* encoder_gradient) {
  TW_ASSERT(kind_ == Kind::topk || kind_ == Kind::randomk || kind_ == Kind::autoencoder);
  TW_ASSERT((x == nullptr) == (encoder_gradient == nullptr));
  if (kind_ == Kind::topk)
    seam_.call<thinwire_cuda_sparse_scatter_fn>("thinwire_cuda_sparse_scatter", index_of(payload), index_form_, n_, kept_, static_cast<const void*>(travel), 0,
                                                gradient, 0, workspace(), status);
  else if (kind_ == Kind::autoencoder)
    seam_.call<thinwire_cuda_autoencoder_encode_backward_fn>("thinwire_cuda_autoencoder_encode_backward", travel, shape_.rows(), shape_.columns(), width_, left_,
                                                             x, gradient, encoder_gradient, workspace());
  else if (form_ == Form::released)
    seam_.call<thinwire_cuda_randomk_released_scatter_fn>("thinwire_cuda_randomk_released_scatter", travel, n_, kept_, seed_, key.random_stream(), factor_,
                                                          gradient, workspace());
  else
    seam_.call<thinwire_cuda_randomk_scatter_fn>("thinwire_cuda_randomk_scatter", static_cast<const void*>(travel), 0, n_, kept_, seed_, key.random_stream(),
                                                 factor_, gradient, 0, status);
}

}  // namespace thinwire
